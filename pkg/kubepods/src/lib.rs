//! Which pod a process belongs to, and how the pod is called: from files of the node, without the API server.
//!
//! kubelet makes a cgroup for each pod and puts the pod's UID into its name, so `/proc/<pid>/cgroup` tells the UID
//! ([`membership()`], [`Processes`]). It also makes a directory for each pod's logs, whose name has UID, namespace and
//! name ([`PodNames`]). Pods on the host's network are found like all others.
//!
//! Where a cluster has the `rdma` controller enabled, the pod's cgroup also tells how many RDMA objects the pod has
//! ([`PodCgroup`]).
//!
//! Names of cgroups are not trusted: root may name any below its own, and a container's root may be root. What is
//! below a pod's level decides nothing but the container's ID.

#![forbid(unsafe_code)]

mod cgroup;
mod error;
mod membership;
mod names;
mod path;
mod processes;
mod rdma;
mod uid;

pub use cgroup::PodCgroup;
pub use error::Error;
pub use membership::{PodMembership, membership};
pub use names::{PodName, PodNames};
pub use processes::{ProcessOwner, Processes};
pub use rdma::{RdmaLimit, RdmaUsage};
pub use uid::{InvalidPodUid, PodUid};
