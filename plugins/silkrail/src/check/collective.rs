//! `silkrail check nccl` and `silkrail check hccl`: tests of the communication libraries.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use check::{
    Seconds,
    collective::{
        BandwidthCurve, Collective, CollectiveLibrary, CollectivePlan, Host, Image, JobKind, JobOptions,
        MpirunOption, NetworkName, ResourceAmount, Variable, manifest, parse, run, size,
    },
};
use serde::Serialize;

use super::{local_context::local_context, measure};
use crate::{
    exit::{CommandError, CommandExit},
    json, table,
};

/// Plan or run a test of NCCL (nccl-tests), or parse its output
///
/// Without --run the command prints the mpirun command line, with --kind the manifest of a job in a cluster, and runs nothing.
/// With --parse it reads the output of a test, or the report of its option -J.
///
/// Each worker of a job sets the variables of /run/silkrail/pod/nccl.conf that --env does not set: silkraild's device plugin
/// writes this file to each container, with the devices that it got. NCCL_NET=IB makes the test fail instead of measuring TCP.
#[derive(Debug, clap::Args)]
#[command(after_help = NCCL_EXAMPLES)]
pub(crate) struct Nccl {
    #[command(flatten)]
    common: CollectiveArgs,
}

/// Plan or run a test of HCCL (hccl_test), or parse its output
///
/// Without --run the command prints the mpirun command line, with --kind the manifest of a job in a cluster, and runs nothing.
/// With --parse it reads the output of a test.
#[derive(Debug, clap::Args)]
#[command(after_help = HCCL_EXAMPLES)]
pub(crate) struct Hccl {
    #[command(flatten)]
    common: CollectiveArgs,
}

#[derive(Debug, clap::Args)]
struct CollectiveArgs {
    /// The nodes, separated by commas
    #[arg(long, value_delimiter = ',', required_unless_present_any = ["parse", "workers"], value_name = "HOST,...")]
    hosts: Vec<Host>,
    /// Processes per node: one for each GPU or NPU
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u16).range(1..=64), value_name = "N")]
    per_node: u16,
    /// The operation: all_reduce, all_gather, reduce_scatter, alltoall or broadcast
    #[arg(long, default_value = "all_reduce")]
    op: Collective,
    /// The smallest message size; suffixes K, M and G
    #[arg(long, default_value = "8M", value_parser = size, value_name = "BYTES")]
    first: u64,
    /// The largest message size; suffixes K, M and G
    #[arg(long, default_value = "1G", value_parser = size, value_name = "BYTES")]
    last: u64,
    /// The directory of the test programs on the nodes; default: PATH
    #[arg(long, value_name = "DIR")]
    programs: Option<Image>,
    /// An environment variable for the processes, like NCCL_IB_GID_INDEX=3; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<Variable>,
    #[command(flatten)]
    job: JobArgs,
    /// Run the test with the mpirun of this machine
    #[arg(long, conflicts_with = "kind")]
    run: bool,
    /// Parse the output of a test; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "kind", "hosts"])]
    parse: Option<PathBuf>,
    /// Timeout of the test, in seconds
    #[arg(long, default_value = "1800", value_parser = measure::seconds, value_name = "SECONDS")]
    timeout: Seconds,
    /// Minimum bandwidth for the largest messages, in GB/s: bus bandwidth for NCCL, algorithm bandwidth for HCCL
    #[arg(long, value_parser = measure::positive, value_name = "GB/S")]
    min_gbs: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Further options of mpirun
    #[arg(last = true, value_name = "MPIRUN-OPTION")]
    mpirun: Vec<MpirunOption>,
}

/// The job in a cluster.
#[derive(Debug, clap::Args)]
struct JobArgs {
    /// Print the manifest of a job: mpijob (MPI Operator), volcano, or pods (without an operator)
    #[arg(long, value_name = "KIND", requires_all = ["image", "rdma_resource"])]
    kind: Option<JobKind>,
    /// The image of the job: the test programs, MPI, and an SSH server and client
    #[arg(long, value_name = "IMAGE", requires = "kind")]
    image: Option<Image>,
    /// The number of workers of the job, instead of --hosts: the scheduler selects the nodes
    #[arg(long, value_name = "N", requires = "kind", conflicts_with = "hosts", value_parser = clap::value_parser!(u16).range(1..=4096))]
    workers: Option<u16>,
    /// The RDMA devices of each worker, like spidernet.io/mellanoxrdma=8; repeatable
    #[arg(long, value_delimiter = ',', value_name = "RESOURCE[=N],...", requires = "kind")]
    rdma_resource: Vec<ResourceAmount>,
    /// The networks of each worker, one for each rail; default: only the cluster's
    #[arg(long, value_delimiter = ',', value_name = "[NAMESPACE/]NAME,...", requires = "kind")]
    network: Vec<NetworkName>,
    /// The resource of a GPU or NPU, of which a worker has --per-node; default: nvidia.com/gpu, huawei.com/Ascend910
    #[arg(long, value_name = "RESOURCE", requires = "kind")]
    gpu_resource: Option<ResourceAmount>,
    /// The size of /dev/shm of each worker, in GiB
    #[arg(long, default_value = "32", value_name = "GIB", value_parser = clap::value_parser!(u16).range(1..=1024))]
    shm: u16,
    /// The name of the job
    #[arg(long, default_value = "silkrail-check", value_name = "NAME")]
    name: Host,
    /// The namespace of the job; default: that of kubectl
    #[arg(long, value_name = "NAMESPACE", requires = "kind")]
    namespace: Option<Host>,
}

impl JobArgs {
    /// Returns the options of the job, if a manifest is requested.
    fn options(&self) -> Option<JobOptions> {
        Some(JobOptions {
            kind: self.kind?,
            image: self.image.clone()?,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            networks: self.network.clone(),
            rdma: self.rdma_resource.clone(),
            accelerator: self.gpu_resource.clone(),
            shared_memory_gib: self.shm,
        })
    }
}

const NCCL_EXAMPLES: &str = "\
Examples:
  silkrail check nccl --hosts 10.1.30.41,10.1.30.42 --env NCCL_IB_GID_INDEX=3 --programs /opt/nccl-tests/build
  silkrail check nccl --kind mpijob --workers 2 --image registry/nccl-tests:v2.13 --rdma-resource spidernet.io/mellanoxrdma=2 \\
    --network kube-system/rail0,kube-system/rail1 -- --mca btl_tcp_if_include eth0 | kubectl create -f -
  kubectl logs -l training.kubeflow.org/job-role=launcher | silkrail check nccl --parse - --min-gbs 180
  silkrail check nccl --parse log.txt --min-gbs 180

Jobs of the kind pods need a Secret with an SSH key pair:
  ssh-keygen -q -t ed25519 -N '' -f key; kubectl create secret generic silkrail-check-ssh --from-file=key --from-file=key.pub

Exit status:
  0   done
  1   an error: no result
  2   wrong usage
  6   incorrect data, or below --min-gbs";

const HCCL_EXAMPLES: &str = "\
Examples:
  silkrail check hccl --hosts 10.1.30.41,10.1.30.42 --op all_gather --first 8K --last 64M
  silkrail check hccl --parse log.txt

Exit status:
  0   done
  1   an error: no result
  2   wrong usage
  6   incorrect data, or below --min-gbs";

/// The JSON output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CurveReport<'a> {
    #[serde(flatten)]
    curve: &'a BandwidthCurve,
    plateau_gbs: f64,
}

const TABLE_HEADER: [&str; 5] = ["SIZE", "TIME-US", "ALGORITHM-GB/S", "BUS-GB/S", "DATA"];

/// Maximum size of a test's output.
const MAX_TEST_LOG_BYTES: u64 = 64 << 20;

impl Nccl {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        self.common.run(CollectiveLibrary::Nccl, root, out)
    }
}

impl Hccl {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        self.common.run(CollectiveLibrary::Hccl, root, out)
    }
}

impl CollectiveArgs {
    fn run(
        &self,
        library: CollectiveLibrary,
        root: &Path,
        out: &mut dyn Write,
    ) -> Result<CommandExit, CommandError> {
        if let Some(file) = &self.parse {
            return self.judged(&parse(library, self.op, &text(file)?)?, out);
        }
        let plan = self.plan(library);
        if let Some(options) = self.job.options() {
            write!(out, "{}", manifest(&plan, &options))?;
            return Ok(CommandExit::Done);
        }
        if !self.run {
            writeln!(out, "{}", plan.command())?;
            return Ok(CommandExit::Done);
        }
        let node = local_context(root)?;
        let within = Duration::from_secs(self.timeout.get().into());
        self.judged(&run(&plan, &node, within)?, out)
    }

    fn plan(&self, library: CollectiveLibrary) -> CollectivePlan {
        CollectivePlan {
            library,
            collective: self.op,
            // The scheduler selects the nodes of a job: only their number matters.
            hosts: self
                .job
                .workers
                .map_or_else(|| self.hosts.clone(), |workers| vec![self.job.name.clone(); workers.into()]),
            per_node: self.per_node,
            first: self.first.min(self.last),
            last: self.last,
            directory: self.programs.clone(),
            environment: self.env.clone(),
            mpirun_options: self.mpirun.clone(),
        }
    }

    fn judged(&self, curve: &BandwidthCurve, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let plateau = curve.plateau_gbs();
        let low = self.min_gbs.is_some_and(|least| plateau < least);
        if self.json {
            json::print(&CurveReport { curve, plateau_gbs: plateau }, out)?;
        } else {
            table::print(out, TABLE_HEADER, &curve.points.iter().map(cells).collect::<Vec<_>>())?;
            writeln!(out, "plateau: {plateau:.2} GB/s{}", if low { ", below the threshold" } else { "" })?;
            if curve.is_wrong() {
                writeln!(out, "incorrect data")?;
            }
        }
        Ok(if low || curve.is_wrong() { CommandExit::Found } else { CommandExit::Done })
    }
}

fn cells(point: &check::collective::CurvePoint) -> [String; TABLE_HEADER.len()] {
    let data = match point.correct {
        Some(true) => "correct",
        Some(false) => "INCORRECT",
        None => "",
    };
    [
        point.size.to_string(),
        format!("{:.1}", point.time_us),
        format!("{:.2}", point.algorithm_gbs),
        point.bus_gbs.map(|gbs| format!("{gbs:.2}")).unwrap_or_default(),
        data.to_owned(),
    ]
}

fn text(file: &Path) -> Result<String, CommandError> {
    let mut text = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().take(MAX_TEST_LOG_BYTES).read_to_end(&mut text)
    } else {
        fs::File::open(file).and_then(|file| file.take(MAX_TEST_LOG_BYTES).read_to_end(&mut text))
    };
    read.map_err(|source| check::Error::Io { what: format!("read {}", file.display()), source })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: CollectiveArgs,
    }

    fn args(text: &str) -> CollectiveArgs {
        Program::parse_from(["nccl"].into_iter().chain(text.split_ascii_whitespace())).args
    }

    /// Lines of nccl-tests, with the number of wrong values.
    fn judged(more: &str, wrong: &str) -> (CommandExit, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = |size: u64, bus: &str, wrong: &str| {
            format!("{size} 8 float sum -1 2100.5 15.97 {bus} {wrong} 2090.4 16.05 30.10 0\n")
        };
        let text = [line(33_554_432, "29.95", wrong), line(67_108_864, "40.00", "0")].concat();
        fs::write(file.path(), text).unwrap();
        let mut out = Vec::new();
        let args = args(&format!("--parse {} {more}", file.path().display()));
        let exit = args.run(CollectiveLibrary::Nccl, Path::new("/"), &mut out).unwrap();
        (exit, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_low_bandwidth_and_wrong_data_are_problems() {
        let (exit, text) = judged("", "0");
        assert_eq!(exit, CommandExit::Done);
        assert!(text.ends_with("plateau: 40.00 GB/s\n"), "{text}");
        assert_eq!(judged("--min-gbs 40", "0").0, CommandExit::Done);
        let (exit, text) = judged("--min-gbs 40.5", "0");
        assert!(exit == CommandExit::Found && text.ends_with(", below the threshold\n"), "{text}");
        for more in ["", "--json", "--min-gbs 1"] {
            assert_eq!(judged(more, "3").0, CommandExit::Found, "{more}");
        }
        assert!(judged("", "3").1.ends_with("\nincorrect data\n"));
    }

    #[test]
    fn the_sizes_and_the_hosts_of_a_plan_are_those_of_the_options() {
        let plan = args("--hosts a,b --first 64M --last 8M --per-node 4").plan(CollectiveLibrary::Nccl);
        assert_eq!((plan.first, plan.last, plan.per_node, plan.hosts.len()), (8 << 20, 8 << 20, 4, 2));
        let job = args("--kind mpijob --image i --rdma-resource a/b=1 --workers 3");
        assert_eq!(job.plan(CollectiveLibrary::Nccl).hosts.len(), 3);
    }
}
