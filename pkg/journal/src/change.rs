//! A change on the node.

use std::fmt::{Debug, Display};

use serde::{Serialize, de::DeserializeOwned};

/// A change on the node that can take itself back.
///
/// It carries the identity by which it knows its own (an index, a PCI address, an owner) and the former
/// values it must restore: what a revert needs is recorded, never derived.
pub trait Change: Serialize + DeserializeOwned + Display + Debug {
    /// What a change is made on.
    type Node: ?Sized;
    /// Why it could not be taken back, or how it differs.
    type Error: Display;

    /// Takes the change back. Succeeds if it is gone already, was never made, or is somebody else's.
    ///
    /// # Errors
    /// What is left; it is tried again by the next DEL or GC.
    fn revert(&self, node: &Self::Node) -> Result<(), Self::Error>;

    /// Looks whether the change is in place as it was made.
    ///
    /// # Errors
    /// How it differs.
    fn verify(&self, node: &Self::Node) -> Result<(), Self::Error>;

    /// Whether the change is in a file of state and so outlives a boot, unlike links, namespaces and devices.
    fn survives_reboot(&self) -> bool {
        false
    }

    /// Whether this change protects the ones noted after it, like the claim of a device: it is not taken
    /// back as long as one of them is left.
    fn revert_last(&self) -> bool {
        false
    }
}
