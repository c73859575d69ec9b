//! All CNI plugins of Silkrail, by the `type` of a configuration.
//!
//! The executable `silkrail-cni` contains all of them. `silkrail gc` uses them to remove stale attachments.

#![forbid(unsafe_code)]

use child_link::ChildLinkPlugin;
use ib_sriov_plugin::IbSriovPlugin;
use ifacer_plugin::IfacerPlugin;
use ipam_plugin::IpamPlugin;
use ipoib_plugin::IpoibKind;
use ipvlan_plugin::IpvlanKind;
use macvlan_plugin::MacvlanKind;
use plugin_runtime::{Adapter, RevertByJournal};
use rdma_plugin::RdmaPlugin;
use sriov_plugin::SriovPlugin;

static IPAM: Adapter<IpamPlugin> = Adapter::without_ipam(IpamPlugin);
static MACVLAN: Adapter<ChildLinkPlugin<MacvlanKind>> =
    Adapter::with_ipam(ChildLinkPlugin(MacvlanKind), &IPAM);
static IPVLAN: Adapter<ChildLinkPlugin<IpvlanKind>> = Adapter::with_ipam(ChildLinkPlugin(IpvlanKind), &IPAM);
static IPOIB: Adapter<ChildLinkPlugin<IpoibKind>> = Adapter::with_ipam(ChildLinkPlugin(IpoibKind), &IPAM);
static SRIOV: Adapter<SriovPlugin> = Adapter::with_ipam(SriovPlugin, &IPAM);
static IB_SRIOV: Adapter<IbSriovPlugin> = Adapter::with_ipam(IbSriovPlugin, &IPAM);
static IFACER: Adapter<IfacerPlugin> = Adapter::without_ipam(IfacerPlugin);
static RDMA: Adapter<RdmaPlugin> = Adapter::without_ipam(RdmaPlugin);

/// The plugins by name. Each name is also valid with the prefix `silkrail-`.
pub const PLUGINS: [(&str, &dyn RevertByJournal); 9] = [
    ("macvlan", &MACVLAN),
    ("ipvlan", &IPVLAN),
    ("ipoib", &IPOIB),
    ("sriov", &SRIOV),
    ("ib-sriov", &IB_SRIOV),
    ("rdma", &RDMA),
    ("ifacer", &IFACER),
    ("silkrail-ipam", &IPAM),
    ("spiderpool", &IPAM),
];

/// Returns the plugin with that name, with or without the prefix `silkrail-`.
pub fn find(name: &str) -> Option<&'static dyn RevertByJournal> {
    let short = name.strip_prefix("silkrail-");
    PLUGINS.into_iter().find(|(known, _)| *known == name || Some(*known) == short).map(|(_, plugin)| plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_found_by_its_name_with_and_without_the_prefix() {
        for (name, _) in PLUGINS {
            // Spiderpool's configurations select the IPAM plugin by that name.
            let plugin = if name == "spiderpool" { "silkrail-ipam" } else { name };
            assert_eq!(find(name).unwrap().name(), plugin);
            assert_eq!(find(&format!("silkrail-{name}")).unwrap().name(), plugin);
        }
        for unknown in ["", "silkrail-", "bridge", "silkrail-silkrail-macvlan", "macvlan-silkrail"] {
            assert!(find(unknown).is_none(), "{unknown}");
        }
    }
}
