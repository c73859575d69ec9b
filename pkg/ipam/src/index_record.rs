//! The records of an index: a pool in parsed form, without the fields that only error messages need.

use ipnetwork::IpNetwork;
use serde_json::{Map, Value, json};

use crate::{IpFamily, IpRange, IpRanges, Pool, PoolAffinity, PoolRoute, spec::SpecReader};

/// Returns the record of a pool.
pub(crate) fn of_pool(pool: &Pool) -> Value {
    let routes = pool.routes.iter().map(|route| json!([route.dst.to_string(), route.gw.to_string()]));
    let affinity = &pool.affinity;
    json!({
        "name": pool.name.as_str(),
        "subnet": pool.subnet.to_string(),
        "ranges": pool.ranges.iter().map(|range| range.to_string()).collect::<Vec<_>>(),
        "gateway": pool.gateway.map(|gateway| gateway.to_string()),
        "routes": routes.collect::<Vec<_>>(),
        "nodes": affinity.node_names,
        "namespaces": affinity.namespace_names,
        "networks": affinity.multus_names,
        "pod": affinity.pod,
        "node": affinity.node,
        "namespace": affinity.namespace,
        "default": pool.default,
        "disabled": pool.disabled,
        "terminating": pool.terminating,
    })
}

/// Parses the record of a pool; `None` if it is malformed.
pub(crate) fn pool(record: &Value) -> Option<Pool> {
    let spec = SpecReader(record.as_object()?);
    let texts = |key: &str| -> Option<Vec<String>> {
        Some(spec.texts(key).ok()?.into_iter().map(str::to_owned).collect())
    };
    let flag = |key: &str| spec.flag(key).ok();
    let subnet: IpNetwork = spec.text("subnet").ok()??.parse().ok()?;
    let routes: Option<_> = spec.list("routes").ok()?.iter().map(route).collect();
    Some(Pool {
        name: spec.text("name").ok()??.parse().ok()?,
        subnet,
        ranges: IpRanges::new(IpFamily::of(subnet.ip()), &list(spec.list("ranges").ok()?)?, &[]),
        excluded: Vec::new(),
        given: std::collections::BTreeMap::new(),
        gateway: spec.parsed("gateway", "").ok()?,
        routes: routes?,
        affinity: PoolAffinity {
            node_names: texts("nodes")?,
            namespace_names: texts("namespaces")?,
            multus_names: texts("networks")?,
            pod: flag("pod")?,
            node: flag("node")?,
            namespace: flag("namespace")?,
        },
        default: flag("default")?,
        disabled: flag("disabled")?,
        terminating: flag("terminating")?,
        blocks: None,
    })
}

/// Returns the record of ranges.
pub(crate) fn of_ranges(ranges: &[IpRange]) -> Value {
    json!({ "ranges": ranges.iter().map(ToString::to_string).collect::<Vec<_>>() })
}

/// Parses the record of ranges; `None` if it is malformed.
pub(crate) fn ranges(record: &Value) -> Option<Vec<IpRange>> {
    let object: &Map<String, Value> = record.as_object()?;
    list(SpecReader(object).list("ranges").ok()?)
}

fn list(ranges: &[Value]) -> Option<Vec<IpRange>> {
    ranges.iter().map(|range| range.as_str()?.parse().ok()).collect()
}

fn route(pair: &Value) -> Option<PoolRoute> {
    let text = |index: usize| pair.get(index)?.as_str();
    Some(PoolRoute { dst: text(0)?.parse().ok()?, gw: text(1)?.parse().ok()? })
}
