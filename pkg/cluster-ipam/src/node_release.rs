//! The blocks of a node that an administrator declares to be gone.

use std::time::Duration;

use block_leases::{ApiError, BlockRecord, remove_record};
use ipam::IpBlock;
use k8s_openapi::{
    api::core::v1::Node,
    jiff::{SignedDuration, Timestamp},
};
use kube::{Api, Client, ResourceExt};
use kubeapi::{RequestError, within};

use crate::{
    KubeBlocks,
    ip_block::{self, IpBlockObject},
    node_state,
};

/// The timeout of a request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The blocks of a node, and what is known about it.
#[derive(Debug)]
pub struct NodeRelease {
    blocks: KubeBlocks,
    leased: Vec<LeasedBlock>,
    state: NodePresence,
}

/// What the Node object says about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePresence {
    /// There is none, its kubelet has not reported for a while, or an administrator has declared it to be out of service.
    Gone,
    /// Its kubelet reports, or did until recently.
    Present,
    /// Likewise, and the object was created recently: the machine may still use blocks that it has leased under a former one.
    New,
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
        problem: RequestError,
    },
    /// The kubelet of the node reports, so that its pods may run.
    #[error(
        "Node {0} reports to the API server: its pods may run, and their addresses would be assigned twice; switch it off, wait until \
         its condition Ready is Unknown (about a minute), and try again"
    )]
    Present(String),
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
        let (uid, state) = match within(REQUEST_TIMEOUT, Api::<Node>::all(client.clone()).get_opt(node)).await
        {
            Ok(Some(found)) => (found.uid(), presence(&found)),
            Ok(None) => (None, NodePresence::Gone),
            Err(problem) => return Err(NodeReleaseError::Request { what: "Node", problem }),
        };
        let objects = Api::<IpBlockObject>::all_with(client.clone(), &ip_block::resource());
        let list = within(REQUEST_TIMEOUT, objects.list(&Default::default())).await;
        let list = list.map_err(|problem| NodeReleaseError::Request { what: "IPBlocks", problem })?;
        let mut leased = Vec::new();
        for object in list.items {
            let used = object.status.as_ref().map_or(0, |status| status.used);
            // What cannot be read is not of a node.
            let Ok(record) = ip_block::record(object) else { continue };
            match record.clone().owner() {
                Some(owner) if owner.node == node => {
                    let is_releasable = match state {
                        NodePresence::Gone => true,
                        // Of a former machine with the name.
                        NodePresence::Present => Some(&owner.uid) != uid.as_ref(),
                        NodePresence::New => false,
                    };
                    leased.extend(is_releasable.then_some(LeasedBlock { record, used }));
                }
                _ => {}
            }
        }
        Ok(Self { blocks: KubeBlocks::new(client, REQUEST_TIMEOUT), leased, state })
    }

    /// Returns the blocks.
    pub fn blocks(&self) -> &[LeasedBlock] {
        &self.leased
    }

    /// Returns what the Node object says. If it is not gone, only blocks of a former machine with its name are returned.
    pub fn node(&self) -> NodePresence {
        self.state
    }

    /// Makes a block free for other nodes.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if it was changed since it was read: the node runs, or was created again.
    pub async fn release(&self, block: &LeasedBlock) -> Result<(), ApiError> {
        remove_record(&self.blocks, &block.record).await
    }
}

fn presence(node: &Node) -> NodePresence {
    if node_state::is_out_of_service(node) {
        return NodePresence::Gone;
    }
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|one| one.type_ == "Ready"));
    // The node controller sets Unknown when the kubelet has not reported for its grace period. False is the kubelet's own report.
    if ready.is_some_and(|ready| ready.status == "Unknown") {
        return NodePresence::Gone;
    }
    let age = node.creation_timestamp().map(|created| Timestamp::now().duration_since(created.0));
    let is_new = age.is_none_or(|age| age < SignedDuration::from_secs(10 * 60));
    if is_new { NodePresence::New } else { NodePresence::Present }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_present_unless_its_kubelet_is_silent() {
        let of = |status: &str, taints: &[&str], minutes: i64| {
            let created = (Timestamp::now() - SignedDuration::from_mins(minutes)).to_string();
            let taints: Vec<_> =
                taints.iter().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
            let conditions =
                json!([{"type": "DiskPressure", "status": "Unknown"}, {"type": "Ready", "status": status}]);
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"creationTimestamp": created}, "spec": {"taints": taints},
                "status": {"conditions": if status.is_empty() { json!([]) } else { conditions }},
            });
            presence(&serde_json::from_value(node).unwrap())
        };
        let out_of_service = &["node.kubernetes.io/out-of-service"][..];
        for (status, taints, minutes, expected) in [
            ("True", &[][..], 60, NodePresence::Present),
            // The kubelet itself reports this.
            ("False", &[], 60, NodePresence::Present),
            ("Unknown", &[], 60, NodePresence::Gone),
            ("Unknown", &[], 1, NodePresence::Gone),
            ("True", &[], 9, NodePresence::New),
            ("True", &[], 11, NodePresence::Present),
            ("", &[], 60, NodePresence::Present),
            ("False", out_of_service, 60, NodePresence::Gone),
            ("True", out_of_service, 60, NodePresence::Present),
        ] {
            assert_eq!(of(status, taints, minutes), expected, "{status:?} {taints:?} {minutes}");
        }
        assert_eq!(presence(&Node::default()), NodePresence::New, "it is not known how old it is");
    }
}
