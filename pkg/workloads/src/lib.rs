//! Which workload a pod belongs to: the Deployment, the Job, whatever is at the top. The Kubernetes API tells.
//!
//! [`kubeapi::connect`] finds the API server, if there is one. [`WorkloadWatcher`] then watches the pods of this node (`pod_watch`), only
//! their metadata, and asks for the owner of each, for that owner's owner, and so on (`owner_chain`). What it learns is kept
//! in a `owner_cache`, from which [`exporter::WorkloadResolver`] is answered without waiting.
//!
//! An owner is told once each step up to it has been tried, so that nobody sees a ReplicaSet first and then its
//! Deployment. A step that fails ends the way for now: the last owner that is known is the answer. What is known stays
//! known while the API server is away.
//!
//! References are believed by UID, never by name alone. They are written by whoever may make a pod, so they are
//! checked before they become part of a request.

#![forbid(unsafe_code)]

mod api_error;
mod backoff;
mod owner_cache;
mod owner_chain;
mod owner_lookup;
mod owner_ref;
mod pod_watch;
mod rest_mapper;
mod workload_watcher;

pub use workload_watcher::{RetryPolicy, WorkloadWatcher};
