//! The changes that the ADD of a VF makes on the node, in the format of the journals of sriov and ib-sriov.
#![warn(clippy::wildcard_enum_match_arm)]

use std::fmt;

use exclusive_rdma::RdmaChange;
use plugin_runtime::{Error, Node, delegate::DelegateAdd, pod_map_entry::PodMapWrite};
use pod_routing::RailRules;
use serde::{Deserialize, Serialize};
use state::claim::DeviceClaim;

use crate::{DeviceInfoWrite, LinkMove, SavedAdminMac, VfConfigured, VfGuids};

/// A change on the node, as the journal records it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// The VF was claimed.
    Claim(DeviceClaim),
    /// The IPAM plugin assigned addresses.
    Delegated(DelegateAdd),
    /// The VF's administrative MAC may have been changed.
    Mac(SavedAdminMac),
    /// The VF's link was moved to the pod. It is recorded before the settings, GUIDs and RDMA device, because changes are
    /// reverted in reverse order and these must be first: some drivers do not let an untrusted VF set its own former MAC,
    /// and the other two create another link on the host, which gets the name and the state of the former one.
    Move(LinkMove),
    /// The VF was configured through its PF.
    Configured(VfConfigured),
    /// The VF got other GUIDs.
    Guids(VfGuids),
    /// A change that gives the pod the VF's RDMA device.
    Rdma(RdmaChange),
    /// The rules of a rail were added in the pod.
    Rules(RailRules),
    /// The device information file was written.
    DeviceInfo(DeviceInfoWrite),
    /// An entry was written to the pod map.
    Published(PodMapWrite),
}

impl From<RdmaChange> for Change {
    fn from(change: RdmaChange) -> Self {
        Self::Rdma(change)
    }
}

impl From<DeviceClaim> for Change {
    fn from(claim: DeviceClaim) -> Self {
        Self::Claim(claim)
    }
}

impl From<DelegateAdd> for Change {
    fn from(call: DelegateAdd) -> Self {
        Self::Delegated(call)
    }
}

impl From<PodMapWrite> for Change {
    fn from(entry: PodMapWrite) -> Self {
        Self::Published(entry)
    }
}

impl From<DeviceInfoWrite> for Change {
    fn from(file: DeviceInfoWrite) -> Self {
        Self::DeviceInfo(file)
    }
}

impl From<RailRules> for Change {
    fn from(rules: RailRules) -> Self {
        Self::Rules(rules)
    }
}

impl journal::Change for Change {
    type Node = Node;
    type Error = Error;

    fn revert(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Claim(claim) => Ok(claim.revert(&node.state, node.claims_lock().at())?),
            Self::Delegated(call) => call.revert(node),
            Self::Mac(mac) => mac.revert(node),
            Self::Move(link_move) => link_move.revert(node),
            Self::Configured(settings) => settings.revert(node),
            Self::Guids(guids) => guids.revert(node),
            Self::Rdma(change) => change.revert(node),
            Self::Rules(rules) => rules.revert(),
            Self::DeviceInfo(file) => file.revert(),
            Self::Published(entry) => entry.revert(node),
        }
    }

    fn verify(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Claim(claim) => Ok(claim.verify(&node.state, node.claims_lock().at())?),
            Self::Move(link_move) => link_move.verify(),
            Self::Configured(settings) => settings.verify(node),
            Self::Guids(guids) => guids.verify(node),
            Self::Rdma(change) => change.verify(node),
            Self::Rules(rules) => rules.verify(),
            // The IPAM plugin has a CHECK of its own; the others have no state to compare.
            Self::Delegated(_) | Self::Mac(_) | Self::DeviceInfo(_) | Self::Published(_) => Ok(()),
        }
    }

    fn step(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Delegated(_) => "ipam",
            Self::Mac(_) => "mac",
            Self::Move(_) => "move",
            Self::Configured(_) => "configure",
            Self::Guids(_) => "guids",
            Self::Rdma(change) => change.step(),
            Self::Rules(_) => "rules",
            Self::DeviceInfo(_) => "deviceinfo",
            Self::Published(_) => "podmap",
        }
    }

    fn survives_reboot(&self) -> bool {
        match self {
            Self::Claim(_) | Self::Delegated(_) | Self::DeviceInfo(_) | Self::Published(_) => true,
            Self::Mac(_) | Self::Move(_) | Self::Configured(_) | Self::Guids(_) | Self::Rules(_) => false,
            Self::Rdma(change) => change.survives_reboot(),
        }
    }

    fn revert_last(&self) -> bool {
        // The VF and the pod's addresses must stay claimed until all other changes are reverted.
        match self {
            Self::Claim(_) | Self::Delegated(_) => true,
            Self::Rdma(change) => change.revert_last(),
            Self::Mac(_)
            | Self::Move(_)
            | Self::Configured(_)
            | Self::Guids(_)
            | Self::Rules(_)
            | Self::DeviceInfo(_)
            | Self::Published(_) => false,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(claim) => claim.fmt(f),
            Self::Delegated(call) => call.fmt(f),
            Self::Mac(mac) => mac.fmt(f),
            Self::Move(link_move) => link_move.fmt(f),
            Self::Configured(settings) => settings.fmt(f),
            Self::Guids(guids) => guids.fmt(f),
            Self::Rdma(change) => change.fmt(f),
            Self::Rules(rules) => rules.fmt(f),
            Self::DeviceInfo(file) => file.fmt(f),
            Self::Published(entry) => entry.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use identifiers::{Attachment, VfIndex};
    use journal::Change as _;
    use rdma::Guid;
    use serde_json::json;

    use super::*;
    use crate::HostLinkState;

    #[test]
    fn what_the_kernel_forgets_does_not_survive_a_reboot_and_claims_are_released_last() {
        let owner = Attachment { container_id: "a".parse().unwrap(), ifname: "net1".parse().unwrap() };
        let (vf, pf) = ("0000:af:00.2".parse().unwrap(), "0000:af:00.0".parse().unwrap());
        let index = VfIndex(0);
        let home = HostLinkState::from_go_state("eth0".parse().unwrap(), None, None);
        let mac = [2, 0, 0, 0, 0, 1];
        let mac = identifiers::MacAddr::from_bytes(&mac).unwrap();
        let claim = json!({
            "part": "vf", "function": "0000:af:00.2", "owner": {"containerId": "a", "ifname": "net1"},
            "netns": "/run/netns/a", "netnsId": {"dev": 4, "ino": 5}, "bootId": "b",
        });
        let claim: DeviceClaim = serde_json::from_value(claim).unwrap();
        for (change, step, survives, is_last) in [
            (Change::Claim(claim), "claim", true, true),
            (Change::Published(PodMapWrite::of(&owner)), "podmap", true, false),
            (Change::Mac(SavedAdminMac::from_go_state(&owner, vf, pf, index, mac)), "mac", false, false),
            (Change::Move(LinkMove::from_go_state(&owner, vf.into(), None, home)), "move", false, false),
            (
                Change::Configured(VfConfigured::from_go_state(&owner, vf, pf, index, Vec::new())),
                "configure",
                false,
                false,
            ),
            (
                Change::Guids(VfGuids::from_go_state(&owner, vf, pf, index, Guid(0), None)),
                "guids",
                false,
                false,
            ),
        ] {
            let is = (change.step(), change.survives_reboot(), change.revert_last());
            assert_eq!(is, (step, survives, is_last), "{change:?}");
        }
    }
}
