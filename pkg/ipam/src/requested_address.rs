//! Whether a certain address can be given, and why not.

use std::net::IpAddr;

use crate::{IpFamily, Pool, PoolName, PoolSelection, Pools, SkipReason};

/// An address that was asked for is not to be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("requested IP address {address} cannot be given: {why}{unusable}")]
pub struct AddressUnavailable {
    /// The address.
    pub address: IpAddr,
    /// Why.
    pub why: UnavailableReason,
    /// What may be the reason that no pool has it, as [`Pools::unusable`].
    pub unusable: String,
}

/// What keeps an address from being given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnavailableReason {
    /// It is the subnet's gateway.
    #[error("it is the gateway of IPPool {0}")]
    Gateway(PoolName),
    /// `excludeIPs` has it.
    #[error("excludeIPs of IPPool {0} has it")]
    Excluded(PoolName),
    /// A `SpiderReservedIP` has it.
    #[error("a SpiderReservedIP reserves it")]
    Reserved,
    /// Spiderpool itself has given it.
    #[error("by the status of IPPool {pool}, Spiderpool has given it to pod {pod}")]
    Given {
        /// The pool.
        pool: PoolName,
        /// `namespace/name`.
        pod: String,
    },
    /// Its pool is not for this attachment.
    #[error("IPPool {pool} has it, but may not be used: {reason}")]
    Skipped {
        /// The pool.
        pool: PoolName,
        /// Why.
        reason: SkipReason,
    },
    /// Its pool is none of this network's.
    #[error(
        "IPPool {0} has it, which this network does not use; name it in default_ipv4_ippool or default_ipv6_ippool"
    )]
    OtherPool(PoolName),
    /// No pool has it.
    #[error("no IPPool of this network has it: {}", described(.0))]
    Outside(Vec<String>),
    /// The network has no addresses of that family at all.
    #[error("this network has no {0} IPPool")]
    NoFamily(IpFamily),
}

impl<'a> PoolSelection<'a> {
    /// The pool that a certain address is given from: the first that has it.
    pub fn pool_of(&self, address: IpAddr) -> Option<&'a Pool> {
        self.of(IpFamily::of(address)).iter().find(|pool| pool.ranges.contains(address)).copied()
    }

    /// Why an address that [no pool](Self::pool_of) gives is not to be had. `pools` are those that were selected from.
    pub fn reason_unavailable(&self, address: IpAddr, pools: &Pools) -> AddressUnavailable {
        let why = self.obstacle(address, pools);
        let unusable = match why {
            UnavailableReason::Outside(_) | UnavailableReason::NoFamily(_) => pools.unusable(),
            _ => String::new(),
        };
        AddressUnavailable { address, why, unusable }
    }

    /// The pools of one family.
    pub fn of(&self, family: IpFamily) -> &[&'a Pool] {
        match family {
            IpFamily::V4 => &self.ipv4,
            IpFamily::V6 => &self.ipv6,
        }
    }

    fn obstacle(&self, address: IpAddr, pools: &Pools) -> UnavailableReason {
        let usable = self.of(IpFamily::of(address));
        for pool in usable {
            let name = || pool.name.clone();
            if pool.gateway == Some(address) {
                return UnavailableReason::Gateway(name());
            }
            if let Some(pod) = pool.given.get(&address) {
                return UnavailableReason::Given { pool: name(), pod: pod.clone() };
            }
            if pool.excluded.iter().any(|range| range.contains(address)) {
                return UnavailableReason::Excluded(name());
            }
        }
        if pools.reserved().iter().any(|range| range.contains(address)) {
            return UnavailableReason::Reserved;
        }
        if let Some(pool) = pools.iter().find(|pool| pool.ranges.contains(address)) {
            let skipped = self.skipped.iter().find(|skipped| skipped.pool == pool.name);
            return match skipped {
                Some(skipped) => {
                    UnavailableReason::Skipped { pool: pool.name.clone(), reason: skipped.reason.clone() }
                }
                None => UnavailableReason::OtherPool(pool.name.clone()),
            };
        }
        match usable {
            [] => UnavailableReason::NoFamily(IpFamily::of(address)),
            usable => UnavailableReason::Outside(
                usable.iter().map(|pool| format!("{} has {}", pool.name, pool.ranges)).collect(),
            ),
        }
    }
}

fn described(pools: &[String]) -> String {
    pools.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::PoolRequest;

    fn pools() -> Pools {
        let reserved = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderReservedIP",
            "metadata": {"name": "r"}, "spec": {"ips": ["10.0.0.12"]}});
        let exported = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": "a"},
            "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.9-10.0.0.19"], "excludeIPs": ["10.0.0.11"], "gateway": "10.0.0.1"},
            "status": {"allocatedIPs": "{\"10.0.0.13\":{\"pod\":\"ai/web-0\",\"podUid\":\"1\"}}"}});
        let theirs =
            json!({"name": "b", "subnet": "10.0.0.0/24", "ips": ["10.0.0.30"], "nodeName": ["other"]});
        let other = json!({"name": "c", "subnet": "10.0.0.0/24", "ips": ["10.0.0.31"]});
        Pools::from_inline(&Value::Array(vec![reserved, exported, theirs, other])).unwrap()
    }

    fn ask(address: &str) -> Result<String, String> {
        let pools = pools();
        let names = ["a", "b"].map(str::to_owned);
        let request =
            PoolRequest { default_ipv4_ippool: &names, host_name: "node", ..PoolRequest::default() };
        let selection = pools.select(&request).unwrap();
        let address = address.parse().unwrap();
        let found = selection.pool_of(address).map(|pool| pool.name.to_string());
        found.ok_or_else(|| selection.reason_unavailable(address, &pools).why.to_string())
    }

    #[test]
    fn an_address_is_of_the_pool_that_has_it() {
        assert_eq!(ask("10.0.0.9"), Ok("a".into()));
        assert_eq!(ask("10.0.0.19"), Ok("a".into()));
    }

    #[test]
    fn every_obstacle_is_named() {
        for (address, why) in [
            ("10.0.0.1", "it is the gateway of IPPool a"),
            ("10.0.0.11", "excludeIPs of IPPool a has it"),
            ("10.0.0.12", "a SpiderReservedIP reserves it"),
            ("10.0.0.13", "by the status of IPPool a, Spiderpool has given it to pod ai/web-0"),
            ("10.0.0.30", "IPPool b has it, but may not be used: nodeName does not list this node, \"node\""),
            (
                "10.0.0.31",
                "IPPool c has it, which this network does not use; name it in default_ipv4_ippool or default_ipv6_ippool",
            ),
            ("10.0.0.32", "no IPPool of this network has it: a has 10.0.0.9-10.0.0.10, 10.0.0.14-10.0.0.19"),
            ("fd00::1", "this network has no IPv6 IPPool"),
        ] {
            assert_eq!(ask(address), Err(why.to_owned()));
        }
    }
}
