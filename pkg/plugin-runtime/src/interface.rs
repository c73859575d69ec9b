//! A pod's link gets its addresses and routes.

use std::{mem, net::IpAddr, time::Duration};

use cni::{AddResult, IpConfig, ResultRoute};
use nix::errno::Errno;
use rtnl::{Link, RouteKey, RoutePosition, RouteScopeId};
use tracing::info;

use crate::{Budget, Error, PodNetns, retry_while_busy, seconds};

/// How long duplicate address detection may take. By RFC 4862 it takes one to two seconds.
const DAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the carrier may take.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(1);

/// Gives the pod's link the result's addresses, sets it up, and adds the routes. The result keeps those that were
/// added: see [`add_routes`].
///
/// The order matters: `arp_notify` and `ndisc_notify` announce the addresses a link has when it comes up.
///
/// # Errors
/// What the kernel refused; that an IPv6 address is a duplicate.
pub fn configure(pod: &PodNetns, link: &Link, result: &mut AddResult) -> Result<(), Error> {
    prepare(pod, &link.name, result.ips.iter().any(|ip| ip.address.is_ipv6()))?;
    for ip in &result.ips {
        pod.links.add_address(link.index, ip.address)?;
    }
    retry_while_busy(|| pod.links.set_up(link.index, true)).map_err(|error| explain(link, error))?;
    if gateway(result, true).is_some() {
        wait_for_dad(pod, link)?;
    }
    add_routes(pod, link, result)
}

/// Adds the routes that the pod does not have already over another link, and takes the others out of the result.
///
/// What was there first stays as it is, whatever its metric: added as `ip route add` does it, a default route of IPv4
/// without a metric would come before it, and one of IPv6 would get half of its traffic. Who gives a route a metric
/// says by it which of the two counts; only one of the same metric is in its way.
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
        let in_the_way = |there: &RouteKey| {
            there.is_to_the_same(&to) && (route.priority.is_none() || there.metric == to.metric)
        };
        if others.iter().any(in_the_way) || !add(pod, &wanted, &made, result)? {
            info!(dst = %route.dst, link = %link.name, "the pod has a route there already, and keeps it");
            continue;
        }
        made.push(to);
        result.routes.push(route);
    }
    Ok(())
}

/// Adds a route, beside those that were `made` already. Returns whether it was added.
fn add(pod: &PodNetns, route: &rtnl::Route, made: &[RouteKey], result: &AddResult) -> Result<bool, Error> {
    let to = RouteKey::of(route);
    let ranked = |rank| match pod.links.add_route(route, rank) {
        Err(error) if error.is_exists() => Ok(false),
        added => Ok(added.map(|()| true)?),
    };
    let is_to = |subnet: &IpConfig| {
        (subnet.address.network(), subnet.address.prefix()) == (to.dst.network(), to.dst.prefix())
    };
    if made.iter().any(|there| there.is_to_the_same(&to) && there.metric == to.metric) {
        ranked(RoutePosition::Last)
    } else if result.ips.iter().any(is_to) {
        // The kernel has made a route to the subnet of the address, and the configuration knows a better way there.
        ranked(RoutePosition::First)
    } else {
        ranked(RoutePosition::Only)
    }
}

/// The first gateway of a family.
fn gateway(result: &AddResult, v6: bool) -> Option<IpAddr> {
    result.ips.iter().filter_map(|ip| ip.gateway).find(|gateway| gateway.is_ipv6() == v6)
}

/// A route of a result, for the kernel.
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

/// Explains why the kernel did not set a link up, where it is known.
fn explain(link: &Link, error: rtnl::Error) -> Error {
    match (&error, link.mac) {
        // A macvlan link's address is compared with those of its neighbours on the parent only now.
        (rtnl::Error::Netlink(e), Some(mac)) if e.errno() == Some(Errno::EADDRINUSE) => {
            Error::MacInUse { mac, link: link.name.clone(), source: error }
        }
        _ => error.into(),
    }
}

/// The metric of a default route that a router on the link advertises. The kernel gives it that of a route that was
/// given none, 1024, and would then send a part of a pod's traffic over it that had a default route before.
const ADVERTISED_METRIC: &str = "2048";

/// Sysctls that act when the link comes up or gets an address. Only `disable_ipv6` is indispensable.
fn prepare(pod: &PodNetns, ifname: &str, v6: bool) -> Result<(), Error> {
    let mut wishes = vec![
        (format!("net/ipv4/conf/{ifname}/arp_notify"), "1"),
        (format!("net/ipv6/conf/{ifname}/ndisc_notify"), "1"),
        (format!("net/ipv6/conf/{ifname}/ra_defrtr_metric"), ADVERTISED_METRIC), // since Linux 5.12
    ];
    if v6 {
        // Without it the kernel would drop the addresses whenever the link goes down.
        wishes.push((format!("net/ipv6/conf/{ifname}/keep_addr_on_down"), "1"));
        let needs = ["lo", ifname].map(|name| (format!("net/ipv6/conf/{name}/disable_ipv6"), "0"));
        pod.ensure_sysctls(&needs)?.map_err(|source| Error::Ipv6 { ifname: ifname.to_owned(), source })?;
    }
    let _ = pod.write_sysctls(&wishes)?;
    Ok(())
}

/// Routes with an IPv6 gateway are useless while the address they would be used from is tentative.
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
        // Without carrier there is nobody to ask, and the kernel does not begin.
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

/// Looks whether the pod's link has the result's addresses and routes.
///
/// # Errors
/// What differs.
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
        // Another link's was there first.
        let others = |there: &RouteKey| there.links != [link.index] && there.is_to_the_same(&to);
        let there = routes.iter().any(ours) || destinations.iter().any(others);
        if !there {
            return changed(format!("the route to {} through {} is not there", route.dst, link.name));
        }
    }
    Ok(())
}
