//! Addresses and routes of a pod's link.

use std::{mem, net::IpAddr, time::Duration};

use cni::{AddResult, IpConfig, ResultRoute};
use rtnl::{Link, RouteKey, RoutePosition, RouteScopeId};
use tracing::info;

use crate::{Budget, ConflictDetection, Error, PodNetns, address_conflict, ipv6, link_up, seconds};

/// How long duplicate address detection may take. By RFC 4862 it takes one to two seconds.
const DAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait for the carrier.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(1);

/// Adds the result's addresses to the pod's link, sets it up, and adds the routes. Routes that were not added are removed
/// from the result: see [`add_routes`].
///
/// The order matters: `arp_notify` and `ndisc_notify` announce the addresses that a link has when it comes up.
///
/// # Errors
/// If the kernel refuses a request, or an address is in use by another host.
pub fn configure(
    pod: &PodNetns,
    link: &Link,
    result: &mut AddResult,
    detection: ConflictDetection,
) -> Result<(), Error> {
    let has_ipv6 = result.ips.iter().any(|ip| ip.address.is_ipv6());
    prepare(pod, &link.name, has_ipv6)?;
    if detection == ConflictDetection::On {
        address_conflict::probe(pod, link, result)?;
    }
    for ip in &result.ips {
        pod.links.add_address(link.index, ip.address)?;
    }
    link_up::set_up(pod, link)?;
    if gateway(result, true).is_some() || (has_ipv6 && detection == ConflictDetection::On) {
        wait_for_dad(pod, link)?;
    }
    add_routes(pod, link, result)
}

/// Adds the routes that the pod does not already have over another link, and removes the others from the result.
///
/// Existing routes keep precedence, regardless of their metric. Added as `ip route add` does it, an IPv4 default route
/// without a metric would take precedence over them, and an IPv6 one would get half of the traffic. A route that has a
/// metric in the configuration only conflicts with one of the same metric.
fn add_routes(pod: &PodNetns, link: &Link, result: &mut AddResult) -> Result<(), Error> {
    if result.routes.is_empty() {
        return Ok(());
    }
    let mut others = pod.links.destinations()?;
    others.retain(|there| there.links != [link.index]);
    let mut made = Vec::new();
    for route in mem::take(&mut result.routes) {
        let wanted = wanted(&route, link, result);
        let to = RouteKey::of(&wanted);
        let conflicts = |there: &RouteKey| {
            there.is_to_the_same(&to) && (route.priority.is_none() || there.metric == to.metric)
        };
        if others.iter().any(conflicts) || !add(pod, &wanted, &made, result)? {
            info!(dst = %route.dst, link = %link.name, "not adding a route: the pod already has one");
            continue;
        }
        made.push(to);
        result.routes.push(route);
    }
    Ok(())
}

/// Adds a route to those that were `made` already. Returns whether it was added.
fn add(pod: &PodNetns, route: &rtnl::Route, made: &[RouteKey], result: &AddResult) -> Result<bool, Error> {
    let to = RouteKey::of(route);
    let ranked = |rank| match pod.links.add_route(route, rank) {
        Ok(()) => Ok(true),
        Err(error) if error.is_exists() => Ok(false),
        Err(error) => Err(explain(route, result, error)),
    };
    let is_to = |subnet: &IpConfig| {
        (subnet.address.network(), subnet.address.prefix()) == (to.dst.network(), to.dst.prefix())
    };
    if made.iter().any(|there| there.is_to_the_same(&to) && there.metric == to.metric) {
        ranked(RoutePosition::Last)
    } else if result.ips.iter().any(is_to) {
        // The configured route takes precedence over the kernel's own route to the subnet of the address.
        ranked(RoutePosition::First)
    } else {
        ranked(RoutePosition::Only)
    }
}

/// Returns the error of a route. The kernel refuses a next hop that it cannot reach over the link, which has no other routes
/// (`net/ipv4/fib_semantics.c: fib_check_nh_v4_gw`, `net/ipv6/route.c: ip6_route_check_nh`).
fn explain(route: &rtnl::Route, result: &AddResult, error: rtnl::Error) -> Error {
    let is_refused = matches!(&error, rtnl::Error::Netlink(netlink::Error::Refused { .. }));
    let addresses = || result.ips.iter().map(|ip| ip.address);
    let is_outside = |gateway: &IpAddr| match gateway {
        IpAddr::V6(gateway) if gateway.is_unicast_link_local() => false,
        _ => !addresses().any(|subnet| subnet.contains(*gateway)),
    };
    match route.gateway.filter(|gateway| is_refused && is_outside(gateway)) {
        Some(gateway) => {
            let addresses = addresses().map(|address| address.to_string()).collect::<Vec<_>>().join(", ");
            Error::GatewayOutside { dst: route.dst, gateway, addresses, source: error }
        }
        None => error.into(),
    }
}

/// Returns the first gateway of an address family.
fn gateway(result: &AddResult, v6: bool) -> Option<IpAddr> {
    result.ips.iter().filter_map(|ip| ip.gateway).find(|gateway| gateway.is_ipv6() == v6)
}

/// Returns the kernel's route of a route in a result.
fn wanted(route: &ResultRoute, link: &Link, result: &AddResult) -> rtnl::Route {
    rtnl::Route {
        dst: route.dst,
        gateway: route.gw.or_else(|| gateway(result, route.dst.is_ipv6())),
        link: link.index,
        priority: route.priority,
        table: route.table,
        scope: route.scope.map(RouteScopeId),
        mtu: route.mtu,
        advmss: route.advmss,
    }
}

/// The metric of a default route from a router advertisement on the link. The kernel's default is 1024, the same as of a
/// route without a metric. A pod with another default route would then send a part of its traffic over this link.
const ADVERTISED_METRIC: &str = "2048";

/// Sets the sysctls that take effect when the link comes up or gets an address. Only `disable_ipv6` is required.
fn prepare(pod: &PodNetns, ifname: &str, v6: bool) -> Result<(), Error> {
    let mut optional = vec![
        (format!("net/ipv4/conf/{ifname}/arp_notify"), "1"),
        (format!("net/ipv6/conf/{ifname}/ndisc_notify"), "1"),
        (format!("net/ipv6/conf/{ifname}/ra_defrtr_metric"), ADVERTISED_METRIC), // since Linux 5.12
    ];
    if v6 {
        ipv6::require()?;
        // Otherwise the kernel removes the addresses when the link goes down.
        optional.push((format!("net/ipv6/conf/{ifname}/keep_addr_on_down"), "1"));
        let required = ["lo", ifname].map(|name| (format!("net/ipv6/conf/{name}/disable_ipv6"), "0"));
        pod.ensure_sysctls(&required)?.map_err(|source| Error::Ipv6 { ifname: ifname.to_owned(), source })?;
    }
    let _ = pod.write_sysctls(&optional)?;
    Ok(())
}

/// Waits for duplicate address detection: routes with an IPv6 gateway cannot be used with a tentative source address.
fn wait_for_dad(pod: &PodNetns, link: &Link) -> Result<(), Error> {
    let wait = |source| Error::Wait { what: "duplicate address detection", source };
    let events = pod.run(|| rtnl::events(true))?.map_err(wait)?;
    let budget = Budget::of_call();
    let deadline = budget.until("duplicate address detection", DAD_TIMEOUT);
    loop {
        let (tentative, duplicate) = pod.links.unchecked_addresses(link.index)?;
        if let Some(address) = duplicate.first() {
            return Err(Error::DuplicateAddress { address: *address, link: link.name.clone() });
        }
        if tentative.is_empty() {
            return Ok(());
        }
        // Without carrier the kernel does not start duplicate address detection.
        if deadline.waited() > CARRIER_TIMEOUT && !pod.links.link_by_index(link.index)?.running {
            return Ok(());
        }
        if deadline.has_passed() {
            let (address, link, waited) = (tentative[0], link.name.clone(), seconds(deadline.waited()));
            return Err(Error::Tentative { address, link, waited });
        }
        events.wait(deadline.at(), Duration::from_millis(500)).map_err(wait)?;
    }
}

/// Checks that the pod's link has the result's addresses and routes.
///
/// # Errors
/// The first address or route that is missing.
pub fn verify(pod: &PodNetns, link: &Link, result: &AddResult) -> Result<(), Error> {
    let changed = |what: String| Err(Error::Changed(what));
    let addresses = pod.links.addresses(link.index)?;
    for ip in &result.ips {
        if !addresses.contains(&ip.address) {
            return changed(format!("address {} is not on {}", ip.address, link.name));
        }
    }
    if result.routes.is_empty() {
        return Ok(());
    }
    let (routes, destinations) = (pod.links.routes()?, pod.links.destinations()?);
    let gateways: Vec<IpAddr> = result.ips.iter().filter_map(|ip| ip.gateway).collect();
    for route in &result.routes {
        let to = RouteKey::of(&wanted(route, link, result));
        let ours = |r: &rtnl::Route| {
            r.link == link.index
                && RouteKey::of(r).is_to_the_same(&to)
                && r.gateway
                    .is_none_or(|gw| route.gw.is_none_or(|wanted| wanted == gw) || gateways.contains(&gw))
        };
        // A route of another link took precedence.
        let others = |there: &RouteKey| there.links != [link.index] && there.is_to_the_same(&to);
        let there = routes.iter().any(ours) || destinations.iter().any(others);
        if !there {
            return changed(format!("the route to {} through {} is missing", route.dst, link.name));
        }
    }
    Ok(())
}
