//! `SpiderIPPool` documents, as YAML, as JSON and as a configuration's `pools`.

use std::path::Path;

use ipam::{Pool, PoolRequest, Pools};
use serde_json::Value;

/// A pool file.
pub(super) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let yaml = Pools::from_text(text, Path::new("pools.yaml"));
    let json = Pools::from_text(text, Path::new("pools.json"));
    for read in [&yaml, &json] {
        match read {
            Ok(pools) => assert_pools(pools),
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        assert_same_meaning(&value);
        let _ = Pools::from_inline(&value).inspect(assert_pools);
        let _ = Pools::from_inline(&Value::Array(vec![value])).inspect(assert_pools);
    }
}

/// JSON is also YAML, with the same meaning.
fn assert_same_meaning(value: &Value) {
    let text = value.to_string();
    let json = Pools::from_text(&text, Path::new("pools.json"));
    let yaml = Pools::from_text(&text, Path::new("pools.yaml"));
    let (Ok(json), Ok(yaml)) = (&json, &yaml) else {
        assert_eq!(json.is_ok(), yaml.is_ok(), "{json:?} as JSON, {yaml:?} as YAML");
        return;
    };
    assert!(json.iter().eq(yaml.iter()), "{json:?} as JSON, {yaml:?} as YAML");
    assert_eq!(json.reserved(), yaml.reserved());
}

fn assert_pools(pools: &Pools) {
    for pool in pools.iter() {
        assert_pool(pool, pools);
        assert_eq!(pools.get(pool.name.as_str()), Some(pool), "a duplicate name");
    }
    let names: Vec<String> = pools.iter().map(|pool| pool.name.to_string()).collect();
    for (ipv4, ipv6) in [(names.as_slice(), [].as_slice()), (&[], &names), (&[], &[])] {
        let request = PoolRequest {
            ifname: "net1",
            ipv4,
            ipv6,
            host_name: "node",
            pod_namespace: ipam::PodNamespace::Of("ai"),
            network: Some("rail0"),
            ..PoolRequest::default()
        };
        match pools.select(&request) {
            Ok(selection) => {
                let usable = selection.ipv4.iter().chain(&selection.ipv6);
                assert!(usable.into_iter().all(|pool| !pool.disabled && !pool.terminating));
            }
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
}

/// The rules that the allocator and the kernel rely on.
fn assert_pool(pool: &Pool, pools: &Pools) {
    assert_eq!(pool.subnet.ip(), pool.subnet.network(), "host bits are set");
    assert_eq!(pool.family(), pool.ranges.family());
    for ordinal in [Some(0), pool.ranges.len().checked_sub(1)].into_iter().flatten() {
        let Some(address) = pool.ranges.nth(ordinal) else { continue };
        assert!(pool.subnet.contains(address), "{address} is outside of {}", pool.subnet);
        assert_eq!(pool.ranges.ordinal(address), Some(ordinal));
        assert!(pools.reserved().iter().all(|range| !range.contains(address)), "{address} is reserved");
    }
    if let Some(gateway) = pool.gateway {
        assert!(pool.subnet.contains(gateway) && !pool.ranges.contains(gateway), "gateway {gateway}");
    }
    for route in &pool.routes {
        assert!(pool.subnet.contains(route.gw) && route.dst.prefix() > 0, "{route:?}");
    }
}
