//! The `IPBlock` object of the Kubernetes API, in which a block is leased.

use std::collections::BTreeMap;

use block_leases::{BlockContent, BlockOwner, BlockRecord, RecordVersion};
use ipam::{BlockSize, IpBlock};
use kube::{
    api::ObjectMeta,
    core::{ApiResource, GroupVersionKind, Object},
};
use serde::{Deserialize, Serialize};

/// The finalizer of every object: a deletion waits until the addresses of the block are free.
pub(crate) const FINALIZER: &str = "ipam.silkrail.io/block";
/// The label with the UID of the node that has leased the block.
pub(crate) const NODE_UID: &str = "ipam.silkrail.io/node-uid";
/// The label with the name of the block's parent.
pub(crate) const PARENT: &str = "ipam.silkrail.io/parent";

/// An `IPBlock` object.
pub type IpBlockObject = Object<IpBlockSpec, IpBlockStatus>;

/// What a block is used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpBlockSpec {
    /// The addresses in CIDR notation. The name of the object says the same.
    pub cidr: String,
    /// The node that has leased the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<IpBlockOwner>,
    /// Without an owner: the number of addresses of the blocks into which this one is divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u64>,
}

/// The node that has leased a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpBlockOwner {
    /// The name of the node.
    #[serde(rename = "nodeName")]
    pub node_name: String,
    /// The UID of the node.
    #[serde(rename = "nodeUID")]
    pub node_uid: String,
}

/// The use of a block, as its node last reported it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpBlockStatus {
    /// The number of addresses in use.
    #[serde(default)]
    pub used: u64,
    /// The addresses in use, as ranges.
    #[serde(default)]
    pub addresses: Vec<String>,
}

/// An object is not one that this program would create.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("IPBlock {name}: {problem}")]
pub struct InvalidIpBlock {
    name: String,
    problem: String,
}

/// Returns the resource of the API.
pub(crate) fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("ipam.silkrail.io", "v1alpha1", "IPBlock"),
        "ipblocks",
    )
}

/// Returns a new object.
pub(crate) fn object(block: IpBlock, content: &BlockContent) -> IpBlockObject {
    let mut labels = BTreeMap::from([(PARENT.to_owned(), block.parent().to_string())]);
    let (owner, block_size) = match content {
        BlockContent::Leased(BlockOwner { node, uid }) => {
            labels.insert(NODE_UID.to_owned(), uid.clone());
            (Some(IpBlockOwner { node_name: node.clone(), node_uid: uid.clone() }), None)
        }
        BlockContent::Parent(size) => (None, Some(size.addresses().into())),
    };
    let mut object =
        Object::new(&block.to_string(), &resource(), IpBlockSpec { cidr: block.cidr(), owner, block_size });
    object.metadata.labels = Some(labels);
    object.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    object
}

/// Returns the record of an object.
///
/// # Errors
/// [`InvalidIpBlock`]: someone else has created or changed it.
pub(crate) fn record(object: IpBlockObject) -> Result<BlockRecord, InvalidIpBlock> {
    let ObjectMeta { name, uid, resource_version, deletion_timestamp, .. } = object.metadata;
    let name = name.unwrap_or_default();
    let invalid = |problem: String| InvalidIpBlock { name: name.clone(), problem };
    let block: IpBlock = name.parse().map_err(|error: ipam::InvalidBlockName| invalid(error.to_string()))?;
    let IpBlockSpec { cidr, owner, block_size } = object.spec;
    if cidr != block.cidr() {
        return Err(invalid(format!("spec.cidr: expected {}, found {cidr}", block.cidr())));
    }
    let content = match (owner, block_size) {
        (Some(IpBlockOwner { node_name, node_uid }), None) => {
            BlockContent::Leased(BlockOwner { node: node_name, uid: node_uid })
        }
        (None, Some(size)) if block == block.parent() => {
            BlockContent::Parent(BlockSize::try_from(size).map_err(|error| invalid(error.to_string()))?)
        }
        _ => {
            return Err(invalid(
                "expected either spec.owner or, for 256 addresses, spec.blockSize".to_owned(),
            ));
        }
    };
    Ok(BlockRecord {
        block,
        content,
        is_terminating: deletion_timestamp.is_some(),
        version: RecordVersion {
            uid: uid.unwrap_or_default(),
            resource: resource_version.unwrap_or_default(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: &str) -> IpBlock {
        name.parse().unwrap()
    }

    #[test]
    fn what_is_created_is_read_again() {
        let owner = BlockOwner { node: "gpu-07".to_owned(), uid: "d3b0".to_owned() };
        let leased = (block("10.16.1.64-26"), BlockContent::Leased(owner));
        let parent = (block("10.16.1.0-24"), BlockContent::Parent(64.try_into().unwrap()));
        for (block, content) in [leased, parent] {
            let text = serde_json::to_string(&object(block, &content)).unwrap();
            let read = record(serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!((read.block, read.content, read.is_terminating), (block, content, false));
        }
    }

    #[test]
    fn objects_that_contradict_themselves_are_refused() {
        let of = |name: &str, spec: serde_json::Value| {
            let object = serde_json::json!({"apiVersion": "a/v1", "kind": "IPBlock", "metadata": {"name": name}, "spec": spec});
            record(serde_json::from_value(object).unwrap()).unwrap_err().to_string()
        };
        let owner = serde_json::json!({"nodeName": "a", "nodeUID": "b"});
        for (name, spec, problem) in [
            ("rail0", serde_json::json!({"cidr": "10.0.0.0/26", "owner": owner}), "block name \"rail0\""),
            (
                "10.0.0.0-26",
                serde_json::json!({"cidr": "10.0.0.64/26", "owner": owner}),
                "spec.cidr: expected 10.0.0.0/26",
            ),
            (
                "10.0.0.0-26",
                serde_json::json!({"cidr": "10.0.0.0/26", "blockSize": 4}),
                "expected either spec.owner",
            ),
            ("10.0.0.0-24", serde_json::json!({"cidr": "10.0.0.0/24", "blockSize": 5}), "block size \"5\""),
            (
                "10.0.0.0-24",
                serde_json::json!({"cidr": "10.0.0.0/24", "blockSize": 4, "owner": owner}),
                "expected either",
            ),
            ("10.0.0.0-24", serde_json::json!({"cidr": "10.0.0.0/24"}), "expected either"),
        ] {
            let error = of(name, spec);
            assert!(error.contains(problem), "{error}");
        }
    }
}
