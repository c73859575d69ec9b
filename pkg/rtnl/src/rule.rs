//! Routing policy rules: the ones that select a routing table by the source address.

use std::fmt;

use ipnetwork::IpNetwork;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    AddressFamily,
    route::RouteProtocol,
    rule::{RuleAction, RuleAttribute, RuleMessage},
};
use serde::{Deserialize, Serialize};

use crate::{
    Error, Handle,
    message::{DELRULE, GETRULE, Message, NEWRULE},
};

/// A rule by which packets from a source address are routed by a table: `ip rule add from SOURCE lookup TABLE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRule {
    /// The source address, with the prefix length of a single one.
    pub source: IpNetwork,
    /// The destinations of the packets; `None` means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<IpNetwork>,
    /// The number of the routing table.
    pub table: u32,
    /// The priority (`FRA_PRIORITY`): rules with lower ones are examined first. That of the main table's rule is 32766.
    pub priority: u32,
}

impl fmt::Display for SourceRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: from {} ", self.priority, self.source.ip())?;
        self.to.map_or(Ok(()), |to| write!(f, "to {to} "))?;
        write!(f, "lookup {}", self.table)
    }
}

impl Handle {
    /// Adds a rule.
    ///
    /// # Errors
    /// Exists if there is one with the same attributes; any other of [`Error`].
    pub fn add_rule(&self, rule: &SourceRule) -> Result<(), Error> {
        self.execute("add", rule, Message::Rule(NEWRULE, message(rule)), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes a rule.
    ///
    /// # Errors
    /// Not found if there is none with these attributes; any other of [`Error`].
    pub fn delete_rule(&self, rule: &SourceRule) -> Result<(), Error> {
        self.execute("delete", rule, Message::Rule(DELRULE, message(rule)), 0)
    }

    /// Returns the rules that select a table by the source address, of both families. A rule with further conditions is
    /// returned too: it also routes by that table.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn source_rules(&self) -> Result<Vec<SourceRule>, Error> {
        let message = Message::Rule(GETRULE, RuleMessage::default());
        self.dump("list", &"rules", message, |rules: &mut Vec<SourceRule>, message| {
            if let Message::Rule(_, message) = message {
                rules.extend(read(&message));
            }
        })
    }
}

fn message(rule: &SourceRule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let header = &mut message.header;
    header.family = if rule.source.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    (header.src_len, header.action) = (rule.source.prefix(), RuleAction::ToTable);
    message.attributes = vec![
        RuleAttribute::Source(rule.source.ip()),
        RuleAttribute::Table(rule.table),
        RuleAttribute::Priority(rule.priority),
        RuleAttribute::Protocol(RouteProtocol::Static),
    ];
    if let Some(to) = rule.to {
        message.header.dst_len = to.prefix();
        message.attributes.push(RuleAttribute::Destination(to.ip()));
    }
    message
}

fn read(message: &RuleMessage) -> Option<SourceRule> {
    let (mut source, mut to) = (None, None);
    let (mut priority, mut table) = (0, u32::from(message.header.table));
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Source(ip) => source = Some(*ip),
            RuleAttribute::Destination(ip) => to = Some(*ip),
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Table(number) => table = *number,
            _ => {}
        }
    }
    let source = IpNetwork::new(source?, message.header.src_len).ok()?;
    let to = to.map(|to| IpNetwork::new(to, message.header.dst_len)).transpose().ok()?;
    (message.header.action == RuleAction::ToTable).then_some(SourceRule { source, to, table, priority })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for (source, to) in [
            ("10.7.0.5/32", None),
            ("10.7.0.5/32", Some("10.96.0.0/12")),
            ("fd00::5/128", Some("fd00:96::/108")),
        ] {
            let (source, to) = (source.parse().unwrap(), to.map(|to| to.parse().unwrap()));
            let rule = SourceRule { source, to, table: 1001, priority: 999 };
            assert_eq!(read(&message(&rule)), Some(rule));
        }
    }

    #[test]
    fn a_rule_without_a_source_or_a_table_is_left_out() {
        let rule =
            SourceRule { source: "10.7.0.5/32".parse().unwrap(), to: None, table: 1001, priority: 999 };
        let mut blackhole = message(&rule);
        blackhole.header.action = RuleAction::Blackhole;
        assert_eq!(read(&blackhole), None);
        let mut from_all = message(&rule);
        from_all.attributes.remove(0);
        assert_eq!(read(&from_all), None);
        let mut low_table = message(&rule);
        low_table.attributes.retain(|attribute| !matches!(attribute, RuleAttribute::Table(_)));
        low_table.header.table = 100;
        assert_eq!(read(&low_table), Some(SourceRule { table: 100, ..rule }));
    }
}
