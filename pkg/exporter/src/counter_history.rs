//! Counters over time: what they would be if they never began anew, and whose the increments are.

mod pods;
mod port;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    Attribution, PodInfo, catalogue::Direction, counter_layout::CounterLayout, counter_values::CounterValues,
};

pub(crate) use port::unwrap_counter;

use self::{pods::PodAccounts, port::PortHistory};

/// Whose everything on a device is at a moment, and how that is known.
pub(crate) type PortUser = Option<(Arc<PodInfo>, Attribution)>;

/// A port of the node: the device's number, and the port's; 0 is the device as a whole.
pub(crate) type PortKey = (u32, u32);

/// Where a pod has an account: device, port, attribution.
pub(crate) type AccountKey = (String, u32, Attribution);

#[derive(Debug, Default)]
pub(crate) struct CounterHistory {
    ports: HashMap<PortKey, PortHistory>,
    pods: PodAccounts,
}

impl CounterHistory {
    /// The layout that a port had.
    pub(crate) fn layout(&self, port: PortKey) -> Option<&Arc<CounterLayout>> {
        self.ports.get(&port).map(|ledger| &ledger.layout)
    }

    /// Enters what a port's counters say now: their values become those that would be shown had they never begun anew,
    /// and the increments go to the pod that has had the port to itself since the last entry.
    pub(crate) fn update_port(
        &mut self,
        port: PortKey,
        device: &str,
        owner: PortUser,
        sheet: &mut CounterValues,
    ) {
        let (ledger, deltas) = match self.ports.remove(&port) {
            Some(mut ledger) => {
                let deltas = ledger.update(sheet);
                (ledger, Some(deltas))
            }
            None => (PortHistory::new(sheet), None),
        };
        let ledger = self.ports.entry(port).or_insert(ledger);
        let former = std::mem::replace(&mut ledger.owner, owner.clone());
        let stayed = owner.as_ref().map(|(pod, _)| pod) == former.as_ref().map(|(pod, _)| pod);
        // A pod's account has every counter, so its sums stay made as they are.
        let whole = CounterValues { layout: sheet.layout.clone(), values: Vec::new() };
        ledger.drop_changed_sums(sheet);
        if let Some((pod, attribution)) = owner {
            let key = (device.to_owned(), port.1, attribution);
            let account = self.pods.of(pod).entry(key);
            let account = account.or_insert_with(|| whole.empty());
            account.set_layout(&whole.layout);
            if let Some(deltas) = deltas.as_ref().filter(|_| stayed) {
                account.add(deltas);
                return;
            }
        }
        if let Some(deltas) = deltas {
            ledger.add_unattributed(&deltas);
        }
    }

    /// Adds increments to a pod's account.
    pub(crate) fn add_to_account(&mut self, pod: Arc<PodInfo>, key: AccountKey, increments: &CounterValues) {
        let account = self.pods.of(pod).entry(key).or_insert_with(|| increments.empty());
        account.set_layout(&increments.layout);
        account.add(increments);
    }

    /// Replaces a pod's account.
    pub(crate) fn set_account(&mut self, pod: Arc<PodInfo>, key: AccountKey, totals: CounterValues) {
        self.pods.of(pod).insert(key, totals);
    }

    /// Forgets the ports that were not entered since the last call, and the pods that are gone.
    pub(crate) fn forget(&mut self, lives: impl Fn(&PodInfo) -> bool) {
        self.ports.retain(|_, port| std::mem::take(&mut port.seen));
        self.pods.retain(lives);
    }

    /// Forgets accounts on devices that are not called so any more.
    pub(crate) fn forget_devices(&mut self, is_there: impl Fn(&str) -> bool) {
        self.pods.forget_devices(is_there);
    }

    /// What pods have done since they were first seen.
    pub(crate) fn accounts(&self) -> &BTreeMap<Arc<PodInfo>, BTreeMap<AccountKey, CounterValues>> {
        &self.pods.accounts
    }

    /// Bytes of a port that no pod could be named for.
    pub(crate) fn unattributed(&self, port: PortKey) -> impl Iterator<Item = (Direction, u64)> {
        let ledger = self.ports.get(&port);
        ledger.into_iter().flat_map(|ledger| ledger.unattributed.iter().map(|(way, bytes)| (*way, *bytes)))
    }
}

#[cfg(test)]
mod tests;
