//! The owners of addresses, as recorded by the workers.

use std::{collections::BTreeMap, sync::Mutex};

use serde_json::Value;

use crate::counts::CallCounts;

/// The addresses that ADDs have returned, with the container IDs of their attachments.
#[derive(Debug, Default)]
pub(crate) struct AssignedAddresses {
    owners: Mutex<BTreeMap<String, String>>,
}

impl AssignedAddresses {
    /// Records the addresses of an ADD's result. It is an error if another attachment has one of them.
    pub(crate) fn given(&self, tally: &CallCounts, result: &Value, owner: &str) {
        for address in silkrail_tests::rail::ips(result) {
            let former = self.owners.lock().unwrap().insert(address.clone(), owner.to_owned());
            if let Some(former) = former {
                tally.error(format!("{address} was assigned to {owner} while {former} had it"));
            }
        }
    }

    /// Removes the addresses of an attachment. Called before its DEL, since another attachment may get them before DEL returns.
    pub(crate) fn returned(&self, owner: &str) {
        self.owners.lock().unwrap().retain(|_, it| it != owner);
    }
}
