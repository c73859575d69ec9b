//! The controller of a cluster: it reclaims the blocks of nodes that are gone, and writes the status of pools.
//!
//! Its changes are conditional on the versions that it has read, so it does no harm if there are two.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    pin::pin,
    time::{Duration, Instant},
};

use block_leases::{ApiError, BlockRecord, remove_parent, remove_record};
use futures_util::{StreamExt, stream};
use ipam::Pool;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use kubeapi::{ObjectStore, within};
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    KubeBlocks, cluster_objects,
    hold_down::{HoldDowns, NodeState, NodeStates},
    ip_block::{self, IpBlockObject},
    node_object::NodeLabels,
    node_state,
    pool_directory::PoolFiles,
    pool_status::{self, ReportedBlock},
};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_secs(2);

/// The options of the controller.
#[derive(Debug, Clone, Copy)]
pub struct ControllerOptions {
    /// The time for which a node must be missing before its blocks are given to others.
    pub hold_down: Duration,
    /// The time between two updates of the status of a pool.
    pub status_interval: Duration,
}

/// The controller of a cluster.
pub struct Controller {
    client: Client,
    blocks: KubeBlocks,
    options: ControllerOptions,
    hold_downs: HoldDowns,
    sources: ClusterObjects,
    /// The statuses that were last written, by the UID of the pool.
    written: BTreeMap<String, Value>,
    next_status: Instant,
}

/// The objects that the controller watches.
struct ClusterObjects {
    nodes: ObjectStore<Node>,
    blocks: ObjectStore<IpBlockObject>,
    pools: ObjectStore<DynamicObject>,
    reserved: ObjectStore<DynamicObject>,
}

impl Controller {
    /// Runs the controller, for ever.
    pub async fn run(client: Client, options: ControllerOptions) -> Infallible {
        let (nodes, node_changes) = cluster_objects::nodes(&client);
        let (blocks, block_changes) = cluster_objects::blocks(&client);
        let (pools, pool_changes) = cluster_objects::pools(&client);
        let (reserved, reserved_changes) = cluster_objects::reserved(&client);
        let changes = stream::select(
            stream::select(node_changes, block_changes),
            stream::select(pool_changes, reserved_changes),
        );
        let mut changes = pin!(changes);
        let mut controller = Self {
            blocks: KubeBlocks::new(client.clone(), REQUEST_TIMEOUT),
            client,
            options,
            hold_downs: HoldDowns::new(options.hold_down),
            sources: ClusterObjects { nodes, blocks, pools, reserved },
            written: BTreeMap::new(),
            next_status: Instant::now(),
        };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Changes only fill the stores. What follows from them is done at the next tick, together.
            tokio::select! {
                Some(()) = changes.next() => {}
                _ = ticks.tick() => controller.step().await,
            }
        }
    }

    async fn step(&mut self) {
        let ClusterObjects { nodes, blocks, pools, reserved } = &self.sources;
        let (Some(nodes), Some(blocks)) = (nodes.objects(), blocks.objects()) else { return };
        let records: Vec<_> = blocks
            .iter()
            .filter_map(|block| {
                ip_block::record(block.as_ref().clone()).inspect_err(|error| tracing::warn!("{error}")).ok()
            })
            .collect();
        let states: NodeStates =
            nodes.iter().map(|node| (node.uid().unwrap_or_default(), state(node))).collect();
        let statuses = match (pools.objects(), reserved.objects()) {
            (Some(pools), Some(reserved)) if Instant::now() >= self.next_status => {
                self.next_status = Instant::now() + self.options.status_interval;
                let (pools, reserved) = (pools.iter().map(AsRef::as_ref), reserved.iter().map(AsRef::as_ref));
                let files = PoolFiles::of(pools, reserved, &BTreeSet::new(), "", &NodeLabels::new());
                let blocks: Vec<_> = blocks.iter().filter_map(|block| reported(block)).collect();
                statuses(&files, &blocks)
            }
            _ => Vec::new(),
        };
        self.reclaim(&records, &states).await;
        for (name, status) in statuses {
            self.write_status(&name, status).await;
        }
    }

    async fn reclaim(&mut self, records: &[BlockRecord], nodes: &NodeStates) {
        let due = self.hold_downs.due(records, nodes, Instant::now());
        // A node cannot renew its blocks while the API server cannot be reached.
        if self.hold_downs.is_running() && !self.is_api_reachable().await {
            self.hold_downs.restart();
            return;
        }
        for record in due {
            let owner = record.clone().owner().map(|owner| owner.node).unwrap_or_default();
            if !self.is_gone(&record, &owner).await {
                continue;
            }
            match remove_record(&self.blocks, &record).await {
                Ok(()) => tracing::info!("IPBlock {} of node {owner}, which is gone, is free", record.block),
                Err(ApiError::Changed) => {}
                Err(error) => tracing::warn!("IPBlock {}: {error}", record.block),
            }
        }
        let has_children = |parent: &BlockRecord| {
            records.iter().any(|record| record.block != parent.block && record.block.parent() == parent.block)
        };
        for record in records.iter().filter(|record| record.is_terminating && !has_children(record)) {
            match remove_parent(&self.blocks, record).await {
                Ok(true) => tracing::info!("IPBlock {} is no longer divided into blocks", record.block),
                Ok(false) | Err(ApiError::Changed) => {}
                Err(error) => tracing::warn!("IPBlock {}: {error}", record.block),
            }
        }
    }

    async fn is_api_reachable(&self) -> bool {
        // From etcd, too.
        let nodes = Api::<Node>::all(self.client.clone());
        let params = ListParams::default().limit(1);
        within(REQUEST_TIMEOUT, nodes.list_metadata(&params)).await.is_ok()
    }

    /// Whether a node does not exist, or is out of service, at this moment: the watch may be behind.
    async fn is_gone(&self, record: &BlockRecord, name: &str) -> bool {
        match within(REQUEST_TIMEOUT, Api::<Node>::all(self.client.clone()).get_opt(name)).await {
            Ok(None) => true,
            Ok(Some(node)) => {
                let is_owner = record.clone().owner().is_some_and(|owner| node.uid() == Some(owner.uid));
                !is_owner || state(&node) == NodeState::OutOfService
            }
            Err(error) => {
                tracing::warn!("Node {name}: {error}");
                false
            }
        }
    }

    /// Writes the status of a pool, if it has changed.
    async fn write_status(&mut self, name: &str, status: Value) {
        let pools = self.sources.pools.objects().unwrap_or_default();
        let Some(uid) =
            pools.iter().find(|pool| pool.metadata.name.as_deref() == Some(name)).and_then(|pool| pool.uid())
        else {
            return;
        };
        if self.written.get(&uid) == Some(&status) {
            return;
        }
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &cluster_objects::pool_resource());
        let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
        match within(REQUEST_TIMEOUT, api.patch_status(name, &params, &patch)).await {
            Ok(_) => drop(self.written.insert(uid, status)),
            Err(error) => tracing::warn!("status of SpiderIPPool {name}: {error}"),
        }
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("options", &self.options).finish_non_exhaustive()
    }
}

fn state(node: &Node) -> NodeState {
    if node_state::is_out_of_service(node) { NodeState::OutOfService } else { NodeState::InService }
}

fn reported(block: &IpBlockObject) -> Option<ReportedBlock> {
    let status = block.status.as_ref()?;
    Some(ReportedBlock {
        block: block.metadata.name.as_ref()?.parse().ok()?,
        node: block.spec.owner.as_ref()?.node_name.clone(),
        in_use: status.addresses.iter().filter_map(|range| range.parse().ok()).collect(),
    })
}

/// Returns the statuses of all pools, by name.
fn statuses(files: &PoolFiles, blocks: &[ReportedBlock]) -> Vec<(String, Value)> {
    let all: Vec<&Pool> = files.pools.iter().map(|pool| &pool.pool).collect();
    let of_pool = |pool: &&Pool| (pool.name.to_string(), pool_status::of_pool(pool, &all, blocks));
    let invalid =
        files.invalid.iter().map(|invalid| (invalid.name.clone(), pool_status::of_invalid(&invalid.problem)));
    all.iter().map(of_pool).chain(invalid).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nodes_report_of_leased_blocks_counts_and_every_pool_has_a_status() {
        let block = |name: &str, spec: Value, status: Value| {
            let cidr = name.parse::<ipam::IpBlock>().map_or(String::new(), |block| block.cidr());
            let mut spec = spec;
            spec["cidr"] = json!(cidr);
            let object = json!({"apiVersion": "a/v1", "kind": "IPBlock", "metadata": {"name": name}, "spec": spec, "status": status});
            serde_json::from_value::<IpBlockObject>(object).unwrap()
        };
        let owned = || json!({"owner": {"nodeName": "gpu-07", "nodeUID": "u"}});
        let used = json!({"used": 3, "addresses": ["10.0.0.1-10.0.0.2", "no range", "10.0.0.5"]});
        let found = reported(&block("10.0.0.0-28", owned(), used.clone())).unwrap();
        assert_eq!((found.node.as_str(), found.in_use.len()), ("gpu-07", 2));
        assert!(
            reported(&block("10.0.0.0-24", json!({"blockSize": 16}), used.clone())).is_none(),
            "a parent"
        );
        assert!(
            reported(&block("10.0.0.0-28", owned(), Value::Null)).is_none()
                && reported(&block("x", owned(), used)).is_none()
        );
        let pool = |name: &str, ips: &str| {
            let spec = json!({"subnet": "10.0.0.0/24", "ips": [ips]});
            let object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": name}, "spec": spec});
            serde_json::from_value::<DynamicObject>(object).unwrap()
        };
        let pools = [pool("a", "10.0.0.1"), pool("bad", "10.1.0.1"), pool("c", "10.0.0.2-10.0.0.9")];
        let files = PoolFiles::of(&pools, [], &BTreeSet::new(), "", &NodeLabels::new());
        let statuses: BTreeMap<_, _> = statuses(&files, &[found]).into_iter().collect();
        let count = |name: &str| statuses[name]["status"]["allocatedIPCount"].clone();
        assert_eq!((count("a"), count("c"), count("bad")), (json!(1), json!(2), Value::Null));
        assert_eq!(statuses["bad"]["status"]["conditions"][0]["status"], "False");
        assert_eq!(
            statuses["a"]["status"]["conditions"][1]["status"], "False",
            "no address is outside of all pools"
        );
    }
}
