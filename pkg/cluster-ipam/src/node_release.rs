//! The blocks of a node that an administrator declares to be gone.

use std::time::Duration;

use block_leases::{ApiError, BlockRecord, remove_record};
use ipam::IpBlock;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt};
use kubeapi::{quietly, with_causes};
use tokio::time::timeout;

use crate::{
    KubeBlocks,
    ip_block::{self, IpBlockObject},
};

/// The timeout of a request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The blocks of a node, and what is known about it.
#[derive(Debug)]
pub struct NodeRelease {
    blocks: KubeBlocks,
    leased: Vec<LeasedBlock>,
    is_ready: bool,
}

/// A block of the node.
#[derive(Debug, Clone)]
pub struct LeasedBlock {
    record: BlockRecord,
    /// The number of its addresses that are in use, as the node last reported it.
    pub used: u64,
}

/// The blocks cannot be released.
#[derive(Debug, thiserror::Error)]
pub enum NodeReleaseError {
    /// A request to the API server failed.
    #[error("{what}: {problem}")]
    Request {
        /// What was requested.
        what: &'static str,
        /// Why it failed.
        problem: String,
    },
    /// The node is ready, so that its pods run.
    #[error(
        "Node {0} is ready: its pods run, and their addresses would be assigned twice; switch it off, wait until it is not ready, and \
         try again"
    )]
    Ready(String),
}

impl LeasedBlock {
    /// Returns the block.
    pub fn block(&self) -> IpBlock {
        self.record.block
    }
}

impl NodeRelease {
    /// Reads the blocks that a node has leased under its name, also those of a former machine with that name.
    ///
    /// # Errors
    /// [`NodeReleaseError::Request`].
    pub async fn read(client: Client, node: &str) -> Result<Self, NodeReleaseError> {
        let (uid, is_ready) = match within(Api::<Node>::all(client.clone()).get_opt(node)).await {
            Ok(Some(found)) => (found.uid(), is_ready(&found)),
            Ok(None) => (None, false),
            Err(problem) => return Err(NodeReleaseError::Request { what: "Node", problem }),
        };
        let objects = Api::<IpBlockObject>::all_with(client.clone(), &ip_block::resource());
        let list = within(objects.list(&Default::default())).await;
        let list = list.map_err(|problem| NodeReleaseError::Request { what: "IPBlocks", problem })?;
        let mut leased = Vec::new();
        for object in list.items {
            let used = object.status.as_ref().map_or(0, |status| status.used);
            // What cannot be read is not of a node.
            let Ok(record) = ip_block::record(object) else { continue };
            match record.clone().owner() {
                // While the node is ready, only blocks of a former machine can be released.
                Some(owner) if owner.node == node && !(is_ready && Some(&owner.uid) == uid.as_ref()) => {
                    leased.push(LeasedBlock { record, used });
                }
                _ => {}
            }
        }
        Ok(Self { blocks: KubeBlocks::new(client, REQUEST_TIMEOUT), leased, is_ready })
    }

    /// Returns the blocks.
    pub fn blocks(&self) -> &[LeasedBlock] {
        &self.leased
    }

    /// Whether the node is ready, so that the blocks are those of a former machine with its name.
    pub fn is_node_ready(&self) -> bool {
        self.is_ready
    }

    /// Makes a block free for other nodes.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if it was changed since it was read: the node runs, or was created again.
    pub async fn release(&self, block: &LeasedBlock) -> Result<(), ApiError> {
        remove_record(&self.blocks, &block.record).await
    }
}

async fn within<T>(answer: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(REQUEST_TIMEOUT, quietly(answer)).await {
        Ok(answer) => answer.map_err(|error| with_causes(&error)),
        Err(_) => Err(format!("no response within {REQUEST_TIMEOUT:?}")),
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}
