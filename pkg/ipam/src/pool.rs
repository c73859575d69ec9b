//! A pool, parsed from a `SpiderIPPool` and validated.

use std::{collections::BTreeMap, net::IpAddr};

use ipnetwork::IpNetwork;

use crate::{
    InvalidPool, InvalidValue, IpBlock, IpFamily, IpRange, IpRanges, PoolName, keys,
    spec::{SpecReader, mismatch},
};

/// A pool: addresses of one subnet that can be allocated to attachments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The name, which is unique among all pools of a node.
    pub name: PoolName,
    /// The subnet. An allocated address has its prefix length.
    pub subnet: IpNetwork,
    /// The allocatable addresses: `ips` without `excludeIPs`, reserved addresses and those that Spiderpool has allocated.
    pub ranges: IpRanges,
    /// `excludeIPs`.
    pub excluded: Vec<IpRange>,
    /// The addresses that Spiderpool has allocated according to the object's status, with the pod.
    pub given: BTreeMap<IpAddr, String>,
    /// The subnet's gateway, which is never allocated.
    pub gateway: Option<IpAddr>,
    /// The routes of the pod besides the default route, in the order written.
    pub routes: Vec<PoolRoute>,
    /// The nodes, pods and networks that can use the pool.
    pub affinity: PoolAffinity,
    /// Whether the pool is used by configurations that list no pools.
    pub default: bool,
    /// Whether allocation is disabled; allocated addresses stay valid.
    pub disabled: bool,
    /// Whether the object is being deleted (`deletionTimestamp`); no addresses are allocated.
    pub terminating: bool,
    /// The node's blocks that `ranges` is [restricted to](Pool::in_blocks); `None` if the node has the whole pool.
    pub blocks: Option<Vec<IpBlock>>,
}

/// A route of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolRoute {
    /// The destination.
    pub dst: IpNetwork,
    /// The gateway, which is in the pool's subnet or a link-local address of IPv6.
    pub gw: IpAddr,
}

/// The restrictions of a pool's use. An empty list and `false` mean no restriction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolAffinity {
    /// The names of nodes. If not empty, `node` is ignored.
    pub node_names: Vec<String>,
    /// The names of namespaces. If not empty, `namespace` is ignored.
    pub namespace_names: Vec<String>,
    /// The networks, as `namespace/name` or `name`.
    pub multus_names: Vec<String>,
    /// Whether the pool selects pods by label.
    pub pod: bool,
    /// Whether the pool selects nodes by label.
    pub node: bool,
    /// Whether the pool selects namespaces by label.
    pub namespace: bool,
}

impl Pool {
    /// Parses and validates the `spec` of a `SpiderIPPool`.
    ///
    /// # Errors
    /// The first invalid value, with its key.
    pub(crate) fn from_spec(name: PoolName, spec: SpecReader<'_>) -> Result<Self, InvalidPool> {
        let subnet = subnet(spec)?;
        let family = IpFamily::of(subnet.ip());
        if let Some(version) = spec.value("ipVersion")
            && version.as_u64() != Some(family.version().into())
        {
            return Err(InvalidValue::Family { value: version.to_string(), family, subnet }.at("ipVersion"));
        }
        let listed = ranges_of(spec, "ips", subnet)?;
        refuse_overlaps(&listed)?;
        let excluded = ranges_of(spec, "excludeIPs", subnet)?;
        let ranges = IpRanges::new(family, &listed, &excluded);
        let gateway = spec.parsed("gateway", "an address")?;
        if let Some(gateway) = gateway {
            on_link(gateway, subnet).map_err(|problem| problem.at("gateway"))?;
            if ranges.contains(gateway) {
                return Err(InvalidValue::GatewayAllocatable(gateway).at("gateway"));
            }
        }
        Ok(Self {
            name,
            subnet,
            ranges,
            excluded,
            given: BTreeMap::new(),
            gateway,
            routes: routes(spec, subnet)?,
            affinity: PoolAffinity::from_spec(spec)?,
            default: spec.flag("default")?,
            disabled: spec.flag("disable")?,
            terminating: false,
            blocks: None,
        })
    }

    /// Returns the pool with those of its addresses only that are in one of these blocks.
    #[must_use]
    pub fn in_blocks(&self, blocks: &[IpBlock]) -> Self {
        let has_address = |block: &&IpBlock| block.count_in(&self.ranges) > 0;
        let blocks: Vec<_> = blocks.iter().filter(has_address).copied().collect();
        let ranges: Vec<_> = blocks.iter().map(|block| block.range()).collect();
        Self { ranges: self.ranges.within(&ranges), blocks: Some(blocks), ..self.clone() }
    }

    /// Excludes the addresses that Spiderpool has allocated.
    pub(crate) fn exclude_allocated(&mut self, given: BTreeMap<IpAddr, String>) {
        if !given.is_empty() {
            let taken: Vec<_> = given.keys().map(|address| IpRange::from(*address)).collect();
            self.ranges = self.ranges.without(&taken);
            self.given = given;
        }
    }

    /// Returns the pool with this address only.
    #[must_use]
    pub fn with_only(&self, address: IpAddr) -> Self {
        Self { ranges: IpRanges::new(self.family(), &[IpRange::from(address)], &[]), ..self.clone() }
    }

    /// Returns the family of the pool's addresses.
    pub fn family(&self) -> IpFamily {
        self.ranges.family()
    }
}

impl PoolAffinity {
    fn from_spec(spec: SpecReader<'_>) -> Result<Self, InvalidPool> {
        let owned = |key| spec.texts(key).map(|texts| texts.into_iter().map(str::to_owned).collect());
        Ok(Self {
            node_names: owned("nodeName")?,
            namespace_names: owned("namespaceName")?,
            multus_names: owned("multusName")?,
            pod: spec.object("podAffinity")?.is_some(),
            node: spec.object("nodeAffinity")?.is_some(),
            namespace: spec.object("namespaceAffinity")?.is_some(),
        })
    }
}

fn subnet(spec: SpecReader<'_>) -> Result<IpNetwork, InvalidPool> {
    let text = spec.text("subnet")?.ok_or_else(|| InvalidValue::Missing.at("subnet"))?;
    let subnet = network("subnet", text)?;
    let canonical = canonical(subnet);
    if subnet.ip() != canonical.ip() {
        return Err(InvalidValue::NotCanonical { written: text.to_owned(), canonical }.at("subnet"));
    }
    Ok(canonical)
}

/// Parses `address/length`. A netmask and a bare address are refused.
fn network(key: &str, text: &str) -> Result<IpNetwork, InvalidPool> {
    let parse = || {
        let (address, length) = text.split_once('/')?;
        let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
        let length = digits.then(|| length.parse().ok())??;
        IpNetwork::new(address.parse().ok()?, length).ok()
    };
    parse().ok_or_else(|| mismatch(key, "a subnet like 10.0.0.0/24", text))
}

/// Returns the network with its host bits cleared.
fn canonical(network: IpNetwork) -> IpNetwork {
    // Cannot fail: the prefix length of an IpNetwork is valid for its family.
    IpNetwork::new(network.network(), network.prefix()).unwrap_or(network)
}

fn ranges_of(spec: SpecReader<'_>, key: &str, subnet: IpNetwork) -> Result<Vec<IpRange>, InvalidPool> {
    let parse = |text: &str| {
        let range: IpRange = text.parse()?;
        inside(range.first(), subnet)?;
        inside(range.last(), subnet)?;
        Ok(range)
    };
    let at = |index| move |problem: InvalidValue| problem.at(format!("{key}[{index}]"));
    spec.texts(key)?.into_iter().enumerate().map(|(index, text)| parse(text).map_err(at(index))).collect()
}

fn inside(address: IpAddr, subnet: IpNetwork) -> Result<(), InvalidValue> {
    let family = IpFamily::of(subnet.ip());
    if IpFamily::of(address) != family {
        return Err(InvalidValue::Family { value: address.to_string(), family, subnet });
    }
    if !subnet.contains(address) {
        return Err(InvalidValue::Outside { value: address.to_string(), subnet });
    }
    Ok(())
}

/// Checks that a next hop can be reached on the link: it is in the subnet, or a link-local address of IPv6, which routers
/// announce as their own (RFC 4861, 4.2) and the kernel accepts on any link (`net/ipv6/route.c: ip6_validate_gw`).
fn on_link(next_hop: IpAddr, subnet: IpNetwork) -> Result<(), InvalidValue> {
    match next_hop {
        IpAddr::V6(address) if subnet.is_ipv6() && address.is_unicast_link_local() => Ok(()),
        _ => inside(next_hop, subnet),
    }
}

fn refuse_overlaps(listed: &[IpRange]) -> Result<(), InvalidPool> {
    let mut sorted: Vec<_> = listed.iter().collect();
    sorted.sort_unstable_by_key(|range| range.first());
    for pair in sorted.windows(2) {
        if let [first, second] = pair
            && first.overlaps(second)
        {
            return Err(InvalidValue::Overlap { first: **first, second: **second }.at("ips"));
        }
    }
    Ok(())
}

fn routes(spec: SpecReader<'_>, subnet: IpNetwork) -> Result<Vec<PoolRoute>, InvalidPool> {
    let mut routes: Vec<PoolRoute> = Vec::new();
    for (index, item) in spec.list("routes")?.iter().enumerate() {
        let key = |name: &str| format!("routes[{index}]{name}");
        let route = item.as_object().map(SpecReader).ok_or_else(|| mismatch(key(""), "an object", item))?;
        let at = |error: InvalidPool| error.problem.at(key(&format!(".{}", error.key)));
        keys::check(route.0, &[&keys::ROUTE]).map_err(at)?;
        let text = route.text("dst").map_err(at)?.ok_or_else(|| InvalidValue::Missing.at(key(".dst")))?;
        let dst = canonical(network(&key(".dst"), text)?);
        let gw = route.parsed("gw", "an address").map_err(at)?;
        let gw = gw.ok_or_else(|| InvalidValue::Missing.at(key(".gw")))?;
        let family = IpFamily::of(subnet.ip());
        if IpFamily::of(dst.ip()) != family {
            return Err(InvalidValue::Family { value: dst.to_string(), family, subnet }.at(key(".dst")));
        }
        on_link(gw, subnet).map_err(|problem| problem.at(key(".gw")))?;
        if dst.prefix() == 0 {
            return Err(InvalidValue::DefaultRoute(dst).at(key(".dst")));
        }
        if routes.iter().any(|earlier| earlier.dst == dst) {
            return Err(InvalidValue::DuplicateRoute(dst).at(key(".dst")));
        }
        routes.push(PoolRoute { dst, gw });
    }
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Parses a valid pool with the keys of `more` replaced.
    fn read(more: Value) -> Result<Pool, InvalidPool> {
        let mut spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.20"]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Pool::from_spec("p".parse().unwrap(), SpecReader(spec.as_object().unwrap()))
    }

    fn refused(more: Value) -> String {
        read(more).unwrap_err().to_string()
    }

    #[test]
    fn every_key_is_read() {
        let pool = read(json!({
            "ipVersion": 4, "gateway": "10.0.0.1", "vlan": 0, "default": true, "disable": false,
            "excludeIPs": ["10.0.0.11-10.0.0.19"], "routes": [{"dst": "10.9.0.0/16", "gw": "10.0.0.2"}],
            "nodeName": ["n"], "namespaceName": ["s"], "multusName": ["m"], "podAffinity": {}
        }))
        .unwrap();
        assert_eq!(pool.ranges.len(), 2);
        assert_eq!(pool.gateway, Some("10.0.0.1".parse().unwrap()));
        let route = PoolRoute { dst: "10.9.0.0/16".parse().unwrap(), gw: "10.0.0.2".parse().unwrap() };
        assert_eq!(pool.routes, [route]);
        assert!(pool.default && !pool.disabled && pool.affinity.pod && !pool.affinity.node);
        assert_eq!(pool.affinity.node_names, ["n"]);
    }

    #[test]
    fn null_and_empty_values_are_absent() {
        let pool = read(
            json!({"gateway": "", "routes": null, "excludeIPs": null, "podAffinity": null, "default": null}),
        );
        assert_eq!(pool.unwrap().gateway, None);
        assert!(read(json!({"ips": null})).unwrap().ranges.is_empty());
    }

    #[test]
    fn ipam_case_005_a_range_outside_the_subnet_is_refused() {
        let text = refused(json!({"ips": ["10.0.0.9", "10.0.0.250-10.0.1.4"]}));
        assert_eq!(text, "ips[1]: 10.0.1.4 is not inside the subnet 10.0.0.0/24");
        assert!(refused(json!({"excludeIPs": ["10.0.1.4"]})).starts_with("excludeIPs[0]: "));
        assert!(refused(json!({"ips": ["fd00::1"]})).contains("does not belong to the IPv4 subnet"));
        assert!(
            refused(json!({"ips": ["10.0.0.9-10.0.0.1"]})).starts_with("ips[0]: range \"10.0.0.9-10.0.0.1\"")
        );
    }

    #[test]
    fn ipam_case_006_overlapping_ranges_are_refused() {
        let text = refused(json!({"ips": ["10.0.0.9-10.0.0.20", "10.0.0.1", "10.0.0.20-10.0.0.30"]}));
        assert_eq!(text, "ips: 10.0.0.20-10.0.0.30 overlaps 10.0.0.9-10.0.0.20; merge the two");
        assert!(
            refused(json!({"ips": ["10.0.0.9", "10.0.0.9"]})).starts_with("ips: 10.0.0.9 overlaps 10.0.0.9")
        );
        assert!(read(json!({"ips": ["10.0.0.9", "10.0.0.10"]})).is_ok());
    }

    #[test]
    fn ipam_case_010_an_excluded_gateway_is_never_allocated() {
        let excluded = json!(["10.0.0.10", "10.0.0.1-10.0.0.10"]);
        let pool = read(json!({"gateway": "10.0.0.10", "excludeIPs": excluded})).unwrap();
        assert_eq!((pool.ranges.len(), pool.excluded.len()), (10, 2));
        assert!(!pool.ranges.contains("10.0.0.10".parse().unwrap()));
    }

    #[test]
    fn ipam_case_011_an_allocatable_gateway_is_refused() {
        let text = refused(json!({"gateway": "10.0.0.10"}));
        assert_eq!(text, "gateway: 10.0.0.10 is one of the pool's ips; add it to excludeIPs");
        assert!(refused(json!({"gateway": "10.0.1.1"})).contains("not inside the subnet"));
        assert!(refused(json!({"gateway": "10.0.0"})).starts_with("gateway: expected an address"));
    }

    #[test]
    fn a_next_hop_of_ipv6_may_be_link_local() {
        let pool = |more: Value| {
            let mut six = json!({"subnet": "fd00:81::/64", "ips": ["fd00:81::a"]});
            six.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read(six)
        };
        let routes = json!([{"dst": "fd00:99::/64", "gw": "fe80::2"}]);
        let read = pool(json!({"gateway": "fe80::1", "routes": routes})).unwrap();
        assert_eq!(read.gateway, Some("fe80::1".parse().unwrap()));
        assert_eq!(read.routes[0].gw, "fe80::2".parse::<IpAddr>().unwrap());
        for (more, text) in [
            (json!({"gateway": "fec0::1"}), "gateway: fec0::1 is not inside the subnet fd00:81::/64"),
            (json!({"gateway": "169.254.1.1"}), "gateway: 169.254.1.1 does not belong to the IPv6 subnet"),
            (json!({"ips": ["fe80::a"]}), "ips[0]: fe80::a is not inside the subnet fd00:81::/64"),
        ] {
            let error = pool(more).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
        assert!(refused(json!({"gateway": "169.254.1.1"})).contains("not inside the subnet"));
    }

    #[test]
    fn ipam_case_012_a_subnet_with_host_bits_is_refused() {
        let text = refused(json!({"subnet": "10.0.0.5/24"}));
        assert_eq!(text, "subnet: \"10.0.0.5/24\" has host bits set; write 10.0.0.0/24");
        for bad in ["10.0.0.0", "10.0.0.0/255.255.255.0", "10.0.0.0/33", "10.0.0.0/+8", "x/8", "10.0.0.0/"] {
            assert!(refused(json!({"subnet": bad})).starts_with("subnet: expected a subnet"), "{bad}");
        }
        assert_eq!(refused(json!({"subnet": null})), "subnet: missing");
    }

    #[test]
    fn ipam_case_016_routes_are_checked() {
        let route = |dst: &str, gw: &str| refused(json!({"routes": [{"dst": dst, "gw": gw}]}));
        assert!(route("0.0.0.0/0", "10.0.0.1").starts_with("routes[0].dst: 0.0.0.0/0 is a default route"));
        assert!(route("fd00::/64", "10.0.0.1").starts_with("routes[0].dst: fd00::/64 does not belong"));
        assert!(route("10.9.0.0/16", "10.9.0.1").starts_with("routes[0].gw: 10.9.0.1 is not inside"));
        assert!(route("10.9.0.0", "10.0.0.1").starts_with("routes[0].dst: expected a subnet"));
        assert_eq!(refused(json!({"routes": [{"dst": "10.9.0.0/16"}]})), "routes[0].gw: missing");
        assert!(
            refused(json!({"routes": [{"dst": 5, "gw": "10.0.0.1"}]}))
                .starts_with("routes[0].dst: expected a string")
        );
        assert!(refused(json!({"routes": ["10.9.0.0/16"]})).starts_with("routes[0]: expected an object"));
        let twice = json!([{"dst": "10.9.0.0/16", "gw": "10.0.0.1"}, {"dst": "10.8.0.0/16", "gw": "10.0.0.1"}, {"dst": "10.9.1.0/16", "gw": "10.0.0.2"}]);
        assert!(
            refused(json!({"routes": twice})).starts_with("routes[2].dst: 10.9.0.0/16 already has a route")
        );
    }

    #[test]
    fn the_ip_version_must_be_the_subnets() {
        assert!(
            refused(json!({"ipVersion": 6})).starts_with("ipVersion: 6 does not belong to the IPv4 subnet")
        );
        assert!(refused(json!({"ipVersion": "4"})).starts_with("ipVersion: "));
    }

    #[test]
    fn values_of_another_type_are_refused() {
        for (more, text) in [
            (json!({"ips": "10.0.0.1"}), "ips: expected a list"),
            (json!({"ips": ["10.0.0.1", 5]}), "ips[1]: expected a string, found 5"),
            (json!({"default": "yes"}), "default: expected true or false"),
            (json!({"podAffinity": "all"}), "podAffinity: expected an object"),
            (json!({"subnet": 10}), "subnet: expected a string"),
        ] {
            let error = refused(more);
            assert!(error.starts_with(text), "{error} must begin with {text}");
        }
    }
}
