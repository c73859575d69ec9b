//! The devices of a request, and the policy for them.

use crate::PciPath;

/// A device that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its ID.
    pub id: String,
    /// The PF that it belongs to, such as its PCI address.
    pub pf: String,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// Where it is.
    pub path: PciPath,
}

/// How the devices of a container are distributed over PFs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PfPolicy {
    /// Evenly over as many PFs as possible: each device has the bandwidth of a port, and a rail of its own.
    #[default]
    Spread,
    /// On as few PFs as possible: others remain free for containers that need many.
    Pack,
}
