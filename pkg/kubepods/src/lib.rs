//! Finds the pod of a process, and the pod's name, from files of the node and without the API server.
//!
//! kubelet creates a cgroup for each pod with the pod's UID in its name, so `/proc/<pid>/cgroup` contains the UID
//! ([`membership()`], [`Processes`]). It also creates a log directory for each pod, named after its namespace, name and UID
//! ([`PodNames`]). Pods with `hostNetwork: true` are found like all others.
//!
//! If the `rdma` controller is enabled, the pod's cgroup also contains the number of its RDMA objects ([`PodCgroup`]).
//!
//! Names of cgroups below a pod's level are not trusted: root in a container can create cgroups with any name there. They
//! determine the container ID, but never the pod.

#![forbid(unsafe_code)]

mod cgroup;
mod ended;
mod error;
mod membership;
mod names;
mod path;
mod processes;
mod rdma;
mod uid;

pub use cgroup::PodCgroup;
pub use ended::ended;
pub use error::Error;
pub use membership::{PodMembership, cgroup_path, membership};
pub use names::{PodName, PodNames};
pub use processes::{ProcessOwner, Processes};
pub use rdma::{RdmaLimit, RdmaUsage};
pub use uid::{InvalidPodUid, PodUid};
