//! The routes of a rail's table.

use std::net::IpAddr;

use cni::AddResult;
use ipnetwork::IpNetwork;
use plugin_runtime::{Error, PodNetns};
use rtnl::{Link, Route, RouteKey, RoutePosition};

use crate::error::RoutingError;

/// Moves the result's routes to the rail's table, except those that have a table.
pub(crate) fn assign(table: u32, result: &mut AddResult) {
    for route in &mut result.routes {
        route.table.get_or_insert(table);
    }
}

/// Checks that no route of the pod is in the rail's table.
pub(crate) fn require_free(table: u32, pod: &PodNetns) -> Result<(), Error> {
    if let Some(route) = pod.links.destinations()?.iter().find(|route| route.table == table) {
        return Err(RoutingError::TableInUse { table, by: format!("a route to {}", route.dst) }.into());
    }
    Ok(())
}

/// Adds the routes that a rail has besides those of the result: to its subnets and gateways, and the default route.
pub(crate) fn fill(table: u32, pod: &PodNetns, link: &Link, result: &AddResult) -> Result<(), Error> {
    for route in routes(table, link, result) {
        match pod.links.add_route(&route, RoutePosition::Only) {
            // The result has a route to the same destination.
            Err(error) if error.is_exists() => {}
            added => added?,
        }
    }
    Ok(())
}

/// Checks that the table has the routes of [`fill`].
pub(crate) fn verify(table: u32, pod: &PodNetns, link: &Link, result: &AddResult) -> Result<(), Error> {
    let present = pod.links.destinations()?;
    for route in routes(table, link, result) {
        let key = RouteKey::of(&route);
        let is_it = |there: &RouteKey| there.is_to_the_same(&key) && there.links == key.links;
        if !present.iter().any(is_it) {
            return Err(RoutingError::RouteGone { dst: route.dst, table, link: link.name.clone() }.into());
        }
    }
    Ok(())
}

fn routes(table: u32, link: &Link, result: &AddResult) -> Vec<Route> {
    let route = |dst: IpNetwork, gateway: Option<IpAddr>| Route {
        dst,
        gateway,
        link: link.index,
        priority: None,
        table: Some(table),
        scope: None,
        mtu: None,
        advmss: None,
    };
    let mut routes: Vec<Route> = Vec::new();
    let mut push = |new: Route| {
        if !routes.iter().any(|there| there.dst == new.dst) {
            routes.push(new);
        }
    };
    for ip in &result.ips {
        push(route(subnet(ip.address), None));
        let Some(gateway) = ip.gateway else { continue };
        if !ip.address.contains(gateway) {
            push(route(IpNetwork::from(gateway), None));
        }
        push(route(any(gateway), Some(gateway)));
    }
    routes
}

fn subnet(address: IpNetwork) -> IpNetwork {
    IpNetwork::new(address.network(), address.prefix()).unwrap_or(address)
}

/// Returns the destination of a default route through a gateway: `0.0.0.0/0` or `::/0`.
pub(crate) fn any(gateway: IpAddr) -> IpNetwork {
    subnet(IpNetwork::new(gateway, 0).unwrap_or_else(|_| gateway.into()))
}
