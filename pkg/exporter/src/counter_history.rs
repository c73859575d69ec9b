//! Counters over time: values without wraparound, and the attribution of increments to pods.

mod key;
mod pods;
mod port;
pub(crate) mod saved;
mod saved_port;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{PodInfo, catalogue::Direction, counter_layout::CounterLayout, counter_values::CounterValues};

pub(crate) use key::{AccountKey, PortKey, PortUser};
pub(crate) use port::unwrap_counter;

use self::{pods::PodAccounts, port::PortHistory, saved_port::SavedPort};

#[derive(Debug, Default)]
pub(crate) struct CounterHistory {
    ports: HashMap<PortKey, PortHistory>,
    pods: PodAccounts,
    /// The offsets of a former daemon, of ports that were not read yet.
    saved: HashMap<PortKey, SavedPort>,
}

impl CounterHistory {
    /// Returns the layout of a port in the last collection.
    pub(crate) fn layout(&self, port: PortKey) -> Option<&Arc<CounterLayout>> {
        self.ports.get(&port).map(|history| &history.layout)
    }

    /// Adds a reading of a port. Its values are replaced by values without wraparound. The increments are attributed to the
    /// pod if it has been the only user of the port since the last reading. `function` identifies the device within a boot.
    pub(crate) fn update_port(
        &mut self,
        port: PortKey,
        (device, function): (&str, &str),
        owner: PortUser,
        counter_values: &mut CounterValues,
    ) {
        let (history, deltas) = match self.ports.remove(&port) {
            Some(mut history) => {
                let deltas = history.update(counter_values);
                (history, Some(deltas))
            }
            None => match self.take_saved(port, function) {
                Some(saved) => {
                    let mut history = PortHistory::restored(function, counter_values, &saved);
                    let deltas = history.update(counter_values);
                    (history, Some(deltas))
                }
                None => (PortHistory::new(function, counter_values), None),
            },
        };
        let history = self.ports.entry(port).or_insert(history);
        let former = std::mem::replace(&mut history.owner, owner.clone());
        let stayed = owner.as_ref().map(|(pod, _)| pod) == former.as_ref().map(|(pod, _)| pod);
        // The account of a pod keeps every counter, so the composition of its sums does not change.
        let whole = CounterValues { layout: counter_values.layout.clone(), values: Vec::new() };
        history.drop_changed_sums(counter_values);
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
            history.add_unattributed(&deltas);
        }
    }

    /// Returns how often the counters of a port were reset, as far as that is known.
    pub(crate) fn resets(&self, port: PortKey) -> Option<u64> {
        self.ports.get(&port).map(|history| history.resets)
    }

    /// Adds increments to an account of a pod.
    pub(crate) fn add_to_account(&mut self, pod: Arc<PodInfo>, key: AccountKey, increments: &CounterValues) {
        let account = self.pods.of(pod).entry(key).or_insert_with(|| increments.empty());
        account.set_layout(&increments.layout);
        account.add(increments);
    }

    /// Replaces an account of a pod.
    pub(crate) fn set_account(&mut self, pod: Arc<PodInfo>, key: AccountKey, totals: CounterValues) {
        self.pods.of(pod).insert(key, totals);
    }

    /// Removes ports without a reading since the last call, and pods that are gone.
    pub(crate) fn forget(&mut self, lives: impl Fn(&PodInfo) -> bool) {
        self.ports.retain(|_, port| std::mem::take(&mut port.seen));
        self.pods.retain(lives);
    }

    /// Removes accounts on devices whose names no longer exist.
    pub(crate) fn forget_devices(&mut self, is_there: impl Fn(&str) -> bool) {
        self.pods.forget_devices(is_there);
    }

    /// Returns the accounts of all pods: their counters since they were first seen.
    pub(crate) fn accounts(&self) -> &BTreeMap<Arc<PodInfo>, BTreeMap<AccountKey, CounterValues>> {
        &self.pods.accounts
    }

    /// Returns the bytes of a port that could not be attributed to a pod.
    pub(crate) fn unattributed(&self, port: PortKey) -> impl Iterator<Item = (Direction, u64)> {
        let history = self.ports.get(&port);
        history.into_iter().flat_map(|history| history.unattributed.iter().map(|(way, bytes)| (*way, *bytes)))
    }
}

#[cfg(test)]
mod tests;
