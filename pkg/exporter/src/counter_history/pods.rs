//! The accounts of pods.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::AccountKey;
use crate::{Attribution, PodInfo, counter_values::CounterValues};

/// The accounts of pods.
#[derive(Debug, Default)]
pub(super) struct PodAccounts {
    pub(super) accounts: BTreeMap<Arc<PodInfo>, BTreeMap<AccountKey, CounterValues>>,
    /// Which pod had its first account when.
    opened: HashMap<Arc<PodInfo>, usize>,
    count: usize,
}

impl PodAccounts {
    /// A pod's accounts.
    pub(super) fn of(&mut self, pod: Arc<PodInfo>) -> &mut BTreeMap<AccountKey, CounterValues> {
        if !self.opened.contains_key(&pod) {
            self.count += 1;
            self.opened.insert(pod.clone(), self.count);
        }
        self.accounts.entry(pod).or_default()
    }

    /// Keeps those of pods that live. Of two with one name the node knows the former one for a while: it is gone once
    /// the new one has an account.
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
        // The former one keeps its place, or it would be the newest as soon as something is told of it again.
        self.opened.retain(|pod, _| lives(pod));
    }

    /// Forgets accounts on devices that are not called so any more: a pod may rename its device as often as it likes. What
    /// was counted for processes does not come from the device's reading.
    pub(super) fn forget_devices(&mut self, is_there: impl Fn(&str) -> bool) {
        for accounts in self.accounts.values_mut() {
            accounts.retain(|(device, _, how), _| {
                is_there(device) || matches!(how, Attribution::Psn | Attribution::PidCounter)
            });
        }
    }
}
