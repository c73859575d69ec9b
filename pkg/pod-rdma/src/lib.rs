//! What a pod is told about its RDMA devices: the files `rdma.json` and `nccl.conf`, in a directory that its containers see.
//!
//! The pod map has the devices of each pod. Their GID indexes and NUMA nodes are read when the files are written.

#![forbid(unsafe_code)]

mod directory;
mod nccl;
mod pod_rdma;
mod reading;

pub use directory::{PodDirectory, WriteError};
pub use pod_rdma::{PodGid, PodRdma, PodRdmaDevice, PodRdmaPod};
pub use reading::{PodReader, ReadError};
