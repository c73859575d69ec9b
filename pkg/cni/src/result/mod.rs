//! The result of ADD: one type inside, one shape for each version outside.

mod read;
mod write;

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use serde::Serialize;
use serde_json::{Serializer, Value, ser::PrettyFormatter};

pub(crate) use read::{dns, prev_result};

use crate::{Error, Version};

/// What an ADD made, or what the chain made so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AddResult {
    /// The interfaces; the first version with them is 0.3.0.
    pub interfaces: Vec<ResultInterface>,
    /// The addresses.
    pub ips: Vec<IpConfig>,
    /// The routes.
    pub routes: Vec<ResultRoute>,
    /// The resolver settings.
    pub dns: Dns,
}

/// An interface of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultInterface {
    /// Its name.
    pub name: String,
    /// Its link-layer address: 6 bytes, or 20 on InfiniBand.
    pub mac: Option<String>,
    /// Its MTU in bytes.
    pub mtu: Option<u32>,
    /// The container's namespace, as `CNI_NETNS` gave it; absent for an interface of the host.
    pub sandbox: Option<String>,
    /// A socket that belongs to it.
    pub socket_path: Option<String>,
    /// Its PCI function.
    pub pci_id: Option<String>,
}

/// An address of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpConfig {
    /// The address with its prefix length.
    pub address: IpNetwork,
    /// The subnet's gateway.
    pub gateway: Option<IpAddr>,
    /// The index in [`AddResult::interfaces`] it belongs to.
    pub interface: Option<usize>,
}

/// A route of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRoute {
    /// The destination.
    pub dst: IpNetwork,
    /// The next hop; absent means the first gateway of the family.
    pub gw: Option<IpAddr>,
    /// The path MTU in bytes.
    pub mtu: Option<u32>,
    /// The advertised TCP segment size in bytes.
    pub advmss: Option<u32>,
    /// The metric.
    pub priority: Option<u32>,
    /// The routing table.
    pub table: Option<u32>,
    /// The scope: 0 global, 253 link, 254 host.
    pub scope: Option<u8>,
}

impl ResultRoute {
    /// A route with nothing but a destination and a next hop.
    pub fn new(dst: IpNetwork, gw: Option<IpAddr>) -> Self {
        Self { dst, gw, mtu: None, advmss: None, priority: None, table: None, scope: None }
    }
}

/// Resolver settings of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// Addresses of name servers.
    pub nameservers: Vec<String>,
    /// The local domain.
    pub domain: Option<String>,
    /// Search domains.
    pub search: Vec<String>,
    /// Resolver options.
    pub options: Vec<String>,
}

impl AddResult {
    /// Reads a delegate's result. Without `cniVersion` it has the configuration's; `null` is an empty result.
    ///
    /// # Errors
    /// [`crate::ErrorCode::DECODE`] if the shape is not the version's.
    pub fn from_delegate(stdout: &[u8], conf: Version) -> Result<Self, Error> {
        read::delegate_result(stdout, conf)
    }

    /// The JSON object in the shape of `version`.
    ///
    /// # Errors
    /// 0.1.0 and 0.2.0 cannot express a result without addresses.
    pub fn to_json(&self, version: Version) -> Result<String, Error> {
        write::result(self, version).map(|object| pretty(&object))
    }

    /// The JSON object in the shape of `version`, as a value.
    ///
    /// # Errors
    /// As [`AddResult::to_json`].
    pub fn to_value(&self, version: Version) -> Result<Value, Error> {
        write::result(self, version)
    }
}

/// JSON as the reference implementation prints it: indented by four, no newline at the end.
pub(crate) fn pretty(object: &impl Serialize) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b"    "));
    match object.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(e) => format!("{{\"code\": 999, \"msg\": \"a result cannot be printed: {e}\"}}"),
    }
}
