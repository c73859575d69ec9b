//! Checks whether a requested address can be allocated.

use std::net::IpAddr;

use crate::{IpFamily, Pool, PoolName, PoolSelection, Pools, SkipReason};

/// A requested address cannot be allocated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("requested IP address {address} cannot be allocated: {why}{unusable}")]
pub struct AddressUnavailable {
    /// The address.
    pub address: IpAddr,
    /// Why it cannot be allocated.
    pub why: UnavailableReason,
    /// The files and pools that cannot be used and might contain it, see [`Pools::unusable`]; else empty.
    pub unusable: String,
}

/// Why an address cannot be allocated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnavailableReason {
    /// It is the subnet's gateway.
    #[error("it is the gateway of IPPool {0}")]
    Gateway(PoolName),
    /// `excludeIPs` contains it.
    #[error("it is in excludeIPs of IPPool {0}")]
    Excluded(PoolName),
    /// A `SpiderReservedIP` contains it.
    #[error("it is reserved by a SpiderReservedIP")]
    Reserved,
    /// Spiderpool has allocated it.
    #[error("Spiderpool has allocated it to pod {pod}, according to the status of IPPool {pool}")]
    Given {
        /// The name of the pool.
        pool: PoolName,
        /// The pod, as `namespace/name`.
        pod: String,
    },
    /// Its pool cannot be used by this attachment.
    #[error("it belongs to IPPool {pool}, which cannot be used: {reason}")]
    Skipped {
        /// The name of the pool.
        pool: PoolName,
        /// Why the pool cannot be used.
        reason: SkipReason,
    },
    /// Its pool is not one of this network.
    #[error(
        "it belongs to IPPool {0}, which this network does not use; list the pool in default_ipv4_ippool or default_ipv6_ippool"
    )]
    OtherPool(PoolName),
    /// No pool contains it.
    #[error("no IPPool of this network contains it: {}", described(.0))]
    Outside(Vec<String>),
    /// The network has no pools of that family.
    #[error("this network has no {0} IPPool")]
    NoFamily(IpFamily),
}

impl<'a> PoolSelection<'a> {
    /// Returns the pool that a requested address is allocated from: the first that contains it.
    pub fn pool_of(&self, address: IpAddr) -> Option<&'a Pool> {
        self.of(IpFamily::of(address)).iter().find(|pool| pool.ranges.contains(address)).copied()
    }

    /// Returns why an address is in [no selected pool](Self::pool_of). `pools` are the pools that were selected from.
    pub fn reason_unavailable(&self, address: IpAddr, pools: &Pools) -> AddressUnavailable {
        let why = self.obstacle(address, pools);
        let unusable = match why {
            UnavailableReason::Outside(_) | UnavailableReason::NoFamily(_) => pools.unusable(),
            _ => String::new(),
        };
        AddressUnavailable { address, why, unusable }
    }

    /// Returns the pools of one family.
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
                usable.iter().map(|pool| format!("{} contains {}", pool.name, pool.ranges)).collect(),
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
            "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.9-10.0.0.19"], "excludeIPs": ["10.0.0.11"],
                "gateway": "10.0.0.1"},
            "status": {"allocatedIPs": "{\"10.0.0.13\":{\"pod\":\"ai/web-0\",\"podUid\":\"1\"}}"}});
        let theirs =
            json!({"name": "b", "subnet": "10.0.0.0/24", "ips": ["10.0.0.30"], "nodeName": ["other"]});
        let other = json!({"name": "c", "subnet": "10.0.0.0/24", "ips": ["10.0.0.31"]});
        let second = json!({"name": "d", "subnet": "10.0.1.0/24", "ips": ["10.0.1.9", "10.0.1.11"], "excludeIPs": ["10.0.1.11"],
            "gateway": "10.0.1.1"});
        let pools =
            Pools::from_inline(&Value::Array(vec![reserved, exported, theirs, other, second])).unwrap();
        pools.merge(Pools::read_dir(std::path::Path::new("/nowhere")).unwrap())
    }

    fn request(address: &str) -> Result<String, String> {
        let pools = pools();
        let names = ["a", "b", "d"].map(str::to_owned);
        let query = PoolRequest { ipv4: &names, host_name: "node", ..PoolRequest::default() };
        let selection = pools.select(&query).unwrap();
        let address = address.parse().unwrap();
        let found = selection.pool_of(address).map(|pool| pool.name.to_string());
        found.ok_or_else(|| {
            let AddressUnavailable { why, unusable, .. } = selection.reason_unavailable(address, &pools);
            why.to_string() + &unusable
        })
    }

    #[test]
    fn a_requested_address_is_allocated_from_the_pool_that_contains_it() {
        assert_eq!(request("10.0.0.9"), Ok("a".into()));
        assert_eq!(request("10.0.0.19"), Ok("a".into()));
        assert_eq!(request("10.0.1.9"), Ok("d".into()));
    }

    #[test]
    fn every_reason_is_reported() {
        for (address, why) in [
            ("10.0.0.1", "it is the gateway of IPPool a"),
            ("10.0.0.11", "it is in excludeIPs of IPPool a"),
            ("10.0.1.1", "it is the gateway of IPPool d"),
            ("10.0.1.11", "it is in excludeIPs of IPPool d"),
            ("10.0.0.12", "it is reserved by a SpiderReservedIP"),
            ("10.0.0.13", "Spiderpool has allocated it to pod ai/web-0, according to the status of IPPool a"),
            (
                "10.0.0.30",
                "it belongs to IPPool b, which cannot be used: nodeName does not list this node, \"node\"",
            ),
            (
                "10.0.0.31",
                "it belongs to IPPool c, which this network does not use; \
                 list the pool in default_ipv4_ippool or default_ipv6_ippool",
            ),
            (
                "10.0.0.32",
                "no IPPool of this network contains it: a contains 10.0.0.9-10.0.0.10, 10.0.0.14-10.0.0.19, d contains 10.0.1.9\
                 ; directory /nowhere does not exist",
            ),
            ("fd00::1", "this network has no IPv6 IPPool; directory /nowhere does not exist"),
        ] {
            assert_eq!(request(address), Err(why.to_owned()));
        }
    }
}
