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
    let is_damaged = |error: &podmap::Error| match error {
        podmap::Error::Malformed { .. } => true,
        podmap::Error::File(error) => error.is_foreign(),
    };
    match map.read(attachment) {
        Err(error) if is_damaged(&error) => {
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

#[cfg(test)]
mod tests {
    use cni::{CallContext, CniArgs, IpConfig, NetConf, ResultInterface};
    use netns::NetNs;

    use super::*;

    #[test]
    fn a_new_entry_has_the_pod_and_all_of_its_addresses() {
        let pod = PodNetns::of(NetNs::current().unwrap()).unwrap();
        let interface = |name: &str, mtu| ResultInterface {
            name: name.into(),
            mac: Some(format!("c2:00:00:00:00:{mtu:02}")),
            mtu: Some(mtu),
            ..ResultInterface::default()
        };
        let ip =
            |address: &str| IpConfig { address: address.parse().unwrap(), gateway: None, interface: None };
        let result = AddResult {
            interfaces: vec![interface("net1", 15), interface("other", 90)],
            ips: vec![ip("10.7.0.5/24"), ip("fd00::5/64")],
            ..AddResult::default()
        };
        let entry = |args: &str| {
            let request = AddRequest {
                attachment: "c0ffee@net1".parse().unwrap(),
                netns: "/run/netns/a".into(),
                own_netns_allowed: false,
                common: CallContext {
                    conf: NetConf::parse(br#"{"name": "rail"}"#).unwrap(),
                    args: CniArgs::parse(args).unwrap(),
                    cni_path: Vec::new(),
                    stdin: &[],
                },
            };
            new_entry("macvlan", &request, &pod, &result).unwrap()
        };
        let whole = entry("IgnoreUnknown=1;K8S_POD_NAMESPACE=ai;K8S_POD_NAME=train-0;K8S_POD_UID=5d3f");
        let expected = PodName { namespace: "ai".into(), name: "train-0".into(), uid: Some("5d3f".into()) };
        assert_eq!(whole.pod, Some(expected));
        assert_eq!(whole.boot_id, journal::boot_id().unwrap());
        let (container, id) = (&whole.container, pod.id());
        assert_eq!(
            (container.netns_dev, container.netns_ino, container.netns_cookie),
            (id.dev, id.ino, id.cookie)
        );
        assert_eq!(container.netns_path, std::path::Path::new("/run/netns/a"));
        let network = &whole.network;
        assert_eq!((network.name.as_str(), network.ifname.as_str(), network.mtu), ("rail", "net1", Some(15)));
        assert_eq!(network.mac.as_deref(), Some("c2:00:00:00:00:15"));
        assert_eq!(network.ips, ["10.7.0.5/24", "fd00::5/64"]);
        assert_eq!(entry("IgnoreUnknown=1;K8S_POD_NAMESPACE=ai").pod, None, "it has no name");
        assert_eq!(entry("IgnoreUnknown=1;K8S_POD_NAME=train-0").pod.unwrap().uid, None);
    }
}
