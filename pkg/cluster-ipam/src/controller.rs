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
