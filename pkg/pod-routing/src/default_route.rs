//! The pod's default route over a link that is not its cluster network's.
//!
//! The former default route stays in the main table, without effect while the new one precedes it. So it is in effect again
//! when the link is gone, without anything to be restored.

use std::net::IpAddr;

use cni::{AddResult, ResultRoute};
use plugin_runtime::{Error, PodNetns};
use rtnl::{Link, MAIN_TABLE, Route, RouteKey, RoutePosition};

use crate::{error::RoutingError, table::any};

/// Takes the default routes out of the result: [`set`] adds its own.
pub(crate) fn take_from(result: &mut AddResult) {
    result.routes.retain(|route| route.dst.prefix() > 0 || route.table.is_some());
}

/// Adds a default route through each family's gateway, before those that the pod has, and adds them to the result.
pub(crate) fn set(pod: &PodNetns, link: &Link, result: &mut AddResult) -> Result<(), Error> {
    for gateway in gateways(result)? {
        let metric = metric(pod, gateway)?;
        // IPv4: before the others of the same metric.
        pod.links.add_route(&route(link, gateway, metric), RoutePosition::First)?;
        let reported = ResultRoute { priority: metric, ..ResultRoute::new(any(gateway), Some(gateway)) };
        result.routes.push(reported);
    }
    Ok(())
}

/// Checks that the first default route of each family is over the link.
pub(crate) fn verify(pod: &PodNetns, link: &Link, result: &AddResult) -> Result<(), Error> {
    let present = pod.links.destinations()?;
    for gateway in gateways(result)? {
        let wanted = RouteKey::of(&route(link, gateway, None));
        let of_family = present.iter().filter(|there| there.is_to_the_same(&wanted));
        // The first of those with the lowest metric, in the kernel's order.
        let first = of_family.min_by_key(|there| there.metric);
        if first.is_none_or(|first| first.links != [link.index]) {
            return Err(RoutingError::NotDefault { gateway, link: link.name.clone() }.into());
        }
    }
    Ok(())
}

/// Returns the first gateway of each family.
fn gateways(result: &AddResult) -> Result<Vec<IpAddr>, Error> {
    let all = result.ips.iter().filter_map(|ip| ip.gateway);
    let mut firsts: Vec<IpAddr> = Vec::new();
    for gateway in all {
        if !firsts.iter().any(|first| first.is_ipv4() == gateway.is_ipv4()) {
            firsts.push(gateway);
        }
    }
    if firsts.is_empty() { Err(RoutingError::NoGateway.into()) } else { Ok(firsts) }
}

/// Returns a metric below those of the pod's default routes; `None` for IPv4, whose lowest metric is the default.
///
/// # Kernel
/// IPv6 routes of the same metric become one route with several next hops, each of which gets a share of the traffic.
fn metric(pod: &PodNetns, gateway: IpAddr) -> Result<Option<u32>, Error> {
    if gateway.is_ipv4() {
        return Ok(None);
    }
    let any = any(gateway);
    let is_default = |there: &RouteKey| there.dst == any && there.table == MAIN_TABLE;
    let lowest = pod.links.destinations()?.into_iter().filter(is_default).map(|there| there.metric).min();
    match lowest {
        None => Ok(None),
        Some(lowest) if lowest > 1 => Ok(Some((lowest / 2).max(1))),
        Some(lowest) => Err(RoutingError::NoMetric { lowest }.into()),
    }
}

fn route(link: &Link, gateway: IpAddr, priority: Option<u32>) -> Route {
    Route {
        dst: any(gateway),
        gateway: Some(gateway),
        link: link.index,
        priority,
        table: None,
        scope: None,
        mtu: None,
        advmss: None,
    }
}

#[cfg(test)]
mod tests {
    use cni::IpConfig;

    use super::*;

    #[test]
    fn each_family_has_the_first_of_its_gateways() {
        let ip = |address: &str, gateway: Option<&str>| IpConfig {
            address: address.parse().unwrap(),
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
            interface: None,
        };
        let ips = vec![
            ip("10.7.0.5/24", None),
            ip("10.8.0.5/24", Some("10.8.0.1")),
            ip("10.9.0.5/24", Some("10.9.0.1")),
            ip("fd00:8::5/64", Some("fd00:8::1")),
            ip("fd00:9::5/64", Some("fd00:9::1")),
        ];
        let found = gateways(&AddResult { ips, ..AddResult::default() }).unwrap();
        assert_eq!(found, ["10.8.0.1", "fd00:8::1"].map(|gateway| gateway.parse::<IpAddr>().unwrap()));
        let none = AddResult { ips: vec![ip("10.7.0.5/24", None)], ..AddResult::default() };
        assert!(gateways(&none).is_err());
    }

    #[test]
    fn only_the_default_routes_of_the_main_table_are_taken() {
        let route = |dst: &str, table| ResultRoute { table, ..ResultRoute::new(dst.parse().unwrap(), None) };
        let kept = [route("10.8.0.0/16", None), route("0.0.0.0/0", Some(100)), route("::/0", Some(100))];
        let taken = [route("0.0.0.0/0", None), route("::/0", None), route("0.0.0.0/0", None)];
        let mut result = AddResult { routes: [&taken[..], &kept].concat(), ..AddResult::default() };
        take_from(&mut result);
        assert_eq!(result.routes, kept);
    }
}
