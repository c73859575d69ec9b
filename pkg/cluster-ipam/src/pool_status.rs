//! The status of a pool, from what nodes report about their blocks. Does no I/O.

use std::net::IpAddr;

use ipam::{IpBlock, IpRange, Pool};
use serde_json::{Value, json};

/// The maximum number of addresses that a message lists.
const LISTED: usize = 8;

/// A block and its addresses in use, as its node has reported them.
#[derive(Debug, Clone)]
pub(crate) struct ReportedBlock {
    pub(crate) block: IpBlock,
    pub(crate) node: String,
    pub(crate) in_use: Vec<IpRange>,
}

/// Returns the status of a pool. `all` are the pools of the cluster: an address in use that this pool no longer contains is
/// outside only if no other pool contains it.
pub(crate) fn of_pool(pool: &Pool, all: &[&Pool], blocks: &[ReportedBlock]) -> Value {
    // Those of Spiderpool count, too.
    let mut used = u64::try_from(pool.given.len()).unwrap_or(u64::MAX);
    let mut outside = Vec::new();
    for block in blocks.iter().filter(|block| pool.subnet.contains(block.block.range().first())) {
        for address in block.in_use.iter().flat_map(|range| range.addresses()) {
            if pool.ranges.contains(address) {
                used += 1;
            } else if pool.subnet.contains(address) && !all.iter().any(|other| other.ranges.contains(address))
            {
                outside.push(format!("{address} on {}", block.node));
            }
        }
    }
    // The API has no larger numbers.
    let total = pool.ranges.len().saturating_add(pool.given.len() as u128);
    let total = i64::try_from(total).unwrap_or(i64::MAX);
    let valid = condition("Valid", true, "PoolIsValid", "its addresses can be assigned");
    json!({"status": {
        "totalIPCount": total,
        "allocatedIPCount": used,
        "conditions": [valid, outside_condition(&outside)],
    }})
}

fn outside_condition(outside: &[String]) -> Value {
    if outside.is_empty() {
        let message = "all addresses of the subnet that are in use belong to a pool";
        return condition("AddressesOutside", false, "NoAddressOutside", message);
    }
    let listed = outside.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if outside.len() > LISTED { ", …" } else { "" };
    let message = format!(
        "addresses of the subnet that are in use and belong to no pool any more: {}: {listed}{more}",
        outside.len()
    );
    condition("AddressesOutside", true, "AddressesInUse", &message)
}

/// Returns the status of a pool that cannot be used.
pub(crate) fn of_invalid(problem: &str) -> Value {
    json!({"status": {"conditions": [condition("Valid", false, "PoolIsInvalid", problem)]}})
}

fn condition(kind: &str, is_true: bool, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": if is_true { "True" } else { "False" }, "reason": reason, "message": message})
}

/// Returns sorted addresses as ranges.
pub(crate) fn ranges(addresses: &[IpAddr]) -> Vec<IpRange> {
    let mut ranges: Vec<(IpAddr, IpAddr)> = Vec::new();
    for address in addresses {
        match ranges.last_mut() {
            Some((_, last)) if is_next(*last, *address) => *last = *address,
            _ => ranges.push((*address, *address)),
        }
    }
    ranges.into_iter().filter_map(|(first, last)| format!("{first}-{last}").parse().ok()).collect()
}

fn is_next(before: IpAddr, after: IpAddr) -> bool {
    match (before, after) {
        (IpAddr::V4(before), IpAddr::V4(after)) => u32::from(before).checked_add(1) == Some(u32::from(after)),
        (IpAddr::V6(before), IpAddr::V6(after)) => {
            u128::from(before).checked_add(1) == Some(u128::from(after))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use ipam::Pools;

    use super::*;

    fn pools(value: &Value) -> Pools {
        Pools::from_inline(value).unwrap()
    }

    fn block(name: &str, in_use: &[&str]) -> ReportedBlock {
        let in_use = in_use.iter().map(|range| range.parse().unwrap()).collect();
        ReportedBlock { block: name.parse().unwrap(), node: "gpu-07".to_owned(), in_use }
    }

    #[test]
    fn addresses_in_use_are_counted() {
        let all = pools(&json!([{"name": "p", "subnet": "10.0.0.0/24", "ips": ["10.0.0.0-10.0.0.20"]}]));
        let blocks = [
            block("10.0.0.0-28", &["10.0.0.1-10.0.0.3", "10.0.0.9"]),
            block("10.0.0.16-28", &["10.0.0.20-10.0.0.22"]),
        ];
        let status = of_pool(all.get("p").unwrap(), &all.iter().collect::<Vec<_>>(), &blocks);
        assert_eq!(
            (&status["status"]["totalIPCount"], &status["status"]["allocatedIPCount"]),
            (&json!(21), &json!(5))
        );
        let outside = &status["status"]["conditions"][1];
        assert_eq!((&outside["type"], &outside["status"]), (&json!("AddressesOutside"), &json!("True")));
        let message = outside["message"].as_str().unwrap();
        assert!(
            message.contains("any more: 2:") && message.contains("10.0.0.21 on gpu-07, 10.0.0.22 on gpu-07"),
            "{message}"
        );
    }

    #[test]
    fn addresses_of_another_pool_are_not_outside() {
        let all = pools(&json!([
            {"name": "p", "subnet": "10.0.0.0/24", "ips": ["10.0.0.0-10.0.0.7"]},
            {"name": "q", "subnet": "10.0.0.0/24", "ips": ["10.0.0.8-10.0.0.15"]},
        ]));
        let status = of_pool(
            all.get("p").unwrap(),
            &all.iter().collect::<Vec<_>>(),
            &[block("10.0.0.0-28", &["10.0.0.7-10.0.0.8"])],
        );
        assert_eq!(status["status"]["allocatedIPCount"], 1);
        assert_eq!(status["status"]["conditions"][1]["status"], "False");
    }

    #[test]
    fn a_few_of_many_addresses_outside_are_listed() {
        let all = pools(&json!([
            {"name": "p", "subnet": "10.0.0.0/24", "ips": ["10.0.0.0"]},
            {"name": "six", "subnet": "fd00::/64", "ips": ["fd00::-fd00::ffff:ffff:ffff:ffff"]},
        ]));
        let every: Vec<_> = all.iter().collect();
        let blocks =
            [block("10.0.0.16-28", &["10.0.0.16-10.0.0.24"]), block("fd00-0-0-0-0-0-0-0-124", &["fd00::1"])];
        let text = |blocks: &[ReportedBlock]| {
            let status = of_pool(every[0], &every, blocks);
            status["status"]["conditions"][1]["message"].as_str().unwrap().to_owned()
        };
        let nine = text(&blocks);
        assert!(nine.contains("any more: 9:") && nine.ends_with("10.0.0.23 on gpu-07, …"), "{nine}");
        let eight = text(&[block("10.0.0.16-28", &["10.0.0.16-10.0.0.23"])]);
        assert!(eight.contains("any more: 8:") && eight.ends_with("10.0.0.23 on gpu-07"), "{eight}");
        let six = of_pool(every[1], &every, &blocks);
        assert_eq!(
            (&six["status"]["totalIPCount"], &six["status"]["allocatedIPCount"]),
            (&json!(i64::MAX), &json!(1))
        );
        let invalid = of_invalid("why");
        assert_eq!(invalid["status"]["conditions"][0]["message"], "why");
    }

    #[test]
    fn adjacent_addresses_are_one_range() {
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.4", "255.255.255.255", "fd00::1", "fd00::2"];
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let texts: Vec<_> = ranges(&addresses).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.1-10.0.0.2", "10.0.0.4", "255.255.255.255", "fd00::1-fd00::2"]);
    }
}
