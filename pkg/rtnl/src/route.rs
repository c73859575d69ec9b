//! Routes: listing and adding them.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    AddressFamily,
    route::{
        RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
        RouteType,
    },
};
use rtnetlink::RouteMessageBuilder;

use crate::{
    Error, Handle,
    message::{GETROUTE, Message, NEWROUTE},
};

/// A route through a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The destination; a prefix length of 0 means the default route.
    pub dst: IpNetwork,
    /// The next hop; `None` if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The index of the outgoing link.
    pub link: u32,
    /// The metric (`RTA_PRIORITY`); `None` means the kernel's default.
    pub priority: Option<u32>,
    /// The routing table; `None` means the main table.
    pub table: Option<u32>,
    /// The scope; `None` means link without a gateway, else global.
    pub scope: Option<RouteScopeId>,
    /// The path MTU in bytes.
    pub mtu: Option<u32>,
    /// The advertised TCP segment size in bytes.
    pub advmss: Option<u32>,
}

/// A route's scope, an `RT_SCOPE_` number: 0 global, 253 link, 254 host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteScopeId(pub u8);

/// The position of a new route among those with the same destination, table and metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutePosition {
    /// The route is added only if there is no other (`NLM_F_EXCL`).
    Only,
    /// IPv4: before the others, so that it takes precedence. IPv6: as one more next hop.
    First,
    /// IPv4: after the others. IPv6: as one more next hop.
    Last,
}

/// The key by which the kernel distinguishes routes, and the links of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteKey {
    /// The destination prefix.
    pub dst: IpNetwork,
    /// The number of the routing table; 254 is the main one.
    pub table: u32,
    /// The metric, with the kernel's default if none was set.
    pub metric: u32,
    /// The indexes of the links of all next hops; empty for routes such as `unreachable`.
    pub links: Vec<u32>,
}

impl RouteKey {
    /// Returns the key that the kernel will use for a new route.
    pub fn of(route: &Route) -> Self {
        let metric = route.priority.filter(|metric| *metric != 0);
        Self {
            dst: route.dst,
            table: route.table.filter(|table| *table != 0).unwrap_or(MAIN_TABLE),
            metric: metric.unwrap_or(if route.dst.is_ipv4() { 0 } else { IPV6_METRIC }),
            links: vec![route.link],
        }
    }

    /// Whether both have the same destination and table, regardless of their metrics.
    pub fn is_to_the_same(&self, other: &Self) -> bool {
        (self.table, self.dst.network(), self.dst.prefix())
            == (other.table, other.dst.network(), other.dst.prefix())
    }
}

/// `IP6_RT_PRIO_USER`: the default metric of an IPv6 route. That of IPv4 is 0.
const IPV6_METRIC: u32 = 1024;

/// The number of the main routing table, 254.
pub const MAIN_TABLE: u32 = RouteHeader::RT_TABLE_MAIN as u32;

impl Handle {
    /// Adds a route.
    ///
    /// # Errors
    /// Exists if the same route exists or, with [`RoutePosition::Only`], any with the same destination, table and metric; any
    /// other of [`Error`].
    pub fn add_route(&self, route: &Route, position: RoutePosition) -> Result<(), Error> {
        let flags = match position {
            RoutePosition::Only => NLM_F_CREATE | NLM_F_EXCL,
            RoutePosition::First => NLM_F_CREATE,
            RoutePosition::Last => NLM_F_CREATE | NLM_F_APPEND,
        };
        let object = format!("route to {}", route.dst);
        self.execute("add", &object, Message::Route(NEWROUTE, message(route)), flags)
    }

    /// Returns the keys of the namespace's routes, of every type and table. Routes that only match some packets, by their
    /// source or type of service, are left out, because the kernel treats them separately.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn destinations(&self) -> Result<Vec<RouteKey>, Error> {
        let message = Message::Route(GETROUTE, RouteMessage::default());
        self.dump("list", &"routes", message, |found: &mut Vec<RouteKey>, message| {
            if let Message::Route(_, message) = message {
                found.extend(destination(&message));
            }
        })
    }

    /// Returns the unicast routes of the namespace, of every table.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn routes(&self) -> Result<Vec<Route>, Error> {
        let message = Message::Route(GETROUTE, RouteMessage::default());
        self.dump("list", &"routes", message, |routes: &mut Vec<Route>, message| {
            if let Message::Route(_, message) = message {
                routes.extend(read(&message));
            }
        })
    }

    /// Returns the index of the link of the main table's first default route, in the kernel's order.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn default_route_link(&self) -> Result<Option<u32>, Error> {
        let main = |route: &Route| route.dst.prefix() == 0 && route.table.is_none_or(|t| t == MAIN_TABLE);
        Ok(self.routes()?.iter().find(|route| main(route)).map(|route| route.link))
    }

    /// Returns the indexes of the links of all next hops of the main table's default routes, IPv4 and IPv6.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn default_route_links(&self) -> Result<Vec<u32>, Error> {
        let message = Message::Route(GETROUTE, RouteMessage::default());
        self.dump("list", &"routes", message, |links: &mut Vec<u32>, message| {
            if let Message::Route(_, message) = message {
                links.extend(default_links(&message));
            }
        })
    }
}

/// Returns the links of a default route of the main table; empty for any other route.
pub(crate) fn default_links(message: &RouteMessage) -> Vec<u32> {
    let is_wanted = read(message)
        .is_some_and(|route| route.dst.prefix() == 0 && route.table.is_none_or(|table| table == MAIN_TABLE));
    if !is_wanted {
        return Vec::new();
    }
    links(message)
}

/// Returns the links of all next hops of a route.
fn links(message: &RouteMessage) -> Vec<u32> {
    let mut links = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => links.push(*index),
            RouteAttribute::MultiPath(hops) => links.extend(hops.iter().map(|hop| hop.interface_index)),
            _ => {}
        }
    }
    links
}

fn destination(message: &RouteMessage) -> Option<RouteKey> {
    let header = &message.header;
    if header.tos != 0 || header.source_prefix_length != 0 {
        return None;
    }
    let any: IpAddr = match header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let (mut to, mut table, mut metric) = (any, header.table.into(), 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => to = ip(address)?,
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(priority) => metric = *priority,
            _ => {}
        }
    }
    let dst = IpNetwork::new(to, header.destination_prefix_length).ok()?;
    Some(RouteKey { dst, table, metric, links: links(message) })
}

pub(crate) fn message(route: &Route) -> RouteMessage {
    let mut builder = RouteMessageBuilder::<IpAddr>::new()
        .output_interface(route.link)
        .table_id(route.table.unwrap_or(MAIN_TABLE))
        .protocol(RouteProtocol::Boot)
        .scope(scope(route))
        .kind(RouteType::Unicast);
    let message = builder.get_mut();
    let ip = route.dst.network();
    message.header.address_family = if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.destination_prefix_length = route.dst.prefix();
    if route.dst.prefix() > 0 {
        message.attributes.push(RouteAttribute::Destination(ip.into()));
    }
    if let Some(gateway) = route.gateway {
        message.attributes.push(RouteAttribute::Gateway(gateway.into()));
    }
    if let Some(priority) = route.priority {
        message.attributes.push(RouteAttribute::Priority(priority));
    }
    let mtu = route.mtu.map(RouteMetric::Mtu);
    let metrics: Vec<_> = mtu.into_iter().chain(route.advmss.map(RouteMetric::Advmss)).collect();
    if !metrics.is_empty() {
        message.attributes.push(RouteAttribute::Metrics(metrics));
    }
    builder.build()
}

/// Returns the scope of a route: as configured, else link if there is no next hop.
fn scope(route: &Route) -> RouteScope {
    match route.scope {
        Some(RouteScopeId(number)) => number.into(),
        None if route.gateway.is_none() && route.dst.is_ipv4() => RouteScope::Link,
        None => RouteScope::Universe,
    }
}

pub(crate) fn read(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.kind != RouteType::Unicast {
        return None;
    }
    let any: IpAddr = match header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let mut route = Route {
        dst: IpNetwork::new(any, header.destination_prefix_length).ok()?,
        gateway: None,
        link: 0,
        priority: None,
        table: Some(header.table.into()),
        scope: Some(RouteScopeId(header.scope.into())),
        mtu: None,
        advmss: None,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => {
                route.dst = IpNetwork::new(ip(address)?, header.destination_prefix_length).ok()?;
            }
            RouteAttribute::Gateway(address) => route.gateway = ip(address),
            RouteAttribute::Oif(index) => route.link = *index,
            RouteAttribute::Priority(priority) => route.priority = Some(*priority),
            RouteAttribute::Table(table) => route.table = Some(*table),
            RouteAttribute::MultiPath(hops) if route.link == 0 => {
                route.link = hops.first().map_or(0, |hop| hop.interface_index);
            }
            _ => {}
        }
    }
    Some(route)
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::route::RouteNextHop;

    use super::*;

    #[test]
    fn a_default_route_leads_over_each_of_its_hops() {
        let hop = |index| {
            let mut hop = RouteNextHop::default();
            hop.interface_index = index;
            hop
        };
        let mut route = RouteMessage::default();
        route.header.kind = RouteType::Unicast;
        route.header.address_family = AddressFamily::Inet6;
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.attributes.push(RouteAttribute::MultiPath(vec![hop(3), hop(4)]));
        assert_eq!(default_links(&route), [3, 4]);
        route.attributes = vec![RouteAttribute::Oif(5)];
        assert_eq!(default_links(&route), [5]);
        route.header.table = 100;
        assert!(default_links(&route).is_empty(), "pods' routes are in tables of their own");
    }

    fn ipv4(attributes: Vec<RouteAttribute>) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        (message.header.kind, message.header.table) = (RouteType::Unicast, RouteHeader::RT_TABLE_MAIN);
        message.attributes = attributes;
        message
    }

    #[test]
    fn a_route_that_only_some_packets_match_is_no_destination() {
        let mut message = ipv4(vec![
            RouteAttribute::Destination(RouteAddress::Inet([10, 8, 0, 0].into())),
            RouteAttribute::Table(1000),
            RouteAttribute::Priority(7),
            RouteAttribute::Oif(3),
        ]);
        message.header.destination_prefix_length = 16;
        let key = RouteKey { dst: "10.8.0.0/16".parse().unwrap(), table: 1000, metric: 7, links: vec![3] };
        assert_eq!(destination(&message), Some(key));
        message.header.tos = 8;
        assert_eq!(destination(&message), None);
        (message.header.tos, message.header.source_prefix_length) = (0, 32);
        assert_eq!(destination(&message), None);
    }

    #[test]
    fn an_unreachable_route_is_a_destination_without_a_link_and_no_default_route() {
        let mut message = ipv4(Vec::new());
        message.header.kind = RouteType::Unreachable;
        let key =
            RouteKey { dst: "0.0.0.0/0".parse().unwrap(), table: MAIN_TABLE, metric: 0, links: Vec::new() };
        assert_eq!(destination(&message), Some(key));
        assert!(read(&message).is_none() && default_links(&message).is_empty());
    }

    #[test]
    fn a_route_with_several_next_hops_is_over_the_link_of_the_first() {
        let hop = |index| {
            let mut hop = RouteNextHop::default();
            hop.interface_index = index;
            hop
        };
        assert_eq!(read(&ipv4(vec![RouteAttribute::MultiPath(vec![hop(3), hop(4)])])).unwrap().link, 3);
    }

    #[test]
    fn zero_means_the_default_table_and_metric() {
        let key = |dst: &str, table, priority| {
            let (dst, scope) = (dst.parse().unwrap(), None);
            let route =
                Route { dst, gateway: None, link: 7, priority, table, scope, mtu: None, advmss: None };
            let key = RouteKey::of(&route);
            (key.table, key.metric)
        };
        assert_eq!(key("10.8.0.0/16", None, None), (254, 0));
        assert_eq!(key("10.8.0.0/16", Some(0), Some(0)), (254, 0));
        assert_eq!(key("fd00::/64", None, None), (254, 1024));
        assert_eq!(key("fd00::/64", Some(0), Some(0)), (254, 1024));
        assert_eq!(key("fd00::/64", Some(100), Some(1)), (100, 1));
    }

    #[test]
    fn the_scope_is_that_of_the_link_only_for_ipv4_without_a_gateway() {
        let scope_of = |dst: &str, gateway: Option<&str>, number: Option<u8>| {
            let (dst, gateway) = (dst.parse().unwrap(), gateway.map(|gateway| gateway.parse().unwrap()));
            let scope = number.map(RouteScopeId);
            let route =
                Route { dst, gateway, link: 7, priority: None, table: None, scope, mtu: None, advmss: None };
            u8::from(super::scope(&route))
        };
        assert_eq!(scope_of("10.8.0.0/16", None, None), 253);
        assert_eq!(scope_of("10.8.0.0/16", Some("10.7.0.1"), None), 0);
        assert_eq!(scope_of("fd00::/64", None, None), 0);
        assert_eq!(scope_of("10.8.0.0/16", None, Some(0)), 0);
        assert_eq!(scope_of("10.8.0.0/16", Some("10.7.0.1"), Some(254)), 254);
    }
}
