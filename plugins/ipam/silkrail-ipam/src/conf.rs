//! The configuration's `ipam` object: what was written, and the pools it means.

use std::{cell::OnceCell, fs, path::PathBuf};

use cni::{CallContext, ConfObject, Error as CniError};
use ipam::{PodNamespace, Pool, PoolQuery, PoolSelection, Pools};
use plugin_runtime::{Error, conf};
use serde_json::Value;
use state::StateDir;

use crate::error::IpamError;

/// Where pools are read from unless the configuration has its own.
const POOLS_DIR: &str = "/etc/silkrail/pools.d";

/// The IPAM configuration.
pub(crate) struct IpamConf {
    source: PoolSource,
    /// As far as they are wanted.
    pools: Pools,
    /// All of them, where that was not enough.
    whole: OnceCell<Pools>,
    pub(crate) clean_gateway: bool,
    /// Whether a full pool means that the node cannot serve.
    pub(crate) status_fails_when_full: bool,
    ipv4: Vec<String>,
    ipv6: Vec<String>,
    node: String,
    /// As `multusName` of pools has it, with a namespace if that is told.
    network: String,
}

impl IpamConf {
    /// Reads the configuration and its pools; with `keep`, what was read of a directory is kept for the next call.
    ///
    /// # Errors
    /// A wrong value, named with its key; a pool that breaks a rule.
    pub(crate) fn of(common: &CallContext<'_>, keep: bool) -> Result<Self, Error> {
        let fields = common.conf.fields();
        let Some(ipam) = fields.object("ipam")? else {
            return Err(CniError::config("ipam: expected an object with the pools to use, found none").into());
        };
        if ipam.flag("match_master_subnet")?.unwrap_or(false) {
            return Err(IpamError::MatchMasterSubnet.into());
        }
        let listed = [ipam.texts("default_ipv4_ippool")?, ipam.texts("default_ipv6_ippool")?];
        let source = PoolSource::of(&ipam)?;
        let pools = source.candidate_pools(&listed, &conf::state_dir(common)?, keep)?;
        let [ipv4, ipv6] = listed;
        Ok(Self {
            source,
            pools,
            whole: OnceCell::new(),
            clean_gateway: ipam.flag("clean_gateway")?.unwrap_or(false),
            status_fails_when_full: ipam.flag("statusFailsWhenFull")?.unwrap_or(false),
            ipv4,
            ipv6,
            node: node_name(&ipam)?,
            network: match ipam.text("multusNamespace")? {
                Some(namespace) => format!("{namespace}/{}", common.conf.name),
                None => common.conf.name.clone(),
            },
        })
    }

    /// The pools an attachment may use, best first.
    ///
    /// # Errors
    /// That there are none, with the reason for each that was looked at.
    pub(crate) fn select(&self, common: &CallContext<'_>, ifname: &str) -> Result<PoolSelection<'_>, Error> {
        let namespace = namespace(common);
        match self.select_from(&self.pools, namespace, ifname) {
            Err(_) if self.pools.is_partial() => self.select_from(self.all()?, namespace, ifname),
            selected => selected,
        }
    }

    /// The pools that any pod of the network could be given an address of.
    ///
    /// # Errors
    /// As [`IpamConf::select`].
    pub(crate) fn select_for_any_pod(&self) -> Result<PoolSelection<'_>, Error> {
        self.select_from(self.all()?, PodNamespace::Any, "")
    }

    /// As [`IpamConf::select`], from pools of which everything is known: for who has to say why something is not to be had.
    ///
    /// # Errors
    /// As [`IpamConf::select`].
    pub(crate) fn select_knowing_all(
        &self,
        common: &CallContext<'_>,
        ifname: &str,
    ) -> Result<(PoolSelection<'_>, &Pools), Error> {
        let all = self.all()?;
        Ok((self.select_from(all, namespace(common), ifname)?, all))
    }

    /// The pool of that name, whether it is wanted or not.
    ///
    /// # Errors
    /// If the pools cannot be read.
    pub(crate) fn pool(&self, name: &str) -> Result<Option<&Pool>, Error> {
        match self.pools.get(name) {
            None if self.pools.is_partial() => Ok(self.all()?.get(name)),
            found => Ok(found),
        }
    }

    fn all(&self) -> Result<&Pools, Error> {
        if !self.pools.is_partial() {
            return Ok(&self.pools);
        }
        if let Some(all) = self.whole.get() {
            return Ok(all);
        }
        let all = self.source.read_directory()?;
        Ok(self.whole.get_or_init(|| all))
    }

    fn select_from<'p>(
        &self,
        pools: &'p Pools,
        pod_namespace: PodNamespace<'_>,
        ifname: &str,
    ) -> Result<PoolSelection<'p>, Error> {
        Ok(pools.select(&ipam::PoolRequest {
            ifname,
            default_ipv4_ippool: &self.ipv4,
            default_ipv6_ippool: &self.ipv6,
            host_name: &self.node,
            pod_namespace,
            network: Some(&self.network),
        })?)
    }
}

fn namespace<'a>(common: &'a CallContext<'_>) -> PodNamespace<'a> {
    common.args.get("K8S_POD_NAMESPACE").map_or(PodNamespace::Unknown, PodNamespace::Of)
}

/// Where pools are: written in the configuration; with them, or instead of them, in a directory.
struct PoolSource {
    inline: Pools,
    dir: Option<PathBuf>,
}

impl PoolSource {
    fn of(ipam: &ConfObject<'_>) -> Result<Self, Error> {
        let inline = ipam.value("pools").unwrap_or(&Value::Null);
        let named = ipam.text("poolsDir")?.or(ipam.text("pools_dir")?);
        let dir = match named {
            Some(dir) if dir.starts_with('/') => Some(PathBuf::from(dir)),
            Some(dir) => return Err(ipam.wrong("poolsDir", "an absolute path", format!("{dir:?}")).into()),
            None if inline.is_null() => Some(PathBuf::from(POOLS_DIR)),
            None => None,
        };
        Ok(Self { inline: Pools::from_inline(inline)?, dir })
    }

    /// The pools that these lists may mean.
    fn candidate_pools(
        &self,
        [ipv4, ipv6]: &[Vec<String>; 2],
        state: &StateDir,
        keep: bool,
    ) -> Result<Pools, Error> {
        let Some(dir) = &self.dir else { return Ok(self.inline.clone()) };
        // A pool of the directory that has the name of one that is written in the configuration.
        let also: Vec<_> = self.inline.iter().map(|pool| pool.name.to_string()).collect();
        let wanted = PoolQuery { listed: [ipv4, ipv6], also: &also };
        Ok(self.inline.clone().merge(Pools::read_wanted(dir, wanted, state.root(), keep)?))
    }

    fn read_directory(&self) -> Result<Pools, Error> {
        match &self.dir {
            Some(dir) => Ok(self.inline.clone().merge(Pools::read_dir(dir)?)),
            None => Ok(self.inline.clone()),
        }
    }
}

/// The node's name, for pools that belong to certain nodes: the configuration's, or else the host's.
fn node_name(ipam: &ConfObject<'_>) -> Result<String, Error> {
    if let Some(name) = ipam.text("nodeName")? {
        return Ok(name.to_owned());
    }
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(name.trim().to_owned())
}
