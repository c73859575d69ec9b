//! Whose an address is, as those who called know it.

use std::{collections::BTreeMap, sync::Mutex};

use serde_json::Value;

use crate::counts::CallCounts;

/// The addresses that attachments were told are theirs.
#[derive(Debug, Default)]
pub(crate) struct AssignedAddresses {
    owners: Mutex<BTreeMap<String, String>>,
}

impl AssignedAddresses {
    /// Notes the addresses of an ADD's result. Each must be nobody's.
    pub(crate) fn given(&self, tally: &CallCounts, result: &Value, owner: &str) {
        for address in silkrail_tests::rail::ips(result) {
            let former = self.owners.lock().unwrap().insert(address.clone(), owner.to_owned());
            if let Some(former) = former {
                tally.wrong(format!("{address} was given to {owner} while {former} had it"));
            }
        }
    }

    /// Forgets the addresses of an attachment; before its DEL, for they may be another's before that returns.
    pub(crate) fn returned(&self, owner: &str) {
        self.owners.lock().unwrap().retain(|_, is| is != owner);
    }
}
