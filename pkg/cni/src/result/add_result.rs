//! The result of an ADD.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

/// The result of an ADD, or the `prevResult` of a chain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AddResult {
    /// The interfaces, since version 0.3.0.
    pub interfaces: Vec<ResultInterface>,
    /// The IP addresses.
    pub ips: Vec<IpConfig>,
    /// The routes besides those of the interfaces' subnets.
    pub routes: Vec<ResultRoute>,
    /// The resolver settings.
    pub dns: Dns,
}

/// An interface of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultInterface {
    /// Its name, for example `net1`.
    pub name: String,
    /// Its link-layer address: 6 bytes, or 20 on InfiniBand.
    pub mac: Option<String>,
    /// Its MTU in bytes.
    pub mtu: Option<u32>,
    /// The container's namespace, as `CNI_NETNS` gave it; absent for an interface of the host.
    pub sandbox: Option<String>,
    /// The path of the socket file of a vhost-user interface.
    pub socket_path: Option<String>,
    /// The PCI address of its function, for example `0000:af:00.1`.
    pub pci_id: Option<String>,
}

/// An address of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpConfig {
    /// The address with its prefix length.
    pub address: IpNetwork,
    /// The subnet's gateway.
    pub gateway: Option<IpAddr>,
    /// The index of its interface in [`AddResult::interfaces`].
    pub interface: Option<usize>,
}

/// A route of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRoute {
    /// The destination, for example `10.9.0.0/16`.
    pub dst: IpNetwork,
    /// The next hop; if absent, the gateway of the first address of the family.
    pub gw: Option<IpAddr>,
    /// The path MTU in bytes.
    pub mtu: Option<u32>,
    /// The advertised TCP segment size in bytes.
    pub advmss: Option<u32>,
    /// The metric; lower values are preferred.
    pub priority: Option<u32>,
    /// The number of the routing table; 254 is the main table.
    pub table: Option<u32>,
    /// The scope: 0 global, 253 link, 254 host.
    pub scope: Option<u8>,
}

impl ResultRoute {
    /// Returns a route with only a destination and a next hop.
    pub fn new(dst: IpNetwork, gw: Option<IpAddr>) -> Self {
        Self { dst, gw, mtu: None, advmss: None, priority: None, table: None, scope: None }
    }
}

/// Resolver settings of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// Addresses of name servers.
    pub nameservers: Vec<String>,
    /// The local domain, `domain` of resolv.conf(5).
    pub domain: Option<String>,
    /// Search domains, `search` of resolv.conf(5).
    pub search: Vec<String>,
    /// Resolver options, `options` of resolv.conf(5).
    pub options: Vec<String>,
}
