//! The configuration's `ipam` object: what was written, and the pools it means.

use std::{fs, path::PathBuf};

use cni::{Code, Common, Error as CniError, Fields};
use ipam::{Pools, Selection};
use plugin::Error;
use serde_json::Value;

/// Where pools are read from unless the configuration has its own.
const POOLS_DIR: &str = "/etc/silkrail/pools.d";

/// The IPAM configuration.
pub(crate) struct Conf {
    pub(crate) pools: Pools,
    pub(crate) clean_gateway: bool,
    /// Whether a full pool means that the node cannot serve.
    pub(crate) status_fails_when_full: bool,
    ipv4: Vec<String>,
    ipv6: Vec<String>,
    node: String,
}

impl Conf {
    /// Reads the configuration and its pools.
    ///
    /// # Errors
    /// A wrong value, named with its key; a pool that breaks a rule.
    pub(crate) fn of(common: &Common<'_>) -> Result<Self, Error> {
        let fields = common.conf.fields();
        let Some(ipam) = fields.object("ipam")? else {
            return Err(CniError::config("ipam: expected an object with the pools to use, found none").into());
        };
        if ipam.flag("match_master_subnet")?.unwrap_or(false) {
            let msg =
                "ipam.match_master_subnet: true is not supported; name the pools in default_ipv4_ippool";
            return Err(CniError::new(Code::UNSUPPORTED_FIELD, msg).into());
        }
        Ok(Self {
            pools: pools(&ipam)?,
            clean_gateway: ipam.flag("clean_gateway")?.unwrap_or(false),
            status_fails_when_full: ipam.flag("statusFailsWhenFull")?.unwrap_or(false),
            ipv4: ipam.texts("default_ipv4_ippool")?,
            ipv6: ipam.texts("default_ipv6_ippool")?,
            node: node_name(&ipam)?,
        })
    }

    /// The pools an attachment may use, best first.
    ///
    /// # Errors
    /// That there are none, with the reason for each that was looked at.
    pub(crate) fn select(&self, common: &Common<'_>, ifname: &str) -> Result<Selection<'_>, Error> {
        Ok(self.pools.select(&ipam::Request {
            ifname,
            default_ipv4_ippool: &self.ipv4,
            default_ipv6_ippool: &self.ipv6,
            host_name: &self.node,
            pod_namespace: common.args.get("K8S_POD_NAMESPACE"),
            network: Some(&common.conf.name),
        })?)
    }
}

/// The inline pools; with them, or instead of them, those of the directory.
fn pools(ipam: &Fields<'_>) -> Result<Pools, Error> {
    let inline = ipam.value("pools").unwrap_or(&Value::Null);
    let named = ipam.text("poolsDir")?.or(ipam.text("pools_dir")?);
    let dir = match named {
        Some(dir) if dir.starts_with('/') => Some(PathBuf::from(dir)),
        Some(dir) => return Err(ipam.wrong("poolsDir", "an absolute path", format!("{dir:?}")).into()),
        None if inline.is_null() => Some(PathBuf::from(POOLS_DIR)),
        None => None,
    };
    let pools = Pools::from_inline(inline)?;
    match dir {
        Some(dir) => Ok(pools.join(Pools::read_dir(&dir)?)),
        None => Ok(pools),
    }
}

/// The node's name, for pools that belong to certain nodes: the configuration's, or else the host's.
fn node_name(ipam: &Fields<'_>) -> Result<String, Error> {
    if let Some(name) = ipam.text("nodeName")? {
        return Ok(name.to_owned());
    }
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(name.trim().to_owned())
}
