//! The configuration's `ipam` object and the pools that it selects.

use std::{cell::OnceCell, fs, net::IpAddr, path::PathBuf};

use cni::{AddRequest, CallContext, ConfObject, Error as CniError};
use ipam::{
    IpFamily, ListedPools, PodLabels, PodNamespace, PodPools, Pool, PoolListSource, PoolQuery, PoolRoute,
    PoolSelection, Pools, ReservedAddress,
};
use plugin_runtime::{Error, Node, conf};
use serde_json::Value;
use state::StateDir;

use crate::{agent_socket, cluster::ClusterPools, error::IpamError, pod_pools};

/// The name of the plugin, the `type` of the `ipam` object.
pub(crate) const NAME: &str = "silkrail-ipam";

/// The directory of pools if the configuration contains neither `pools` nor `poolsDir`.
const POOLS_DIR: &str = "/etc/silkrail/pools.d";

/// The parsed `ipam` object.
pub(crate) struct IpamConf {
    source: PoolSource,
    /// The pools of the cluster, with `"store": "cluster"`.
    pub(crate) cluster: Option<ClusterPools>,
    /// The pools that the configuration lists; perhaps from an index.
    pools: Pools,
    /// All pools of the files, read on demand.
    whole: OnceCell<Pools>,
    /// Whether STATUS fails if all pools of a family are full.
    pub(crate) status_fails_when_full: bool,
    listed: ListedPools,
    list_source: PoolListSource,
    /// What is known about the pod from its Kubernetes objects.
    pod: Option<PodPools>,
    node: String,
    /// The network's name as in a pool's `multusName`: `namespace/name` with `multusNamespace`, else `name`.
    network: String,
}

impl IpamConf {
    /// Parses the configuration of an ADD and reads the pools that its pod can use. Writes an index of the directory for later calls.
    ///
    /// # Errors
    /// The key of an invalid value; a pool or an annotation of the pod that is not valid; if the pod is not known yet.
    pub(crate) fn of_pod(node: &Node, request: &AddRequest<'_>) -> Result<Self, Error> {
        let pod = |cluster: &ClusterPools| pod_pools::read(cluster, node, &request.common);
        Self::read(&request.common, request.attachment.ifname.as_str(), pod, true)
    }

    /// Parses the configuration and reads the pools that it lists.
    ///
    /// # Errors
    /// The key of an invalid value; a pool that is not valid.
    pub(crate) fn of_network(common: &CallContext<'_>) -> Result<Self, Error> {
        Self::read(common, "", |_| Ok(None), false)
    }

    fn read(
        common: &CallContext<'_>,
        ifname: &str,
        pod: impl FnOnce(&ClusterPools) -> Result<Option<PodPools>, Error>,
        keep: bool,
    ) -> Result<Self, Error> {
        let fields = common.conf.fields();
        let Some(ipam) = fields.object("ipam")? else {
            return Err(CniError::config("ipam: expected an object with the pools to use, found none").into());
        };
        if ipam.flag("match_master_subnet")?.unwrap_or(false) {
            return Err(IpamError::MatchMasterSubnet.into());
        }
        agent_socket::path(common)?;
        let of_network = ListedPools {
            ipv4: ipam.texts("default_ipv4_ippool")?,
            ipv6: ipam.texts("default_ipv6_ippool")?,
            clean_gateway: ipam.flag("clean_gateway")?.unwrap_or(false),
        };
        let state = conf::state_dir(common)?;
        let cluster = cluster(&ipam, &state)?;
        let source = PoolSource::of(&ipam, cluster.as_ref())?;
        let pod = cluster.as_ref().map_or(Ok(None), pod)?;
        let (list_source, listed) = pod_pools::listed(pod.as_ref(), ifname, of_network)?;
        let pools = source.candidate_pools(&listed, &state, keep)?;
        Ok(Self {
            source,
            cluster,
            pools,
            whole: OnceCell::new(),
            status_fails_when_full: ipam.flag("statusFailsWhenFull")?.unwrap_or(false),
            listed,
            list_source,
            pod,
            node: node_name(&ipam)?,
            network: match ipam.text("multusNamespace")? {
                Some(namespace) => format!("{namespace}/{}", common.conf.name),
                None => common.conf.name.clone(),
            },
        })
    }

    /// Whether annotations and labels of a pod select its pools.
    pub(crate) fn pools_depend_on_pod(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.pods_dir().is_dir())
    }

    /// Whether the interface gets no default route.
    pub(crate) fn clean_gateway(&self) -> bool {
        self.listed.clean_gateway
    }

    /// Returns the pools of a selection from which addresses are reserved for an interface of the pod, each with that address only.
    pub(crate) fn reserved(&self, ifname: &str, selection: &PoolSelection<'_>) -> Vec<(Pool, IpAddr)> {
        let reserved = self.reserved_addresses(ifname).iter();
        let with_pool = |reserved: &ReservedAddress| {
            let pools = selection.of(IpFamily::of(reserved.address));
            let pool = pools.iter().find(|pool| pool.name.as_str() == reserved.pool)?;
            Some((pool.with_only(reserved.address), reserved.address))
        };
        reserved.filter_map(with_pool).collect()
    }

    /// Returns the addresses that are reserved for an interface of the pod, whether or not it can have them.
    pub(crate) fn reserved_addresses(&self, ifname: &str) -> &[ReservedAddress] {
        self.pod.as_ref().and_then(|pod| pod.reserved.get(ifname)).map_or(&[], Vec::as_slice)
    }

    /// Whether the reservation of an interface would be deleted, unless it is made again.
    pub(crate) fn is_reservation_outdated(&self, ifname: &str) -> bool {
        self.pod.as_ref().is_some_and(|pod| pod.outdated.iter().any(|outdated| outdated == ifname))
    }

    /// Whether the pod is created again under the same name and then keeps its addresses.
    pub(crate) fn is_stable(&self) -> bool {
        self.pod.as_ref().is_some_and(|pod| pod.is_stable)
    }

    /// Returns the routes of the pod over gateways of the pool's subnet.
    pub(crate) fn pod_routes<'a>(&'a self, pool: &Pool) -> impl Iterator<Item = &'a PoolRoute> {
        let subnet = pool.subnet;
        self.pod.iter().flat_map(move |pod| pod.routes_in(subnet))
    }

    /// Returns the pools that an attachment can use, in the order in which they are tried.
    ///
    /// # Errors
    /// If there are none, with the reason for each candidate.
    pub(crate) fn select(&self, common: &CallContext<'_>, ifname: &str) -> Result<PoolSelection<'_>, Error> {
        let namespace = namespace(common);
        match self.select_from(&self.pools, namespace, ifname) {
            Err(_) if self.pools.is_partial() => self.select_from(self.all()?, namespace, ifname),
            selected => selected,
        }
    }

    /// Returns the pools from which any pod of the network could get an address.
    ///
    /// # Errors
    /// As [`IpamConf::select`].
    pub(crate) fn select_for_any_pod(&self) -> Result<PoolSelection<'_>, Error> {
        self.select_from(self.all()?, PodNamespace::Any, "")
    }

    /// As [`IpamConf::select`], but always reads the files: an index does not contain everything that error messages report.
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

    /// Returns the pool with that name, whether or not the configuration lists it.
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
            ipv4: &self.listed.ipv4,
            ipv6: &self.listed.ipv6,
            source: self.list_source,
            host_name: &self.node,
            pod_namespace,
            network: Some(&self.network),
            labels: match (&self.pod, pod_namespace) {
                (Some(pod), _) => PodLabels::Selecting(&pod.selected_by),
                (None, PodNamespace::Any) => PodLabels::Any,
                (None, _) => PodLabels::Unknown,
            },
        })?)
    }
}

fn namespace<'a>(common: &'a CallContext<'_>) -> PodNamespace<'a> {
    common.args.get("K8S_POD_NAMESPACE").map_or(PodNamespace::Unknown, PodNamespace::Of)
}

/// The sources of pools: the configuration itself, a directory, or both.
struct PoolSource {
    inline: Pools,
    dir: Option<PathBuf>,
}

impl PoolSource {
    fn of(ipam: &ConfObject<'_>, cluster: Option<&ClusterPools>) -> Result<Self, Error> {
        if let Some(cluster) = cluster {
            cluster.check_is_ready()?;
            return Ok(Self { inline: Pools::default(), dir: Some(cluster.pools_dir()) });
        }
        let inline = ipam.value("pools").unwrap_or(&Value::Null);
        let named = ipam.text("poolsDir")?.or(ipam.text("pools_dir")?);
        let dir = match named {
            Some(dir) if dir.starts_with('/') => Some(PathBuf::from(dir)),
            Some(dir) => return Err(ipam.invalid("poolsDir", "an absolute path", format!("{dir:?}")).into()),
            None if inline.is_null() => Some(PathBuf::from(POOLS_DIR)),
            None => None,
        };
        Ok(Self { inline: Pools::from_inline(inline)?, dir })
    }

    /// Reads the pools that the two lists can refer to.
    fn candidate_pools(
        &self,
        ListedPools { ipv4, ipv6, .. }: &ListedPools,
        state: &StateDir,
        keep: bool,
    ) -> Result<Pools, Error> {
        let Some(dir) = &self.dir else { return Ok(self.inline.clone()) };
        // Also read pools of the directory with the name of an inline pool, to detect duplicates.
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

/// Parses `store`: whether the pools are those of the cluster.
fn cluster(ipam: &ConfObject<'_>, state: &StateDir) -> Result<Option<ClusterPools>, Error> {
    match ipam.text("store")? {
        None | Some("local") => Ok(None),
        Some("cluster") => {
            let has = |key: &&str| ipam.value(key).is_some_and(|value| !value.is_null());
            match ["pools", "poolsDir", "pools_dir"].into_iter().find(has) {
                Some(key) => Err(IpamError::PoolsOfCluster(key).into()),
                None => Ok(Some(ClusterPools::of(state.root()))),
            }
        }
        Some(other) => Err(IpamError::UnknownStore(other.to_owned()).into()),
    }
}

/// Returns the node's name, which is compared with a pool's `nodeName`: `nodeName`, or else the host name.
fn node_name(ipam: &ConfObject<'_>) -> Result<String, Error> {
    if let Some(name) = ipam.text("nodeName")? {
        return Ok(name.to_owned());
    }
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(name.trim().to_owned())
}
