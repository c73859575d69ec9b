//! Runs the programs of perftest and parses their output.
//!
//! Tests have a duration (`-D`), never a fixed number of iterations, with which a fast link is measured for only milliseconds,
//! and a machine whose clock rate cannot be determined prints `inf`, `-nan` or `0.00`. perftest has percentiles of the latency
//! only with a number of iterations (`-n`), so that number is computed from a short test by duration.

mod arguments;
mod child;
mod gpu_memory;
mod json;
mod measurement;
mod run;
mod samples;
mod table;
mod tcp_port;
mod version_cache;

pub(crate) use arguments::{BIND, REPORT};
pub use arguments::{EndRole, PerftestArgs};
pub use child::become_child;
pub use gpu_memory::GpuMemory;
pub use json::parse as parse_json;
pub use measurement::{Bandwidth, Latency, Measurement, UnusableOutput};
pub use run::{Launcher, PerftestProgram, ProgramOutput, RunningProgram};
pub use samples::samples;
pub use table::parse as parse_table;
pub use tcp_port::{free_port, is_listening};
pub use version_cache::VersionCache;

use crate::TestKind;

/// Parses the output of perftest's client: the JSON report if there is one, otherwise the table.
///
/// # Errors
/// [`UnusableOutput`], also for `inf`, `nan` and zero.
pub fn parse(kind: TestKind, printed: &str) -> Result<Measurement, UnusableOutput> {
    let report =
        if printed.contains("test_info") { json::parse(kind, printed) } else { Err(UnusableOutput::Nothing) };
    match report {
        Ok(measurement) => Ok(measurement),
        Err(UnusableOutput::Nothing) => table::parse(kind, printed),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_takes_precedence_and_the_table_is_sufficient() {
        let table = include_str!("../../golden/4.5+0.17/write_bw.txt");
        let json = include_str!("../../golden/25.01.0+0.80/write_bw.report");
        assert_eq!(parse(TestKind::Bandwidth, table).unwrap().iterations, Some(1094));
        assert_eq!(parse(TestKind::Bandwidth, &format!("{json}{table}")).unwrap().iterations, Some(2664));
        let truncated = "{\ntest_info: {\ntest: RDMA_Write_BW_Test,\n";
        assert_eq!(
            parse(TestKind::Bandwidth, &format!("{truncated}{table}")).unwrap().iterations,
            Some(1094)
        );
        assert_eq!(parse(TestKind::Bandwidth, "Killed"), Err(UnusableOutput::Nothing));
    }
}
