//! All routes and rules of a namespace, for a person who reads them: as `ip route show table all` and `ip rule` list them.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use netlink_packet_route::{
    AddressFamily,
    route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteVia},
    rule::{RuleAttribute, RuleMessage},
};
use serde::Serialize;

use crate::{
    Error, Handle,
    message::{GETROUTE, GETRULE, Message},
};

/// A route of any type and table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedRoute {
    /// The destination.
    pub to: IpNetwork,
    /// The number of the routing table.
    pub table: u32,
    /// The type, such as `unicast`, `local` or `blackhole`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Who has added it, such as `kernel`, `boot`, `static` or `bird`.
    pub protocol: String,
    /// The scope, such as `universe` or `link`.
    pub scope: String,
    /// The next hops; empty if the destination is on the link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<IpAddr>,
    /// The indexes of the outgoing links.
    pub links: Vec<u32>,
    /// The preferred source address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_source: Option<IpAddr>,
    /// The metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
    /// The path MTU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

/// A routing policy rule. A condition that is `None` does not restrict it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedRule {
    /// Rules with a lower priority are examined first.
    pub priority: u32,
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// What it does, such as `totable` or `blackhole`.
    pub action: String,
    /// The number of the routing table.
    pub table: u32,
    /// The source of packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<IpNetwork>,
    /// The destination of packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<IpNetwork>,
    /// The link from which packets came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incoming_link: Option<String>,
    /// The link to which a socket is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outgoing_link: Option<String>,
    /// The mark of packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
}

/// A list that may have been cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CutList<T> {
    /// The first items.
    pub first: Vec<T>,
    /// The number of all items.
    pub count: usize,
}

impl Handle {
    /// Lists the routes of all tables, at most `most` of them.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn list_routes(&self, most: usize) -> Result<CutList<ListedRoute>, Error> {
        let message = Message::Route(GETROUTE, RouteMessage::default());
        self.dump("list", &"routes", message, |routes: &mut CutList<_>, message| {
            if let Message::Route(_, message) = message {
                routes.add(route(&message), most);
            }
        })
    }

    /// Lists the rules of both families, at most `most` of them.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn list_rules(&self, most: usize) -> Result<CutList<ListedRule>, Error> {
        let message = Message::Rule(GETRULE, RuleMessage::default());
        self.dump("list", &"rules", message, |rules: &mut CutList<_>, message| {
            if let Message::Rule(_, message) = message {
                rules.add(rule(&message), most);
            }
        })
    }
}

impl<T> Default for CutList<T> {
    fn default() -> Self {
        Self { first: Vec::new(), count: 0 }
    }
}

impl<T> CutList<T> {
    fn add(&mut self, item: Option<T>, most: usize) {
        let Some(item) = item else { return };
        self.count += 1;
        if self.first.len() < most {
            self.first.push(item);
        }
    }
}

/// Reads a route; `None` for one that the kernel has cached, and of other families.
fn route(message: &RouteMessage) -> Option<ListedRoute> {
    let header = &message.header;
    if header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let mut listed = ListedRoute {
        to: network(None, header.address_family, header.destination_prefix_length)?,
        table: header.table.into(),
        kind: name(header.kind),
        protocol: name(header.protocol),
        scope: name(header.scope),
        gateways: Vec::new(),
        links: Vec::new(),
        preferred_source: None,
        metric: None,
        mtu: None,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(to) => {
                listed.to = network(address(to), header.address_family, header.destination_prefix_length)?;
            }
            RouteAttribute::Table(table) => listed.table = *table,
            RouteAttribute::PrefSource(source) => listed.preferred_source = address(source),
            RouteAttribute::Priority(metric) => listed.metric = Some(*metric),
            RouteAttribute::Metrics(metrics) => {
                listed.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
            }
            RouteAttribute::MultiPath(hops) => {
                for hop in hops {
                    listed.links.push(hop.interface_index);
                    listed.gateways.extend(hop.attributes.iter().filter_map(gateway));
                }
            }
            RouteAttribute::Oif(link) => listed.links.push(*link),
            other => listed.gateways.extend(gateway(other)),
        }
    }
    Some(listed)
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(gateway) => address(gateway),
        RouteAttribute::Via(RouteVia::Inet(v4)) => Some((*v4).into()),
        RouteAttribute::Via(RouteVia::Inet6(v6)) => Some((*v6).into()),
        _ => None,
    }
}

fn rule(message: &RuleMessage) -> Option<ListedRule> {
    let header = &message.header;
    let family = match header.family {
        AddressFamily::Inet => "ipv4",
        AddressFamily::Inet6 => "ipv6",
        _ => return None,
    };
    let (table, action) = (header.table.into(), name(header.action));
    let mut listed = ListedRule { family, action, table, ..ListedRule::default() };
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => listed.priority = *priority,
            RuleAttribute::Table(table) => listed.table = *table,
            RuleAttribute::Source(ip) => listed.from = IpNetwork::new(*ip, header.src_len).ok(),
            RuleAttribute::Destination(ip) => listed.to = IpNetwork::new(*ip, header.dst_len).ok(),
            RuleAttribute::Iifname(link) => listed.incoming_link = Some(link.clone()),
            RuleAttribute::Oifname(link) => listed.outgoing_link = Some(link.clone()),
            RuleAttribute::FwMark(mark) => listed.mark = Some(*mark),
            _ => {}
        }
    }
    Some(listed)
}

fn network(ip: Option<IpAddr>, family: AddressFamily, prefix: u8) -> Option<IpNetwork> {
    let any = match family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    IpNetwork::new(ip.unwrap_or(any), prefix).ok()
}

fn address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

/// The name of a constant of the kernel in lower case; its number if the kernel has no name for it.
fn name(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::{
        route::{RouteHeader, RouteNextHop, RouteProtocol, RouteScope, RouteType},
        rule::RuleAction,
    };

    use super::*;

    fn gateway(last: u8) -> RouteAttribute {
        RouteAttribute::Gateway(RouteAddress::Inet([10, 1, 0, last].into()))
    }

    #[test]
    fn a_route_has_all_of_its_next_hops() {
        let hop = |link, last| {
            let mut hop = RouteNextHop::default();
            (hop.interface_index, hop.attributes) = (link, vec![gateway(last)]);
            hop
        };
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        (message.header.destination_prefix_length, message.header.table) = (16, RouteHeader::RT_TABLE_MAIN);
        (message.header.kind, message.header.protocol) = (RouteType::Unicast, RouteProtocol::Bird);
        message.header.scope = RouteScope::Universe;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet([172, 81, 0, 0].into())),
            RouteAttribute::Table(1000),
            RouteAttribute::MultiPath(vec![hop(3, 1), hop(4, 2)]),
            RouteAttribute::Metrics(vec![RouteMetric::Advmss(1), RouteMetric::Mtu(9000)]),
        ];
        let listed = serde_json::to_value(route(&message).unwrap()).unwrap();
        let expected = serde_json::json!({
            "to": "172.81.0.0/16", "table": 1000, "type": "unicast", "protocol": "bird", "scope": "universe",
            "gateways": ["10.1.0.1", "10.1.0.2"], "links": [3, 4], "mtu": 9000,
        });
        assert_eq!(listed, expected);
        message.header.flags = RouteFlags::Cloned;
        assert_eq!(route(&message), None);
    }

    #[test]
    fn a_route_has_its_metric_and_its_source_and_a_gateway_of_another_family() {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        (message.header.kind, message.header.protocol) = (RouteType::Unicast, RouteProtocol::Static);
        (message.header.scope, message.header.table) = (RouteScope::Universe, 100);
        message.attributes = vec![
            RouteAttribute::Via(RouteVia::Inet6("fe80::1".parse().unwrap())),
            RouteAttribute::Oif(3),
            RouteAttribute::PrefSource(RouteAddress::Inet([10, 1, 0, 7].into())),
            RouteAttribute::Priority(50),
        ];
        let listed = serde_json::to_value(route(&message).unwrap()).unwrap();
        let expected = serde_json::json!({
            "to": "0.0.0.0/0", "table": 100, "type": "unicast", "protocol": "static", "scope": "universe",
            "gateways": ["fe80::1"], "links": [3], "preferredSource": "10.1.0.7", "metric": 50,
        });
        assert_eq!(listed, expected);
    }

    #[test]
    fn a_rule_has_its_conditions() {
        let mut message = RuleMessage::default();
        (message.header.family, message.header.src_len) = (AddressFamily::Inet, 32);
        message.header.dst_len = 12;
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::Source([10, 1, 0, 7].into()),
            RuleAttribute::Priority(1000),
            RuleAttribute::Table(500),
            RuleAttribute::Destination([10, 96, 0, 0].into()),
            RuleAttribute::Iifname("eth1".into()),
            RuleAttribute::Oifname("eth2".into()),
            RuleAttribute::FwMark(4),
        ];
        let listed = serde_json::to_value(rule(&message).unwrap()).unwrap();
        let expected = serde_json::json!({
            "priority": 1000, "family": "ipv4", "action": "totable", "table": 500, "from": "10.1.0.7/32",
            "to": "10.96.0.0/12", "incomingLink": "eth1", "outgoingLink": "eth2", "mark": 4,
        });
        assert_eq!(listed, expected);
    }

    #[test]
    fn the_kernels_own_routes_and_rules_are_listed_and_the_list_is_cut() {
        let handle = Handle::open().unwrap();
        let rules = handle.list_rules(1000).unwrap();
        let has = |priority, table| {
            rules
                .first
                .iter()
                .any(|rule| (rule.priority, rule.table, rule.family) == (priority, table, "ipv4"))
        };
        assert!(has(0, 255) && has(32766, 254) && rules.count == rules.first.len(), "{rules:?}");
        let cut = handle.list_rules(1).unwrap();
        assert_eq!((cut.first.len(), cut.count), (1, rules.count));
        assert!(handle.list_routes(10).unwrap().first.len() <= 10);
    }
}
