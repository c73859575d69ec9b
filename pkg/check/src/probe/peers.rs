//! The choice of the nodes that a node probes.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use nix::ifaddrs::getifaddrs;

use crate::{Error, error::io};

/// Chooses at most `count` of the agents for a node to probe. Each node of a cluster chooses others, always the same ones while
/// the list of agents is the same: those with the lowest hashes of their address and the node's name, `me`.
///
/// `own` are the addresses of the node, which is not probed by itself.
pub fn peers(
    agents: &[(String, SocketAddr)],
    own: &BTreeSet<IpAddr>,
    me: &str,
    count: usize,
) -> Vec<(String, SocketAddr)> {
    let seed = hash(0, me);
    let mut others: Vec<_> = agents.iter().filter(|(_, address)| !own.contains(&address.ip())).collect();
    others.sort_by_key(|(_, address)| (hash(seed, &address.to_string()), *address));
    others.truncate(count);
    others.into_iter().cloned().collect()
}

/// Returns the IP addresses of this node.
///
/// # Errors
/// [`Error::Io`].
pub fn own_addresses() -> Result<BTreeSet<IpAddr>, Error> {
    let all = getifaddrs().map_err(|errno| io("list the addresses of this node")(errno.into()))?;
    let address = |interface: nix::ifaddrs::InterfaceAddress| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip())))
    };
    Ok(all.filter_map(address).filter(|address| !address.is_loopback()).collect())
}

/// FNV-1a, which is the same on every machine.
fn hash(seed: u64, text: &str) -> u64 {
    let start = seed ^ 0xcbf2_9ce4_8422_2325;
    let mixed =
        text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // The last byte would otherwise only change the low bits much.
    (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(nodes: u8) -> Vec<(String, SocketAddr)> {
        (1..=nodes).map(|n| (format!("node-{n}"), SocketAddr::from(([10, 0, 0, n], 18514)))).collect()
    }

    fn chosen(agents: &[(String, SocketAddr)], me: u8, count: usize) -> Vec<String> {
        let own = BTreeSet::from([IpAddr::from([10, 0, 0, me])]);
        peers(agents, &own, &format!("node-{me}"), count).into_iter().map(|(host, _)| host).collect()
    }

    #[test]
    fn a_node_probes_the_same_others_and_never_itself() {
        let agents = cluster(100);
        let first = chosen(&agents, 7, 8);
        assert_eq!((first.len(), first.contains(&"node-7".to_owned())), (8, false));
        let mut reversed = agents.clone();
        reversed.reverse();
        assert_eq!(chosen(&reversed, 7, 8), first, "the order of the list does not matter");
        assert_eq!(chosen(&cluster(3), 1, 8).len(), 2);
        assert!(chosen(&cluster(1), 1, 8).is_empty());
    }

    #[test]
    fn all_nodes_are_probed_about_equally() {
        let agents = cluster(100);
        let mut probed = vec![0; 101];
        for me in 1..=100 {
            for host in chosen(&agents, me, 8) {
                probed[host.trim_start_matches("node-").parse::<usize>().unwrap()] += 1;
            }
        }
        // A mean of 8; a binomial distribution has such extremes.
        assert!(probed[1..].iter().all(|count| (1..=20).contains(count)), "{probed:?}");
    }

    #[test]
    fn this_node_has_addresses_and_loopback_is_none_of_them() {
        assert!(own_addresses().unwrap().iter().all(|address| !address.is_loopback()));
    }
}
