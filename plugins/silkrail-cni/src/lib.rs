//! Every CNI plugin of Silkrail, by the names that configurations call them.
//!
//! The executable `silkrail-cni` is all of them; `silkrail gc` takes back with them what nobody else will.

#![forbid(unsafe_code)]

use child::Child;
use ipam_plugin::SilkrailIpam;
use ipvlan_plugin::Ipvlan;
use macvlan_plugin::Macvlan;
use plugin::{Adapter, Journaled};
use rdma_plugin::Rdma;
use sriov_plugin::Sriov;

static IPAM: Adapter<SilkrailIpam> = Adapter::without_ipam(SilkrailIpam);
static MACVLAN: Adapter<Child<Macvlan>> = Adapter::with_ipam(Child(Macvlan), &IPAM);
static IPVLAN: Adapter<Child<Ipvlan>> = Adapter::with_ipam(Child(Ipvlan), &IPAM);
static SRIOV: Adapter<Sriov> = Adapter::with_ipam(Sriov, &IPAM);
static RDMA: Adapter<Rdma> = Adapter::without_ipam(Rdma);

/// Names and plugins. Each name also counts with `silkrail-` before it.
pub const PLUGINS: [(&str, &dyn Journaled); 6] = [
    ("macvlan", &MACVLAN),
    ("ipvlan", &IPVLAN),
    ("sriov", &SRIOV),
    ("rdma", &RDMA),
    ("silkrail-ipam", &IPAM),
    ("spiderpool", &IPAM),
];

/// The plugin of a name.
pub fn find(name: &str) -> Option<&'static dyn Journaled> {
    let short = name.strip_prefix("silkrail-");
    PLUGINS.into_iter().find(|(known, _)| *known == name || Some(*known) == short).map(|(_, plugin)| plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_found_by_its_name_with_and_without_the_prefix() {
        for (name, plugin) in PLUGINS {
            assert_eq!(find(name).unwrap().name(), plugin.name());
            assert_eq!(find(&format!("silkrail-{name}")).unwrap().name(), plugin.name());
        }
        assert!(find("bridge").is_none() && find("silkrail-").is_none() && find("").is_none());
    }
}
