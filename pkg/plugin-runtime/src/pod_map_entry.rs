//! An attachment's entry in the pod map, as a change that can be reverted.

use std::fmt;

use cni::{AddRequest, AddResult};
use identifiers::Attachment;
use podmap::{Entry, PodRef as PodName};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::{Error, Node, PodNetns};

/// The change that an attachment's entry was written to the pod map.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PodMapWrite {
    attachment: Attachment,
}

impl PodMapWrite {
    /// Returns the change for `attachment`. Nothing is written yet.
    pub fn of(attachment: &Attachment) -> Self {
        Self { attachment: attachment.clone() }
    }

    /// Writes the entry.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn publish(&self, node: &Node, entry: &Entry) -> Result<(), Error> {
        // A malformed file in its place is quarantined, not overwritten.
        self.entry(node)?;
        Ok(node.state.podmap().write(&self.attachment, entry)?)
    }

    /// Removes the entry.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn revert(&self, node: &Node) -> Result<(), Error> {
        // A malformed entry is quarantined, not deleted.
        self.entry(node)?;
        Ok(node.state.podmap().remove(&self.attachment)?)
    }

    /// Reads the current entry. A malformed one is quarantined and counts as none.
    fn entry(&self, node: &Node) -> Result<Option<Entry>, Error> {
        read(node, &self.attachment)
    }
}

impl fmt::Display for PodMapWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod map entry of {}", self.attachment)
    }
}

/// Reads an attachment's entry in the pod map. A malformed one is quarantined and counts as none.
///
/// # Errors
/// If it cannot be read or quarantined.
pub fn read(node: &Node, attachment: &Attachment) -> Result<Option<Entry>, Error> {
    let map = node.state.podmap();
    match map.read(attachment) {
        Err(
            error @ (podmap::Error::Malformed { .. }
            | podmap::Error::File(statefile::Error::NotRegular { .. })),
        ) => {
            let file = map.quarantine(attachment)?;
            warn!(%error, file = %file.display(), "an entry of the pod map cannot be read and was quarantined");
            Ok(None)
        }
        read => Ok(read?),
    }
}

/// Returns the entry of a new attachment, without its RDMA devices.
///
/// # Errors
/// If the boot ID cannot be read.
pub fn new_entry(
    plugin: &str,
    request: &AddRequest<'_>,
    pod: &PodNetns,
    result: &AddResult,
) -> Result<Entry, Error> {
    let mut entry = Entry::new(plugin, request.attachment.clone());
    let args = &request.common.args;
    let id = pod.id();
    entry.boot_id = journal::boot_id()?.into();
    entry.pod = args.get("K8S_POD_NAME").map(|name| PodName {
        namespace: args.get("K8S_POD_NAMESPACE").unwrap_or_default().to_owned(),
        name: name.to_owned(),
        uid: args.get("K8S_POD_UID").map(str::to_owned),
    });
    entry.container.netns_path.clone_from(&request.netns);
    (entry.container.netns_dev, entry.container.netns_ino) = (id.dev, id.ino);
    entry.container.netns_cookie = id.cookie;
    entry.network.name.clone_from(&request.common.conf.name);
    if let Some(interface) = result.interfaces.first() {
        entry.network.mac.clone_from(&interface.mac);
        entry.network.mtu = interface.mtu;
    }
    entry.network.ips = result.ips.iter().map(|ip| ip.address.to_string()).collect();
    Ok(entry)
}
