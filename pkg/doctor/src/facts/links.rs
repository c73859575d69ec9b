//! The links of the host: attributes from sysfs, addresses from rtnetlink.

use ipnetwork::IpNetwork;
use serde::Serialize;

use super::netlink::NetlinkFacts;
use crate::{Known, host_root::HostRoot};

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LinkFacts {
    pub(crate) name: String,
    /// Empty if netlink could not be queried.
    pub(crate) altnames: Vec<String>,
    pub(crate) mtu: Known<u32>,
    /// Whether the link is administratively up (`IFF_UP`).
    pub(crate) up: Known<bool>,
    /// 1 if the link has a carrier; absent for a link that is down.
    pub(crate) carrier: Known<u8>,
    /// The speed in Mb/s; -1 if it is unknown.
    pub(crate) speed: Known<i64>,
    /// Addresses without those that the kernel assigns on its own; `None` if netlink could not be queried.
    pub(crate) addresses: Option<Vec<IpNetwork>>,
    /// Addresses for which duplicate address detection failed.
    pub(crate) duplicates: Vec<IpNetwork>,
    /// The bond or bridge that the link is a member of.
    pub(crate) controller: Option<String>,
    /// Whether that receives all packets of the link, so that no other link can be created on it.
    pub(crate) is_in_bridge: bool,
    /// Addresses with an unlimited lifetime, which an administrator assigned.
    pub(crate) permanent_addresses: Vec<IpNetwork>,
    pub(crate) lossless: CongestionControl,
    pub(crate) arp: ArpSettings,
}

/// How the kernel answers ARP requests and checks the source of packets: the stricter of the settings of the link and of all links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArpSettings {
    pub(crate) ignore: Option<u32>,
    pub(crate) announce: Option<u32>,
    pub(crate) rp_filter: Option<u32>,
}

/// Settings of congestion control that a vendor's driver (MLNX_OFED) shows in sysfs; the driver in the kernel tree does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CongestionControl {
    /// Priorities with ECN enabled at the notification point (receiver); `None` if the files do not exist.
    pub(crate) ecn_receiver: Option<Vec<u8>>,
    /// Priorities with ECN enabled at the reaction point (sender).
    pub(crate) ecn_sender: Option<Vec<u8>>,
    /// `pcp` or `dscp`.
    pub(crate) trust: Option<String>,
}

const CLASS: &str = "sys/class/net";
/// `IFF_UP`.
const UP: u32 = 1;

pub(crate) fn read(tree: &HostRoot, netlink: &NetlinkFacts) -> Vec<LinkFacts> {
    let names = tree.names(CLASS);
    // `bonding_masters` in the same directory is a file, not a link.
    let is_link = |name: &&String| tree.is_there(format!("{CLASS}/{name}/ifindex"));
    names.items().iter().filter(is_link).map(|name| link(tree, name, netlink)).collect()
}

fn link(tree: &HostRoot, name: &str, netlink: &NetlinkFacts) -> LinkFacts {
    let file = |file: &str| format!("{CLASS}/{name}/{file}");
    let addresses = netlink.addresses(name);
    let controller = tree.link(file("master"));
    LinkFacts {
        is_in_bridge: controller.as_ref().is_some_and(|controller| is_bridge(tree, controller)),
        altnames: netlink.altnames(name),
        permanent_addresses: netlink.permanent_addresses(name),
        mtu: tree.value(file("mtu")),
        up: tree.text(file("flags")).map(|flags| flags_of(&flags) & UP != 0),
        carrier: tree.value(file("carrier")),
        speed: tree.value(file("speed")),
        duplicates: addresses.as_ref().map(|(_, duplicates)| duplicates.clone()).unwrap_or_default(),
        addresses: addresses.map(|(addresses, _)| addresses),
        controller,
        lossless: CongestionControl {
            ecn_receiver: priorities(tree, &file("ecn/roce_np/enable")),
            ecn_sender: priorities(tree, &file("ecn/roce_rp/enable")),
            trust: tree.text(file("qos/trust")).into_option(),
        },
        arp: ArpSettings::read(tree, name),
        name: name.to_owned(),
    }
}

impl ArpSettings {
    fn read(tree: &HostRoot, link: &str) -> Self {
        let setting = |name: &str| {
            let of = |link: &str| tree.value(format!("proc/sys/net/ipv4/conf/{link}/{name}")).into_option();
            // The kernel uses the higher value of the two (IN_DEV_MAXCONF).
            of(link).max(of("all"))
        };
        Self {
            ignore: setting("arp_ignore"),
            announce: setting("arp_announce"),
            rp_filter: setting("rp_filter"),
        }
    }
}

/// Whether a controller takes the packets of its links: a bond, a bridge or Open vSwitch, but not a VRF.
fn is_bridge(tree: &HostRoot, controller: &str) -> bool {
    let has = |file: &str| tree.is_there(format!("{CLASS}/{controller}/{file}"));
    has("bonding") || has("bridge") || controller == "ovs-system"
}

fn flags_of(text: &str) -> u32 {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_default()
}

fn priorities(tree: &HostRoot, dir: &str) -> Option<Vec<u8>> {
    let names = tree.names(dir).into_option()?;
    let on = |name: &&String| tree.text(format!("{dir}/{name}")).is_and(|value| value == "1");
    Some(names.iter().filter(on).filter_map(|name| name.parse().ok()).collect())
}

impl LinkFacts {
    pub(crate) fn has_carrier(&self) -> bool {
        self.carrier == Known::Value(1) && !self.is_down()
    }

    pub(crate) fn is_down(&self) -> bool {
        self.up == Known::Value(false)
    }

    /// Returns the speed in Gb/s; `None` if it is unknown.
    pub(crate) fn gigabits(&self) -> Option<f64> {
        let speed = *self.speed.get()?;
        (speed > 0).then(|| f64::from(u32::try_from(speed).unwrap_or(u32::MAX)) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = HostRoot::at(root.path());
        (root, tree)
    }

    #[test]
    fn the_higher_of_the_settings_of_a_link_and_of_all_links_counts() {
        let conf = "proc/sys/net/ipv4/conf";
        let files = [
            ("eth0/rp_filter", "1"),
            ("all/rp_filter", "2"),
            ("eth0/arp_ignore", "1"),
            ("all/arp_ignore", "0"),
        ];
        let files = files.map(|(name, text)| (format!("{conf}/{name}"), text));
        let (_root, tree) = tree(&files.each_ref().map(|(path, text)| (path.as_str(), *text)));
        let expected = ArpSettings { ignore: Some(1), announce: None, rp_filter: Some(2) };
        assert_eq!(ArpSettings::read(&tree, "eth0"), expected);
    }

    #[test]
    fn a_link_has_the_controller_and_the_priorities_of_sysfs() {
        let enable = |place: &str, number: u8| format!("sys/class/net/eth0/ecn/{place}/enable/{number}");
        let (on, off, sender) = (enable("roce_np", 3), enable("roce_np", 4), enable("roce_rp", 5));
        let (root, tree) = tree(&[
            ("sys/class/net/eth0/ifindex", "2"),
            ("sys/class/net/eth0/flags", "0x1002"),
            ("sys/class/net/bond0/bonding/mode", "802.3ad"),
            ("sys/class/net/bond0/ifindex", "3"),
            ("sys/class/net/bond0/flags", "0x1003"),
            ("sys/class/net/bonding_masters", "bond0"),
            (&on, "1\n"),
            (&off, "0\n"),
            (&sender, "1\n"),
        ]);
        std::os::unix::fs::symlink("../bond0", root.path().join("sys/class/net/eth0/master")).unwrap();
        let links = read(&tree, &NetlinkFacts::default());
        let [bond, eth] = &links[..] else { panic!("{links:?}") };
        assert_eq!(
            (bond.is_down(), bond.is_in_bridge, eth.is_down(), eth.is_in_bridge),
            (false, false, true, true)
        );
        assert_eq!(eth.controller.as_deref(), Some("bond0"));
        let expected =
            CongestionControl { ecn_receiver: Some(vec![3]), ecn_sender: Some(vec![5]), trust: None };
        assert_eq!((&eth.lossless, &bond.lossless), (&expected, &CongestionControl::default()));
    }
}
