//! Counters by pod.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::key::AccountKey;
use crate::{Attribution, PodInfo, counter_values::CounterValues};

/// The accounts of all pods. An account has the counters of a pod on one port.
#[derive(Debug, Default)]
pub(super) struct PodAccounts {
    pub(super) accounts: BTreeMap<Arc<PodInfo>, BTreeMap<AccountKey, CounterValues>>,
    /// The sequence number of each pod's first account.
    opened: HashMap<Arc<PodInfo>, usize>,
    count: usize,
}

impl PodAccounts {
    /// Returns the accounts of a pod; creates them if they do not exist.
    pub(super) fn of(&mut self, pod: Arc<PodInfo>) -> &mut BTreeMap<AccountKey, CounterValues> {
        if !self.opened.contains_key(&pod) {
            self.count += 1;
            self.opened.insert(pod.clone(), self.count);
        }
        self.accounts.entry(pod).or_default()
    }

    /// Keeps the accounts of pods that exist. A recreated pod has the name of the former one, which kubelet still lists for a
    /// while: the former one is removed when the new one has an account.
    pub(super) fn retain(&mut self, lives: impl Fn(&PodInfo) -> bool) {
        let mut newest: HashMap<(&str, &str), usize> = HashMap::new();
        for (pod, opened) in self.opened.iter().filter(|(pod, _)| lives(pod)) {
            let of_name = newest.entry((&pod.namespace, &pod.name)).or_default();
            *of_name = (*of_name).max(*opened);
        }
        let is_newest = |pod: &PodInfo| {
            let of_name = newest.get(&(&*pod.namespace, &*pod.name));
            of_name.is_some() && of_name == self.opened.get(pod)
        };
        self.accounts.retain(|pod, _| is_newest(pod));
        // The former pod keeps its sequence number. Otherwise it would be the newest when it is seen again.
        self.opened.retain(|pod, _| lives(pod));
    }

    /// Removes accounts on devices whose names no longer exist: a pod can rename its device any number of times. Accounts by
    /// PSN and PID counter are kept, as they do not depend on the device's reading.
    pub(super) fn forget_devices(&mut self, is_there: impl Fn(&str) -> bool) {
        for accounts in self.accounts.values_mut() {
            accounts.retain(|(device, _, how), _| {
                is_there(device) || matches!(how, Attribution::Psn | Attribution::PidCounter)
            });
        }
    }
}
