//! The choice of the nodes that a node probes.

use std::{
    collections::{BTreeSet, VecDeque},
    net::{IpAddr, SocketAddr},
};

use nix::ifaddrs::getifaddrs;

use crate::{Error, client::resolve, error::io};

/// The agents that can be probed, and the hosts that cannot.
#[derive(Debug, Default)]
pub struct ResolvedHosts {
    /// The hosts and the addresses of their agents.
    pub agents: Vec<(String, SocketAddr)>,
    /// Why other hosts are skipped, with their names.
    pub skipped: Vec<String>,
    /// Those that could not be resolved.
    pub unresolved: VecDeque<String>,
}

impl ResolvedHosts {
    /// Resolves hosts, `HOST` or `HOST:PORT`. One that cannot be resolved does not keep a node from probing the others; a
    /// loopback address is this node's, as that of its own name is in `/etc/hosts` of Debian.
    pub fn of(hosts: &[String]) -> Self {
        let mut resolved = Self::default();
        for host in hosts {
            match resolve(host) {
                Ok(address) => resolved.add(host, address),
                Err(error) => {
                    resolved.skipped.push(format!("{host} is skipped: {error}"));
                    resolved.unresolved.push_back(host.clone());
                }
            }
        }
        resolved
    }

    /// Resolves hosts again that could not be resolved: the name of a node or pod that started later is known later. Stops after
    /// some failures, since each may take the resolver's timeout, and begins with the next host the next time. Returns whether
    /// there are more agents now.
    pub fn resolve_again(&mut self, most_failures: usize) -> bool {
        self.resolve_again_by(most_failures, resolve)
    }

    fn resolve_again_by(
        &mut self,
        most_failures: usize,
        by: impl Fn(&str) -> Result<SocketAddr, Error>,
    ) -> bool {
        let known = self.agents.len();
        let mut failures = 0;
        for _ in 0..self.unresolved.len() {
            let Some(host) = self.unresolved.pop_front() else { break };
            match by(&host) {
                Ok(address) => self.add(&host, address),
                Err(_) => {
                    self.unresolved.push_back(host);
                    failures += 1;
                }
            }
            if failures >= most_failures {
                break;
            }
        }
        self.agents.len() > known
    }

    fn add(&mut self, host: &str, address: SocketAddr) {
        if address.ip().is_loopback() {
            return;
        }
        match self.agents.iter().find(|(_, other)| *other == address) {
            Some((other, _)) => {
                self.skipped.push(format!("{host} is skipped: it has the address of {other}"));
            }
            None => self.agents.push((host.to_owned(), address)),
        }
    }
}

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
        let own = BTreeSet::from([[10, 0, 0, 1], [10, 0, 0, 3]].map(IpAddr::from));
        let others = peers(&cluster(4), &own, "node-1", 8);
        let mut others: Vec<_> = others.iter().map(|(host, _)| host.as_str()).collect();
        others.sort_unstable();
        assert_eq!(others, ["node-2", "node-4"], "by none of its addresses");
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

    /// Compares with iproute2; a machine may have no address but those of loopback.
    #[test]
    fn the_addresses_of_this_node_are_those_that_ip_shows() {
        let output = std::process::Command::new("ip").args(["-j", "addr"]).output().unwrap();
        let links: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = links.as_array().unwrap().iter().flat_map(|link| link["addr_info"].as_array().unwrap());
        let shown: BTreeSet<IpAddr> = all
            .map(|address| address["local"].as_str().unwrap().parse::<IpAddr>().unwrap())
            .filter(|address| !address.is_loopback())
            .collect();
        assert_eq!(own_addresses().unwrap(), shown);
        assert!(links.to_string().contains("127.0.0.1"), "ip shows addresses: {links}");
    }

    #[test]
    fn a_host_that_cannot_be_probed_does_not_keep_a_node_from_the_others() {
        let hosts = ["192.0.2.1", "127.0.1.1", "no such host", "192.0.2.1:18514", "192.0.2.2"];
        let resolved = ResolvedHosts::of(&hosts.map(str::to_owned));
        let agents: Vec<_> = resolved.agents.iter().map(|(host, _)| host.as_str()).collect();
        assert_eq!(agents, ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(resolved.skipped.len(), 2, "{resolved:?}");
        assert!(resolved.skipped[0].starts_with("no such host is skipped: "), "{resolved:?}");
        assert!(resolved.skipped[1].contains("the address of 192.0.2.1"), "{resolved:?}");
        assert_eq!(resolved.unresolved, ["no such host"]);
    }

    #[test]
    fn a_host_that_is_resolved_later_is_added_then() {
        let unresolved = ["a", "b", "c"].map(str::to_owned).into();
        let mut hosts = ResolvedHosts { unresolved, ..ResolvedHosts::default() };
        let down = |_: &str| resolve("no such host");
        assert!(!hosts.resolve_again_by(2, down));
        assert_eq!(hosts.unresolved, ["c", "a", "b"], "the next ones come first");
        let up = |host: &str| resolve(if host == "c" { "192.0.2.3" } else { "192.0.2.9" });
        assert!(hosts.resolve_again_by(1, up), "only failures are limited");
        let agents: Vec<_> = hosts.agents.iter().map(|(host, _)| host.as_str()).collect();
        assert_eq!((agents, hosts.unresolved.len()), (vec!["c", "a"], 0));
        assert_eq!(hosts.skipped, ["b is skipped: it has the address of a"]);
    }
}
