//! Measures a macvlan ADD with IPAM: the floor, our plugins and the Go plugins, in one run.
//!
//! `hack/bench` builds the measured programs and starts this one in private namespaces.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the program prints its results")]

mod contender;
mod ipam_store;
mod report;

use std::{env, error::Error, path::PathBuf, process::ExitCode, thread, time::Duration};

use bench::race::race;

use crate::{contender::MeasuredProgram, report::BenchReport};

/// The arguments of the command line.
struct BenchArgs {
    /// The directory of our plugins.
    ours: PathBuf,
    /// The path of `hack/bench.d/floor.c`, compiled.
    floor: PathBuf,
    /// The directories of other builds of our plugins.
    against: Vec<PathBuf>,
    rounds: usize,
    json: bool,
    check: bool,
}

/// Numbers of addresses in use: in a store that is nearly empty, and in one that is not.
const FEW: u32 = 10;
const MANY: u32 = 100_000;

/// Numbers of pool files that are compared.
const POOL_FILES: [u32; 2] = [1, 200];
/// Every ADD rereads a directory that was changed recently.
const SETTLED: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the measurements. Returns whether the check passes, or true without `--check`.
fn run() -> Result<bool, Box<dyn Error>> {
    let options = BenchArgs::read()?;
    let mut report = BenchReport::new(options.rounds);

    let mut runners = vec![
        MeasuredProgram::floor(&options.floor),
        MeasuredProgram::ours("silkrail", &options.ours)?,
        MeasuredProgram::go()?,
    ];
    for dir in &options.against {
        runners.push(MeasuredProgram::ours(&dir.display().to_string(), dir)?);
    }
    report.macvlan(&race(&mut runners, options.rounds)?);
    for runner in &mut runners {
        let count = runner.syscalls()?;
        report.syscalls(&runner.name, count);
    }

    let mut nodes = [
        MeasuredProgram::ours("few addresses, few links", &options.ours)?,
        MeasuredProgram::ours_in_a_crowd(&options.ours)?,
    ];
    report.crowd(&race(&mut nodes, options.rounds)?);

    let mut ours = Vec::new();
    for taken in [FEW, MANY] {
        ours.push(MeasuredProgram::our_ipam(&options.ours, taken)?);
    }
    report.ipam("silkrail-ipam", &race(&mut ours, options.rounds)?);
    let mut go = Vec::new();
    for taken in [FEW, MANY] {
        go.push(MeasuredProgram::host_local(taken)?);
    }
    // host-local reads every claim in every ADD, so fewer rounds are enough.
    report.ipam("host-local", &race(&mut go, (options.rounds / 50).max(3))?);

    let mut pools = Vec::new();
    for files in POOL_FILES {
        pools.push(MeasuredProgram::our_pools(&options.ours, files)?);
    }
    thread::sleep(SETTLED);
    report.pool_files(&race(&mut pools, options.rounds)?);

    report.sizes(&options.ours)?;
    if options.json {
        println!("{:#}", report.json());
    } else {
        print!("{report}");
    }
    Ok(!options.check || report.holds())
}

impl BenchArgs {
    fn read() -> Result<Self, Box<dyn Error>> {
        let mut arguments = env::args().skip(1);
        let mut path = |what| arguments.next().map(PathBuf::from).ok_or(format!("missing: {what}"));
        let (ours, floor) = (path("the directory of our plugins")?, path("the floor")?);
        let mut options = Self { ours, floor, against: Vec::new(), rounds: 200, json: false, check: false };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => options.json = true,
                "--check" => options.check = true,
                "--against" => {
                    options.against.push(arguments.next().ok_or("--against requires a directory")?.into())
                }
                "--rounds" => {
                    options.rounds = arguments.next().ok_or("--rounds requires a number")?.parse()?
                }
                other => return Err(format!("unknown argument {other}; see hack/bench --help").into()),
            }
        }
        Ok(options)
    }
}
