//! Tests of the communication libraries: nccl-tests for NVIDIA's, `hccl_test` for Ascend's.
//!
//! A [`CollectivePlan`] becomes an `mpirun` command or the [manifest](manifest()) of a job, and the output of the programs becomes a
//! [`BandwidthCurve`]. The programs need GPUs or NPUs. The command lines and the output formats here follow their
//! documentation and published logs.

mod curve;
mod hccl;
mod job_options;
mod manifest;
mod nccl;
mod output;
mod plan;
mod pod_template;
mod run;
mod script;
mod yaml_text;

pub use curve::{BandwidthCurve, CurvePoint};
pub use hccl::parse as parse_hccl;
pub use job_options::{JobKind, JobOptions, NetworkName, ResourceAmount};
pub use manifest::manifest;
pub use nccl::parse as parse_nccl;
pub use output::parse;
pub use plan::{Collective, CollectiveLibrary, CollectivePlan, Host, Image, MpirunOption, Variable, size};
pub use run::run;
