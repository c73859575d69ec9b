//! Which entry of a port's GID table a test uses, and why.
//!
//! The table of a RoCE port holds an entry for each address of the port's link, of the links above it, and of pods, and
//! most of them twice. An index that works on one node is wrong on the next. So the entry is chosen by what it is:
//!
//! 1. RoCE v2, an IPv4 or a global IPv6 address in the peer's subnet;
//! 2. RoCE v2, any other IPv4 address;
//! 3. RoCE v2, any other global IPv6 address;
//! 4. RoCE v2, link-local: reaches only what is on the same segment.
//!
//! RoCE v1 is never chosen (it is not routed, and peers differ in whether they have it), nor is an entry of a link that
//! is not in this network namespace: it is a pod's. Of equals, the first in the table is taken.

use std::net::{IpAddr, Ipv6Addr};

use ipnetwork::IpNetwork;
use sysfs::GidType;

/// An entry of a GID table with what is known of its link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidCandidate {
    /// Its place in the table.
    pub index: u32,
    /// The address.
    pub gid: Ipv6Addr,
    /// What packets with it look like.
    pub kind: GidType,
    /// The link it comes from, as its own namespace calls it.
    pub link: Option<String>,
    /// The address with its prefix on that link, if both are in this network namespace.
    pub network: Option<IpNetwork>,
    /// Whether the link is in this network namespace.
    pub ours: bool,
}

/// The entry that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedGid {
    /// The entry.
    pub entry: GidCandidate,
    /// Why it.
    pub why: String,
    /// How good it is; less is better.
    pub rank: u8,
}

/// No entry of a table can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no usable GID among {total} ({v1} of RoCE v1, {elsewhere} of links in other network namespaces): give the port's \
     link an IP address, or take the entry you mean with --gid-index"
)]
pub struct NoGid {
    total: usize,
    v1: usize,
    elsewhere: usize,
}

/// The best entry for traffic to `peer`, or to anybody.
///
/// # Errors
/// [`NoGid`] counts why entries could not be taken.
pub fn choose(table: &[GidCandidate], peer: Option<IpAddr>) -> Result<SelectedGid, NoGid> {
    let ranked = table.iter().filter_map(|entry| Some((rank(entry, peer)?, entry)));
    let best = ranked.min_by_key(|((rank, _), entry)| (*rank, entry.index));
    let ((rank, why), entry) = best.ok_or_else(|| NoGid {
        total: table.len(),
        v1: table.iter().filter(|entry| entry.kind == GidType::RoceV1).count(),
        elsewhere: table.iter().filter(|entry| entry.kind == GidType::RoceV2 && !is_ours(entry)).count(),
    })?;
    Ok(SelectedGid { entry: entry.clone(), why, rank })
}

/// The entry with that index, as somebody asked for it.
pub fn take(table: &[GidCandidate], index: u32) -> Option<SelectedGid> {
    let entry = table.iter().find(|entry| entry.index == index)?;
    Some(SelectedGid { entry: entry.clone(), why: "asked for".into(), rank: 0 })
}

/// The address of a GID: an IPv4 address if it is one.
pub fn address(gid: Ipv6Addr) -> IpAddr {
    gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4)
}

fn rank(entry: &GidCandidate, peer: Option<IpAddr>) -> Option<(u8, String)> {
    if entry.kind != GidType::RoceV2 || !is_ours(entry) {
        return None;
    }
    let network = entry.network.filter(|_| !is_link_local(entry.gid));
    if let Some((network, peer)) = network.zip(peer).filter(|(network, peer)| network.contains(*peer)) {
        return Some((
            1,
            format!(
                "RoCE v2, in the peer's subnet ({peer} is in {}/{})",
                network.network(),
                network.prefix()
            ),
        ));
    }
    Some(match entry.gid.to_ipv4_mapped() {
        Some(_) => (2, format!("RoCE v2, IPv4{}", beside(peer))),
        None if is_link_local(entry.gid) => (4, "RoCE v2, link-local: there is no better one".into()),
        None => (3, format!("RoCE v2, global IPv6{}", beside(peer))),
    })
}

fn beside(peer: Option<IpAddr>) -> String {
    peer.map(|peer| format!("; none is in a subnet with the peer {peer}")).unwrap_or_default()
}

/// A link's name alone proves nothing: a pod's `eth0` is another than ours. An address that no link of this namespace
/// has belongs to somebody else; link-local entries exist without an address.
fn is_ours(entry: &GidCandidate) -> bool {
    entry.ours && (entry.network.is_some() || is_link_local(entry.gid))
}

fn is_link_local(gid: Ipv6Addr) -> bool {
    gid.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `index type gid link network`; a link in brackets is in another namespace.
    fn table(text: &str) -> Vec<GidCandidate> {
        let entry = |line: &str| {
            let [index, kind, gid, link, network] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let gid: IpAddr = gid.parse().unwrap();
            GidCandidate {
                index: index.parse().unwrap(),
                gid: match gid {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                },
                kind: if kind == "v2" { GidType::RoceV2 } else { GidType::RoceV1 },
                ours: !link.starts_with('['),
                link: Some(link.into()),
                network: (network != "-").then(|| format!("{gid}/{network}").parse().unwrap()),
            }
        };
        text.trim().lines().map(entry).collect()
    }

    fn chosen(text: &str, peer: &str) -> u32 {
        choose(&table(text), peer.parse().ok()).unwrap().entry.index
    }

    const USUAL: &str = "
        0 v1 fe80::ac0:ebff:fe01:203 ens6 -
        1 v2 fe80::ac0:ebff:fe01:203 ens6 -
        2 v1 10.1.70.1 ens6 24
        3 v2 10.1.70.1 ens6 24";

    #[test]
    fn a_card_with_one_address_has_index_3() {
        for peer in ["10.1.70.2", "10.9.9.9", "fe80::1", "nobody"] {
            assert_eq!(chosen(USUAL, peer), 3, "{peer}");
        }
    }

    #[test]
    fn the_peers_subnet_goes_before_the_order_of_the_table() {
        let two = format!("{USUAL}\n 5 v2 172.16.0.1 ens6 16\n 7 v2 10.1.71.1 ens6.71 24");
        assert_eq!(chosen(&two, "172.16.200.1"), 5);
        assert_eq!(chosen(&two, "10.1.71.9"), 7);
        assert_eq!(chosen(&two, "8.8.8.8"), 3);
    }

    #[test]
    fn the_longest_seed_subnet_is_nothing_special() {
        assert_eq!(chosen("4 v2 192.168.5.228 eth1 24\n 2 v2 10.0.0.1 eth0 8", "10.0.0.7"), 2);
    }

    #[test]
    fn pods_addresses_are_not_taken() {
        let pods = "
            0 v2 fe80::1 ens6 -
            1 v2 172.81.0.100 [net1] -
            2 v2 10.1.70.1 ens6 24";
        assert_eq!(chosen(pods, "172.81.0.101"), 2);
        // A pod's link may have the name of one of ours: the address is not on ours.
        assert_eq!(chosen("0 v2 fe80::1 eth0 -\n 1 v2 172.81.0.100 eth0 -", "172.81.0.101"), 0);
    }

    #[test]
    fn ipv6_is_taken_in_the_peers_subnet_and_before_link_local() {
        let v6 = "
            0 v2 fe80::1 ens6 64
            1 v2 2001:db8:1::1 ens6 64
            2 v2 10.1.70.1 ens6 24";
        assert_eq!(chosen(v6, "2001:db8:1::2"), 1);
        assert_eq!(chosen(v6, "2001:db8:2::2"), 2);
        assert_eq!(chosen("0 v2 fe80::1 ens6 64\n 1 v2 2001:db8:1::1 ens6 64", "10.0.0.1"), 1);
    }

    #[test]
    fn link_local_is_the_last_resort() {
        let chosen = choose(&table("0 v1 fe80::1 e -\n 1 v2 fe80::1 e -"), "fe80::2".parse().ok()).unwrap();
        assert_eq!((chosen.entry.index, chosen.rank), (1, 4));
        assert!(chosen.why.contains("link-local"), "{}", chosen.why);
    }

    #[test]
    fn without_a_usable_entry_it_is_said_why() {
        let none = choose(&table("0 v1 10.0.0.1 e 8\n 1 v2 10.0.0.2 [net1] -"), None).unwrap_err();
        assert_eq!(none, NoGid { total: 2, v1: 1, elsewhere: 1 });
        assert_eq!(choose(&[], None).unwrap_err(), NoGid { total: 0, v1: 0, elsewhere: 0 });
    }

    #[test]
    fn the_choice_is_explained() {
        let why = |peer: &str| choose(&table(USUAL), peer.parse().ok()).unwrap().why;
        assert_eq!(why("10.1.70.2"), "RoCE v2, in the peer's subnet (10.1.70.2 is in 10.1.70.0/24)");
        assert_eq!(why("8.8.8.8"), "RoCE v2, IPv4; none is in a subnet with the peer 8.8.8.8");
    }

    #[test]
    fn an_index_that_was_asked_for_must_be_there() {
        assert_eq!(take(&table(USUAL), 0).unwrap().entry.kind, GidType::RoceV1);
        assert_eq!(take(&table(USUAL), 4), None);
    }
}
