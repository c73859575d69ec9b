//! The output of a library's test program.

use super::{BandwidthCurve, Collective, CollectiveLibrary, hccl, nccl};
use crate::Error;

/// Parses the output of a library's test program, or its JSON report.
///
/// # Errors
/// [`Error::Unusable`] if it contains no result or an invalid one.
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
        |why: String| Error::Unusable { program: collective.program(library), why, output: String::new() };
    let points = points.map_err(unusable)?;
    if points.is_empty() {
        return Err(unusable("no result in the output".into()));
    }
    let curve = BandwidthCurve { library, collective, points };
    if curve.has_no_bus() {
        // A single process has no bus bandwidth: nccl-tests built without MPI measure each GPU on its own.
        let why = "the bus bandwidth of the largest messages is 0; was it built with MPI=1, and did all processes connect?";
        return Err(unusable(why.into()));
    }
    Ok(curve)
}
