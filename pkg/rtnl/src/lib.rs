//! rtnetlink requests for links, VFs, addresses, routes and rules.
//!
//! Messages are made by `rtnetlink`'s builders, encoded by `netlink-packet-route`, and sent by the blocking engine of
//! [`netlink`]. A [`Handle`] works in the namespace in which it was opened.

#![forbid(unsafe_code)]

mod address;
mod attributes;
mod handle;
mod kernel_text;
mod link;
mod link_settings;
mod message;
mod neighbour;
mod netns_id;
mod object;
mod old_kernel;
mod restore_settings;
mod route;
mod routing_table;
mod rule;
mod vf;

pub use handle::{Error, Handle};
pub use link::{ETHERNET, INFINIBAND, IpoibSettings, Link, LinkKind, LinkLayer, NewLink, indexes_above};
pub use link_settings::LinkSettings;
pub use object::RtnlObject;
pub use route::{MAIN_TABLE, Route, RouteKey, RoutePosition, RouteScopeId};
pub use routing_table::{CutList, ListedRoute, ListedRule};
pub use rule::SourceRule;
pub use vf::{VfSetting, VfSettings, VfVlanTag};

pub use netlink_packet_core::DefaultNla;
/// Builders of `RTM_NEWLINK` messages, for the kinds of links that plugins create.
pub use netlink_packet_route::link::{
    InfoBond, InfoData, InfoIpoib, InfoKind, InfoMacVlan, InfoVlan, IpVlanMode, IpoibMode, LinkMessage,
    MacVlanMode,
};
pub use rtnetlink::{LinkIpVlan, LinkMacVlan, LinkMessageBuilder, LinkUnspec};

/// Subscribes to changes of links, and of addresses if `addresses` is set, in the calling thread's namespace.
///
/// # Errors
/// The system call's error.
pub fn events(addresses: bool) -> std::io::Result<netlink::Notifications> {
    const NETLINK_ROUTE: isize = 0;
    const LINK: u32 = 1;
    const IPV4_IFADDR: u32 = 0x10;
    const IPV6_IFADDR: u32 = 0x100;
    netlink::Notifications::open(
        NETLINK_ROUTE,
        if addresses { LINK | IPV4_IFADDR | IPV6_IFADDR } else { LINK },
    )
}
