//! A pod's link gets its addresses and routes.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use cni::{AddResult, Code};
use nix::errno::Errno;
use rtnl::{Link, Scope};

use crate::{Error, Pod};

/// How long duplicate address detection may take. By RFC 4862 it takes one to two seconds.
const DAD: Duration = Duration::from_secs(10);

/// How long the carrier may take.
const CARRIER: Duration = Duration::from_secs(1);

/// Gives the pod's link the result's addresses, sets it up, and adds the routes.
///
/// The order matters: `arp_notify` and `ndisc_notify` announce the addresses a link has when it comes up.
///
/// # Errors
/// What the kernel refused; that an IPv6 address is a duplicate.
pub fn configure(pod: &Pod, link: &Link, result: &AddResult) -> Result<(), Error> {
    prepare(pod, &link.name, result.ips.iter().any(|ip| ip.address.is_ipv6()))?;
    for ip in &result.ips {
        pod.links.add_address(link.index, ip.address)?;
    }
    pod.links.set_up(link.index, true).map_err(|error| explain(link, error))?;
    let gateway = |v6: bool| result.ips.iter().filter_map(|ip| ip.gateway).find(|gw| gw.is_ipv6() == v6);
    if gateway(true).is_some() {
        wait_for_dad(pod, link)?;
    }
    for route in &result.routes {
        pod.links.add_route(&rtnl::Route {
            dst: route.dst,
            gateway: route.gw.or_else(|| gateway(route.dst.is_ipv6())),
            link: link.index,
            priority: route.priority,
            table: route.table,
            scope: route.scope.map(Scope),
            mtu: route.mtu,
            advmss: route.advmss,
        })?;
    }
    Ok(())
}

/// Explains why the kernel did not set a link up, where it is known.
fn explain(link: &Link, error: rtnl::Error) -> Error {
    match (&error, link.mac) {
        // A macvlan link's address is compared with those of its neighbours on the parent only now.
        (rtnl::Error::Netlink(e), Some(mac)) if e.errno() == Some(Errno::EADDRINUSE) => {
            let msg =
                format!("MAC address {mac} of {} is in use by its master or another link on it", link.name);
            cni::Error::new(Code::IN_USE, msg).with_details(format!("the kernel's answer: {error}")).into()
        }
        _ => error.into(),
    }
}

/// Sysctls that act when the link comes up or gets an address. Only `disable_ipv6` is indispensable.
fn prepare(pod: &Pod, ifname: &str, v6: bool) -> Result<(), Error> {
    let mut wishes = vec![
        (format!("net/ipv4/conf/{ifname}/arp_notify"), "1"),
        (format!("net/ipv6/conf/{ifname}/ndisc_notify"), "1"),
    ];
    if v6 {
        // Without it the kernel would drop the addresses whenever the link goes down.
        wishes.push((format!("net/ipv6/conf/{ifname}/keep_addr_on_down"), "1"));
        let needs = ["lo", ifname].map(|name| (format!("net/ipv6/conf/{name}/disable_ipv6"), "0"));
        pod.have_sysctls(&needs)?.map_err(|e| {
            let msg = format!("enable IPv6 on {ifname}: {e}");
            cni::Error::new(Code::INTERNAL, msg).with_details("the pod is to have an IPv6 address")
        })?;
    }
    let _ = pod.write_sysctls(&wishes)?;
    Ok(())
}

/// Routes with an IPv6 gateway are useless while the address they would be used from is tentative.
fn wait_for_dad(pod: &Pod, link: &Link) -> Result<(), Error> {
    let wait = |source| Error::Wait { what: "duplicate address detection", source };
    let events = pod.netns.run(|| rtnl::events(true))?.map_err(wait)?;
    let deadline = Instant::now() + DAD;
    loop {
        let (tentative, duplicate) = pod.links.unchecked_addresses(link.index)?;
        if let Some(address) = duplicate.first() {
            let msg = format!("address {address} of {} is in use by another host of the network", link.name);
            return Err(cni::Error::new(Code::IN_USE, msg).into());
        }
        if tentative.is_empty() {
            return Ok(());
        }
        // Without carrier there is nobody to ask, and the kernel does not begin.
        let left = deadline.saturating_duration_since(Instant::now());
        if DAD - left > CARRIER && !pod.links.link_by_index(link.index)?.running {
            return Ok(());
        }
        if left.is_zero() {
            let msg = format!(
                "{} of {} is still being checked for duplicates after {DAD:?}",
                tentative[0], link.name
            );
            return Err(cni::Error::new(Code::TRY_AGAIN, msg).into());
        }
        events.wait(deadline, Duration::from_millis(500)).map_err(wait)?;
    }
}

/// Looks whether the pod's link has the result's addresses and routes.
///
/// # Errors
/// What differs.
pub fn verify(pod: &Pod, link: &Link, result: &AddResult) -> Result<(), Error> {
    let changed = |msg: String| Err(cni::Error::new(Code::CHANGED, msg).into());
    let addresses = pod.links.addresses(link.index)?;
    for ip in &result.ips {
        if !addresses.contains(&ip.address) {
            return changed(format!("address {} is not on {}", ip.address, link.name));
        }
    }
    let routes = pod.links.routes()?;
    for route in &result.routes {
        let gateways: Vec<IpAddr> = result.ips.iter().filter_map(|ip| ip.gateway).collect();
        let there = routes.iter().any(|r| {
            r.dst.network() == route.dst.network()
                && r.dst.prefix() == route.dst.prefix()
                && (r.link == link.index || r.dst.prefix() == 0)
                && r.gateway
                    .is_none_or(|gw| route.gw.is_none_or(|wanted| wanted == gw) || gateways.contains(&gw))
        });
        if !there {
            return changed(format!("the route to {} through {} is not there", route.dst, link.name));
        }
    }
    Ok(())
}
