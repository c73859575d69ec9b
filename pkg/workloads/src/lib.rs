//! Finds the workload of each pod, its top-level owner: a Deployment, a Job, … The source is the Kubernetes API.
//!
//! [`WorkloadWatcher`] watches the metadata of the pods of this node (`pod_watch`), and gets the owner of each pod, the owner
//! of that owner, and so on (`owner_chain`). The results are stored in an `owner_cache`, from which
//! [`exporter::WorkloadResolver`] returns them without waiting.
//!
//! A workload is returned only after each step of its chain was tried, so that a pod is not shown with its ReplicaSet first
//! and with the Deployment later. If a step fails, the last known owner is returned until a retry succeeds. Known owners stay
//! known while the API server is unavailable.
//!
//! Owner references are matched by UID, never by name alone. Any user who can create pods can write them, so they are
//! validated before they become part of a request.

#![forbid(unsafe_code)]

mod api_error;
mod backoff;
mod owner_cache;
mod owner_chain;
mod owner_lookup;
mod owner_ref;
mod pod_watch;
mod rest_mapper;
mod retry_policy;
mod watcher_shared;
mod workload_watcher;

pub use retry_policy::RetryPolicy;
pub use workload_watcher::WorkloadWatcher;
