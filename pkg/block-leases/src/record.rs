//! The record of a block in the cluster.

use ipam::{BlockSize, IpBlock};

/// The record of a block: an `IPBlock` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRecord {
    /// The block, which is also the name of the object.
    pub block: IpBlock,
    /// What the block is used for.
    pub content: BlockContent,
    /// Whether the record is being deleted (`deletionTimestamp`). This is never reversed.
    pub is_terminating: bool,
    /// The version that was read.
    pub version: RecordVersion,
}

/// What a block is used for. It is set when the record is created; only the UID of an owner can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockContent {
    /// A node has leased the block.
    Leased(BlockOwner),
    /// The block is divided into blocks of this size.
    Parent(BlockSize),
}

/// The node that has leased a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockOwner {
    /// The name of the node.
    pub node: String,
    /// The UID of its object. A node that is created again under the same name has another one.
    pub uid: String,
}

/// The version of a record. A change can be made conditional on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordVersion {
    /// The UID of the object, which differs for each object with the same name.
    pub uid: String,
    /// The `resourceVersion` of the object, which differs after each change.
    pub resource: String,
}

impl BlockRecord {
    /// Returns the node that has leased the block; `None` for a parent.
    pub fn owner(self) -> Option<BlockOwner> {
        match self.content {
            BlockContent::Leased(owner) => Some(owner),
            BlockContent::Parent(_) => None,
        }
    }

    /// Whether this node has leased the block. Both its name and its UID must agree: what may be written depends on the name.
    pub fn is_of(&self, node: &BlockOwner) -> bool {
        matches!(&self.content, BlockContent::Leased(owner) if owner == node)
    }
}
