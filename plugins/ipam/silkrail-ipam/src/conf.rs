//! The configuration's `ipam` object and the pools that it selects.

use std::{cell::OnceCell, net::IpAddr};

use cni::{AddRequest, CallContext, ConfObject, Error as CniError};
use ipam::{
    IpFamily, ListedPools, PodLabels, PodNamespace, PodPools, Pool, PoolListSource, PoolRoute, PoolSelection,
    Pools, ReservedAddress,
};
use plugin_runtime::{
    Error, Node, conf, ipv6,
    policy::{Resource, ResourceUses},
};
use state::StateDir;

use crate::{
    agent_socket,
    cluster::ClusterPools,
    error::IpamError,
    pod_pools,
    pool_source::{POOLS_DIR, PoolSource, pools_dir},
};

/// The name of the plugin, the `type` of the `ipam` object.
pub(crate) const NAME: &str = "silkrail-ipam";

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
        Self::read(&request.common, request.attachment.ifname.as_str(), Some(node), true)
    }

    /// Returns the pools from which an ADD would take its addresses, for the policy of the node: pools of the configuration as
    /// [`Resource::INLINE_POOLS`], those of another directory than the default one as its path. Without a request, the pools of
    /// any pod of the namespace.
    ///
    /// # Errors
    /// As [`IpamConf::of_pod`] and [`IpamConf::select`].
    pub(crate) fn uses(
        node: &Node,
        common: &CallContext<'_>,
        request: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, Error> {
        let mut uses = ResourceUses::default();
        if let Some(ipam) = common.conf.fields().object("ipam")? {
            let inline = ipam.value("pools").map(|_| Resource::INLINE_POOLS);
            let dir = pools_dir(&ipam)?.map(|(_, dir)| dir);
            uses.add_some(Resource::Pool, inline);
            uses.add_some(Resource::Pool, dir.filter(|dir| *dir != POOLS_DIR));
            if dir.map_or(inline.is_some(), |dir| dir != POOLS_DIR) {
                // The files of a directory that the policy may not allow are not read.
                return Ok(uses);
            }
        }
        let ifname = request.map_or("", |request| request.attachment.ifname.as_str());
        let conf = Self::read(common, ifname, request.map(|_| node), false)?;
        let selected = conf.select(common, ifname)?;
        for pool in selected.ipv4.iter().chain(&selected.ipv6) {
            uses.add(Resource::Pool, &pool.name);
        }
        Ok(uses)
    }

    /// Parses the configuration and reads the pools that it lists.
    ///
    /// # Errors
    /// The key of an invalid value; a pool that is not valid.
    pub(crate) fn of_network(common: &CallContext<'_>) -> Result<Self, Error> {
        Self::read(common, "", None, false)
    }

    /// Without a node, nothing is read about a pod.
    fn read(common: &CallContext<'_>, ifname: &str, node: Option<&Node>, keep: bool) -> Result<Self, Error> {
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
        let pod = match (&cluster, node) {
            (Some(cluster), Some(node)) => pod_pools::read(cluster, node, common)?,
            _ => None,
        };
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
    /// If there are none, with the reason for each candidate; if some have IPv6 addresses and the kernel has no IPv6.
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
        let selection = pools.select(&ipam::PoolRequest {
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
        })?;
        if !selection.ipv6.is_empty() {
            ipv6::require()?;
        }
        Ok(selection)
    }
}

fn namespace<'a>(common: &'a CallContext<'_>) -> PodNamespace<'a> {
    common.args.get("K8S_POD_NAMESPACE").map_or(PodNamespace::Unknown, PodNamespace::Of)
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
    let name = nix::unistd::gethostname().unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tests::call;

    fn conf(ipam: &Value) -> Result<IpamConf, Error> {
        IpamConf::of_network(&call(&json!({ "ipam": ipam }), ""))
    }

    fn pool(name: &str, more: &Value) -> Value {
        let mut pool = json!({"name": name, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]});
        pool.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        pool
    }

    #[test]
    fn the_node_and_the_network_of_the_configuration_decide_which_pools_are_used() {
        let pools = [
            pool("node", &json!({"nodeName": ["n"]})),
            pool("network", &json!({"multusName": ["ai/rail0"]})),
        ];
        let usable = |more: Value| {
            let mut ipam = json!({"pools": pools});
            ipam.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
            let conf = conf(&ipam).unwrap();
            let selection = conf
                .select_for_any_pod()
                .map(|found| found.ipv4.iter().map(|pool| pool.name.to_string()).collect());
            selection.unwrap_or_else(|_| Vec::<String>::new())
        };
        assert_eq!(usable(json!({"nodeName": "n", "multusNamespace": "ai"})), ["node", "network"]);
        assert_eq!(usable(json!({"nodeName": "m", "multusNamespace": "ai"})), ["network"]);
        assert_eq!(usable(json!({"nodeName": "m"})), ["network"], "the namespace is not known");
        assert_eq!(usable(json!({"nodeName": "n", "multusNamespace": "b"})), ["node"]);
        assert_eq!(usable(json!({"nodeName": "m", "multusNamespace": "b"})), [""; 0]);
    }

    #[test]
    fn sources_of_pools_that_contradict_each_other_are_refused() {
        let refused = |ipam: Value| conf(&ipam).err().map(|error| error.to_string()).unwrap_or_default();
        for key in ["pools", "poolsDir", "pools_dir"] {
            assert!(
                refused(json!({"store": "cluster", key: "/x"}))
                    .starts_with(&format!("ipam.{key}: not allowed")),
                "{key}"
            );
        }
        assert!(
            refused(json!({"store": "cluster", "pools": null}))
                .contains("the pools of the cluster are not known")
        );
        assert!(refused(json!({"store": "etcd"})).contains("found \"etcd\""));
        let not_of_pools =
            ["/tmp/pools.d", "/run/silkrail/cluster/pools", "/var/lib/silkrail/a/./cluster//pools/"];
        for dir in not_of_pools {
            assert!(refused(json!({"poolsDir": dir})).contains("/etc/silkrail*"), "{dir}");
        }
        assert!(refused(json!({"match_master_subnet": true, "pools": []})).contains("match_master_subnet"));
        assert_eq!(refused(json!({"store": "local", "match_master_subnet": false, "pools": []})), "");
        // A directory besides the pools of the configuration is read only if it is named.
        assert!(
            conf(&json!({"pools": [pool("a", &Value::Null)]}))
                .unwrap()
                .all()
                .unwrap()
                .remarks()
                .to_string()
                .is_empty()
        );
        let both =
            conf(&json!({"pools": [pool("a", &Value::Null)], "pools_dir": "/run/silkrail-nowhere/pools.d"}))
                .unwrap();
        assert!(both.all().unwrap().remarks().to_string().contains("/run/silkrail-nowhere/pools.d"));
    }

    #[test]
    fn what_is_reserved_for_an_interface_is_had_from_its_own_pool() {
        let mut conf = conf(&json!({"pools": [pool("a", &Value::Null), pool("b", &Value::Null)]})).unwrap();
        assert!(!conf.is_stable() && conf.reserved_addresses("net1").is_empty());
        let reserved = |pool: &str, address: &str| ReservedAddress {
            pool: pool.to_owned(),
            address: address.parse().unwrap(),
        };
        let of_net1 = vec![reserved("gone", "10.0.0.3"), reserved("b", "10.0.0.2"), reserved("b", "fd00::2")];
        conf.pod = Some(PodPools {
            is_stable: true,
            reserved: [("net1".to_owned(), of_net1)].into(),
            outdated: vec!["net2".to_owned()],
            ..PodPools::default()
        });
        let selection = conf.select(&call(&json!({}), ""), "net1").unwrap();
        let found = conf.reserved("net1", &selection);
        let [(pool, address)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (pool.name.as_str(), address.to_string().as_str(), pool.ranges.len()),
            ("b", "10.0.0.2", 1)
        );
        assert!(conf.reserved("net2", &selection).is_empty() && conf.is_stable());
        assert!(conf.is_reservation_outdated("net2") && !conf.is_reservation_outdated("net1"));
    }
}
