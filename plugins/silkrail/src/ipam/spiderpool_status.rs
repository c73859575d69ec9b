//! The status of a `SpiderIPPool` in which Spiderpool records the addresses of pods.

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use ::ipam::{Pool, Pools};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::node_addresses::AddressRow;

/// An address and its pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodAddress {
    pub(super) address: IpAddr,
    /// `container@ifname`.
    pub(super) owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pod_uid: Option<String>,
}

impl PodAddress {
    /// Returns the part of a row that is exported.
    pub(super) fn of(row: &AddressRow) -> Self {
        Self {
            address: row.address,
            owner: row.owner.clone(),
            namespace: row.namespace.clone(),
            pod: row.pod.clone(),
            pod_uid: row.pod_uid.clone(),
        }
    }
}

/// Pools whose status was changed.
#[derive(Debug, Default)]
pub(super) struct AllocatedPools {
    pub(super) pools: Vec<Value>,
    /// The addresses that could not be added.
    pub(super) problems: Vec<String>,
}

/// Adds addresses to the status of the pools that contain them. Records that are there are kept.
///
/// # Errors
/// If a pool is not valid.
pub(super) fn allocate(pools: &[Value], addresses: &[PodAddress]) -> Result<AllocatedPools, String> {
    let mut parsed = Vec::new();
    for object in pools {
        let pool = Pools::from_text(&object.to_string(), Path::new("pools.json"))
            .map_err(|error| error.to_string())?;
        parsed.extend(pool.iter().next().map(|pool| (object, pool.clone())));
    }
    let mut added: BTreeMap<String, Vec<&PodAddress>> = BTreeMap::new();
    let mut problems = Vec::new();
    for address in addresses {
        if address.pod.is_none() || address.namespace.is_none() || address.pod_uid.is_none() {
            let PodAddress { address, owner, .. } = address;
            problems.push(format!("{address} of {owner}: its pod is not known"));
            continue;
        }
        // An excluded address can be in use since before it was excluded.
        let pools = || parsed.iter().map(|(_, pool)| pool);
        let of_pool = pools().find(|pool| has(pool, address.address));
        match of_pool.or_else(|| pools().find(|pool| excludes(pool, address.address))) {
            Some(pool) => added.entry(pool.name.to_string()).or_default().push(address),
            None => problems.push(format!("{} of {}: it is in no pool", address.address, address.owner)),
        }
    }
    let mut changed = Vec::new();
    for (object, pool) in &parsed {
        let Some(new) = added.get(pool.name.as_str()) else { continue };
        let before = records(object);
        let mut after = before.clone();
        for address in new {
            let key = address.address.to_string();
            let Some(record) = record(address) else { continue };
            match after.get(&key) {
                Some(there) if there["podUid"] != record["podUid"] => problems.push(format!(
                    "{key} of {}: the status of IPPool {} has it for another pod, {}",
                    address.owner, pool.name, there["pod"]
                )),
                Some(_) => {}
                None => drop(after.insert(key, record)),
            }
        }
        if after != before {
            changed.push(with_records(object, &after));
        }
    }
    Ok(AllocatedPools { pools: changed, problems })
}

fn has(pool: &Pool, address: IpAddr) -> bool {
    pool.ranges.contains(address) || pool.given.contains_key(&address)
}

fn excludes(pool: &Pool, address: IpAddr) -> bool {
    pool.excluded.iter().any(|range| range.contains(address))
}

fn records(object: &Value) -> Map<String, Value> {
    match &object["status"]["allocatedIPs"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        Value::Object(records) => records.clone(),
        _ => Map::new(),
    }
}

fn record(address: &PodAddress) -> Option<Value> {
    let pod = format!("{}/{}", address.namespace.as_ref()?, address.pod.as_ref()?);
    Some(json!({"pod": pod, "podUid": address.pod_uid.as_ref()?}))
}

fn with_records(object: &Value, records: &Map<String, Value>) -> Value {
    let mut object = object.clone();
    let text = Value::Object(records.clone()).to_string();
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    object["status"]["allocatedIPs"] = json!(text);
    object["status"]["allocatedIPCount"] = json!(records.len());
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, ips: &str, status: Value) -> Value {
        let excluded = if name == "two" { json!(["10.0.2.9"]) } else { Value::Null };
        json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name, "resourceVersion": "7"},
            "spec": {"subnet": "10.0.0.0/16", "ips": [ips], "excludeIPs": excluded}, "status": status,
        })
    }

    fn address(text: &str, pod: Option<&str>) -> PodAddress {
        let owned = |text: &str| Some(text.to_owned());
        PodAddress {
            address: text.parse().unwrap(),
            owner: format!("c{text}@net1"),
            namespace: owned("ai"),
            pod: pod.map(str::to_owned),
            pod_uid: owned("u"),
        }
    }

    #[test]
    fn addresses_are_recorded_as_spiderpool_does() {
        let there = json!({"allocatedIPs": "{\"10.0.1.1\":{\"pod\":\"x/y\",\"podUid\":\"z\"}}", "allocatedIPCount": 1, "totalIPCount": 9});
        let pools = [
            pool("one", "10.0.1.0-10.0.1.9", there),
            pool("two", "10.0.2.0-10.0.2.9", Value::Null),
            pool("three", "10.0.3.0-10.0.3.9", Value::Null),
        ];
        let addresses = [
            address("10.0.1.1", Some("w")),
            address("10.0.1.2", Some("web-0")),
            address("10.0.2.9", Some("web-1")),
            address("10.0.4.1", Some("web-2")),
            address("10.0.3.1", None),
        ];
        let allocated = allocate(&pools, &addresses).unwrap();
        assert_eq!(
            allocated.problems,
            [
                "10.0.4.1 of c10.0.4.1@net1: it is in no pool",
                "10.0.3.1 of c10.0.3.1@net1: its pod is not known",
                "10.0.1.1 of c10.0.1.1@net1: the status of IPPool one has it for another pod, \"x/y\""
            ]
        );
        let [one, two] = &allocated.pools[..] else { panic!("{:?}", allocated.pools) };
        assert_eq!(
            one["status"]["allocatedIPs"],
            "{\"10.0.1.1\":{\"pod\":\"x/y\",\"podUid\":\"z\"},\"10.0.1.2\":{\"pod\":\"ai/web-0\",\"podUid\":\"u\"}}"
        );
        assert_eq!(
            (&one["status"]["allocatedIPCount"], &one["status"]["totalIPCount"]),
            (&json!(2), &json!(9))
        );
        assert_eq!(
            (&one["metadata"]["resourceVersion"], &two["metadata"]["name"]),
            (&json!("7"), &json!("two"))
        );
        // What was added is not added again.
        assert!(allocate(&allocated.pools, &addresses[..3]).unwrap().pools.is_empty());
    }
}
