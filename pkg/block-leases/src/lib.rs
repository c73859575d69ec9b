//! Leases of blocks of addresses: how a node gets them from a cluster, and releases them.
//!
//! The state of the cluster is a set of [`BlockRecord`]s behind a [`BlockApi`], which the Kubernetes API server implements. The
//! state of the node is a set of blocks behind [`NodeBlocks`], which the store of its plugins implements. [`BlockLeases`] has
//! the steps between the two. No address is used by two nodes, whatever step a process ends at and however late a request is
//! executed, because of these rules:
//!
//! 1. The name of a record is its block. Creating it is the lock: one node succeeds.
//! 2. The size of blocks is decided once for 256 addresses, by the record of their [parent](ipam::IpBlock::parent). Before a
//!    block is offered to plugins, its parent is read once more, and must not be terminating.
//! 3. Each record has a finalizer, so a deletion only marks it as terminating, for ever. A terminating block is never offered
//!    again. Its owner removes the finalizer after it has withdrawn the block and found no address of it in use.
//! 4. Requests that change or delete name the version or UID of the record that was read, so they cannot affect a later one
//!    with the same name.

#![forbid(unsafe_code)]

mod api;
mod candidates;
mod leases;
mod node_blocks;
mod reclaim;
mod record;

pub use api::{ApiError, BlockApi};
pub use candidates::candidates;
pub use leases::{BlockLeases, LeaseError, LeaseOutcome, LostBlock, ReleaseOutcome, SyncReport};
pub use node_blocks::NodeBlocks;
pub use reclaim::{remove_parent, remove_record};
pub use record::{BlockContent, BlockOwner, BlockRecord, RecordVersion};
