//! Tests of the communication libraries: nccl-tests for NVIDIA's, `hccl_test` for Ascend's.
//!
//! A [`CollectivePlan`] becomes an `mpirun` command or an MPIJob manifest, and what the programs print becomes a [`BandwidthCurve`]. They need
//! GPUs or NPUs: here are only their command lines and their outputs as they are documented and as others have recorded
//! them.

mod curve;
mod hccl;
mod mpijob;
mod nccl;
mod plan;
mod run;

pub use curve::{BandwidthCurve, CurvePoint};
pub use hccl::parse as parse_hccl;
pub use mpijob::manifest;
pub use nccl::parse as parse_nccl;
pub use plan::{Collective, CollectiveLibrary, CollectivePlan, Host, Image, Variable, size};
pub use run::run;

use crate::{Error, InvalidTestSpec};

/// What a program of a library printed, or its JSON report.
///
/// # Errors
/// [`Error::Unusable`] if there is no result in it.
pub fn parse(
    library: CollectiveLibrary,
    collective: Collective,
    printed: &str,
) -> Result<BandwidthCurve, Error> {
    let points = match library {
        CollectiveLibrary::Nccl => nccl::parse(printed),
        CollectiveLibrary::Hccl => hccl::parse(printed),
    };
    let unusable =
        |why: String| Error::Unusable { program: collective.program(library), why, said: String::new() };
    let points = points.map_err(unusable)?;
    if points.is_empty() {
        return Err(unusable("it printed no result".into()));
    }
    let curve = BandwidthCurve { library, collective, points };
    if curve.has_no_bus() {
        // A process that is alone has no bus: nccl-tests without MPI measure each GPU by itself.
        let why = "the bandwidth of the largest messages is 0; was it built with MPI=1, and did all processes find each other?";
        return Err(unusable(why.into()));
    }
    Ok(curve)
}

fn invalid(value: &str, expected: &'static str) -> InvalidTestSpec {
    InvalidTestSpec::new(value, expected)
}
