//! The trait of a change on the node.

use std::fmt::{Debug, Display};

use serde::{Serialize, de::DeserializeOwned};

/// A change on the node that can be reverted.
///
/// It contains the identity of the changed object (an index, a PCI address, an owner) and the former values that
/// a revert restores: everything that a revert needs is recorded, nothing is derived.
pub trait Change: Serialize + DeserializeOwned + Display + Debug {
    /// The node, or the part of it, on which the change is made.
    type Node: ?Sized;
    /// Why a revert failed, or how the node differs from the change.
    type Error: Display;

    /// Reverts the change. Succeeds if it was never made, is reverted already, or if its object has another owner.
    ///
    /// # Errors
    /// Why the revert failed. The next DEL or GC tries it again.
    fn revert(&self, node: &Self::Node) -> Result<(), Self::Error>;

    /// Checks that the change is in place as it was made.
    ///
    /// # Errors
    /// How the node differs.
    fn verify(&self, node: &Self::Node) -> Result<(), Self::Error>;

    /// Returns the name of the step that makes the change, for logs: `link`, `claim`.
    fn step(&self) -> &'static str;

    /// Whether the change is in a state file and survives a reboot, unlike links, namespaces and devices.
    fn survives_reboot(&self) -> bool {
        false
    }

    /// Whether this change protects those recorded after it, as the claim of a device does. It is reverted only
    /// after all of them.
    fn revert_last(&self) -> bool {
        false
    }
}
