//! Selection of the entry of a port's GID table that a test uses.
//!
//! The table of a RoCE port has an entry for each address of the port's link, of its upper links (VLAN, macvlan, bond), and
//! of pods, usually once for RoCE v1 and once for v2. The same index means different entries on different nodes, so the
//! entry is selected by its properties, in this order:
//!
//! 1. RoCE v2, an IPv4 or a global IPv6 address in the peer's subnet;
//! 2. RoCE v2, any other IPv4 address;
//! 3. RoCE v2, any other global IPv6 address;
//! 4. RoCE v2, link-local: reaches only the same layer 2 segment.
//!
//! RoCE v1 is never selected because it is not routable and not every peer supports it. An entry of a link in another
//! network namespace belongs to a pod and is not selected either. Of equal entries, the one with the lowest index is used.

use std::net::{IpAddr, Ipv6Addr};

use ipnetwork::IpNetwork;
use sysfs::GidType;

/// An entry of a GID table, with the properties of its link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidCandidate {
    /// The index in the table, as in `/sys/class/infiniband/DEVICE/ports/N/gids/INDEX`.
    pub index: u32,
    /// The GID.
    pub gid: Ipv6Addr,
    /// The type: RoCE v1, RoCE v2 or InfiniBand.
    pub kind: GidType,
    /// The name of the entry's link, in the network namespace of that link.
    pub link: Option<String>,
    /// The address with its prefix length on the link; `None` if no link of that name here has the address.
    pub network: Option<IpNetwork>,
    /// Whether this network namespace has a link of that name.
    pub ours: bool,
}

/// The selected entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedGid {
    /// The entry.
    pub entry: GidCandidate,
    /// The reason for the selection, for the output.
    pub why: String,
    /// The rank from the module documentation; lower is better. 0 if requested by index.
    pub rank: u8,
}

/// No entry of a table is usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no usable GID among {total} ({v1} of RoCE v1, {elsewhere} of links in other network namespaces): assign an IP \
     address to the port's link, or select an entry with --gid-index"
)]
pub struct NoGid {
    total: usize,
    v1: usize,
    elsewhere: usize,
}

/// Selects the best entry for traffic to `peer`, or to any destination if it is `None`.
///
/// # Errors
/// [`NoGid`] if no entry is usable; it counts the reasons.
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

/// Returns the entry with this index, which the user requested, or `None` if the table does not have it.
pub fn take(table: &[GidCandidate], index: u32) -> Option<SelectedGid> {
    let entry = table.iter().find(|entry| entry.index == index)?;
    Some(SelectedGid { entry: entry.clone(), why: "requested by index".into(), rank: 0 })
}

/// Returns a GID as an IP address; an IPv4-mapped one (`::ffff:a.b.c.d`) as IPv4.
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
        Some(_) => (2, format!("RoCE v2, IPv4{}", no_subnet(peer))),
        None if is_link_local(entry.gid) => (4, "RoCE v2, link-local; no better entry".into()),
        None => (3, format!("RoCE v2, global IPv6{}", no_subnet(peer))),
    })
}

fn no_subnet(peer: Option<IpAddr>) -> String {
    peer.map(|peer| format!("; no entry is in the subnet of the peer {peer}")).unwrap_or_default()
}

/// Whether the entry belongs to this network namespace. The link's name is not sufficient, because a pod can also have an
/// `eth0`: a link here must have the address. Link-local entries exist without an address.
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

    fn selected(text: &str, peer: &str) -> u32 {
        choose(&table(text), peer.parse().ok()).unwrap().entry.index
    }

    const TYPICAL: &str = "
        0 v1 fe80::ac0:ebff:fe01:203 ens6 -
        1 v2 fe80::ac0:ebff:fe01:203 ens6 -
        2 v1 10.1.70.1 ens6 24
        3 v2 10.1.70.1 ens6 24";

    #[test]
    fn a_card_with_one_address_has_index_3() {
        for peer in ["10.1.70.2", "10.9.9.9", "fe80::1", "unknown"] {
            assert_eq!(selected(TYPICAL, peer), 3, "{peer}");
        }
    }

    #[test]
    fn the_peers_subnet_takes_precedence_over_the_table_order() {
        let two = format!("{TYPICAL}\n 5 v2 172.16.0.1 ens6 16\n 7 v2 10.1.71.1 ens6.71 24");
        assert_eq!(selected(&two, "172.16.200.1"), 5);
        assert_eq!(selected(&two, "10.1.71.9"), 7);
        assert_eq!(selected(&two, "8.8.8.8"), 3);
    }

    #[test]
    fn only_the_subnet_of_the_peer_counts() {
        assert_eq!(selected("4 v2 192.168.5.228 eth1 24\n 2 v2 10.0.0.1 eth0 8", "10.0.0.7"), 2);
    }

    #[test]
    fn addresses_of_pods_are_not_selected() {
        let pods = "
            0 v2 fe80::1 ens6 -
            1 v2 172.81.0.100 [net1] -
            2 v2 10.1.70.1 ens6 24";
        assert_eq!(selected(pods, "172.81.0.101"), 2);
        // A pod's link can have the name of a host link, but the host link does not have the address.
        assert_eq!(selected("0 v2 fe80::1 eth0 -\n 1 v2 172.81.0.100 eth0 -", "172.81.0.101"), 0);
    }

    #[test]
    fn ipv6_is_selected_in_the_peers_subnet_and_before_link_local() {
        let v6 = "
            0 v2 fe80::1 ens6 64
            1 v2 2001:db8:1::1 ens6 64
            2 v2 10.1.70.1 ens6 24";
        assert_eq!(selected(v6, "2001:db8:1::2"), 1);
        assert_eq!(selected(v6, "2001:db8:2::2"), 2);
        assert_eq!(selected("0 v2 fe80::1 ens6 64\n 1 v2 2001:db8:1::1 ens6 64", "10.0.0.1"), 1);
    }

    #[test]
    fn link_local_is_the_last_resort() {
        let selected = choose(&table("0 v1 fe80::1 e -\n 1 v2 fe80::1 e -"), "fe80::2".parse().ok()).unwrap();
        assert_eq!((selected.entry.index, selected.rank), (1, 4));
        assert!(selected.why.contains("link-local"), "{}", selected.why);
        let both = table("0 v2 fe80::1 e 64\n 1 v2 10.1.70.1 e 24");
        let other = choose(&both, "fe80::2".parse().ok()).unwrap();
        assert_eq!(
            (other.entry.index, other.rank),
            (1, 2),
            "every link has the subnet of a link-local address"
        );
    }

    #[test]
    fn without_a_usable_entry_the_error_counts_the_reasons() {
        let none = choose(&table("0 v1 10.0.0.1 e 8\n 1 v2 10.0.0.2 [net1] -"), None).unwrap_err();
        assert_eq!(none, NoGid { total: 2, v1: 1, elsewhere: 1 });
        assert_eq!(choose(&[], None).unwrap_err(), NoGid { total: 0, v1: 0, elsewhere: 0 });
    }

    #[test]
    fn the_selection_is_explained() {
        let why = |peer: &str| choose(&table(TYPICAL), peer.parse().ok()).unwrap().why;
        assert_eq!(why("10.1.70.2"), "RoCE v2, in the peer's subnet (10.1.70.2 is in 10.1.70.0/24)");
        assert_eq!(why("8.8.8.8"), "RoCE v2, IPv4; no entry is in the subnet of the peer 8.8.8.8");
    }

    #[test]
    fn a_requested_index_must_exist() {
        assert_eq!(take(&table(TYPICAL), 0).unwrap().entry.kind, GidType::RoceV1);
        assert_eq!(take(&table(TYPICAL), 4), None);
    }
}
