//! The errors of a pod's routing, besides those that all plugins have.

use std::{io, net::IpAddr};

use ipnetwork::IpNetwork;
use plugin_runtime::{Condition, PluginError};
use rtnl::SourceRule;

/// A rail or the default route cannot be configured, or CHECK found a difference.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoutingError {
    /// Something else in the pod uses the rail's table.
    #[error("rail.table: the pod uses routing table {table} already: it has {by}")]
    TableInUse { table: u32, by: String },
    /// The pod has a rule that the rail would add.
    #[error("rail: the pod already has the {0}")]
    RuleExists(SourceRule),
    /// A setting of the link cannot be read or written.
    #[error("rail: cannot access the ARP settings of {ifname}: {source}")]
    Sysctl { ifname: String, source: io::Error },
    /// `defaultRoute` without a gateway.
    #[error("defaultRoute: the IPAM plugin returned no gateway")]
    NoGateway,
    /// The pod has a default route that no other can precede.
    #[error("defaultRoute: the pod has an IPv6 default route with the metric {lowest}; none can precede it")]
    NoMetric { lowest: u32 },
    /// CHECK: a rule is missing.
    #[error("{0} is missing")]
    RuleGone(SourceRule),
    /// CHECK: a route of the rail's table is missing.
    #[error("the route to {dst} through {link} is missing in table {table}")]
    RouteGone { dst: IpNetwork, table: u32, link: String },
    /// CHECK: a setting of the link has another value.
    #[error("net.ipv4.conf.{ifname}.{name} is {is}, expected {wanted} as set by ADD")]
    OtherSetting { ifname: String, name: &'static str, is: String, wanted: &'static str },
    /// CHECK: the pod's default route is another one.
    #[error("the pod's default route does not lead through {gateway} on {link}")]
    NotDefault { gateway: IpAddr, link: String },
}

impl PluginError for RoutingError {
    fn condition(&self) -> Condition {
        match self {
            Self::TableInUse { .. } | Self::RuleExists(_) | Self::NoMetric { .. } => Condition::InUse,
            Self::Sysctl { .. } => Condition::Internal,
            Self::NoGateway => Condition::InvalidConfig,
            Self::RuleGone(_)
            | Self::RouteGone { .. }
            | Self::OtherSetting { .. }
            | Self::NotDefault { .. } => Condition::Changed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::TableInUse { .. } => {
                "set rail.table to another number; the default is 1000 plus the number at the end of the interface's name"
            }
            Self::RuleExists(_) => "another network of the pod has the same address, or another program added the rule",
            Self::NoGateway => "set the gateway of the subnet in the address pool, or remove defaultRoute",
            Self::NoMetric { .. } => "the cluster network has added it: raise its metric, or remove defaultRoute",
            _ => "",
        }
        .into()
    }
}
