//! `silkraild`: the node daemon. It exports the RDMA devices and pods of the node to Prometheus and shows them on a web page.
//!
//! This file contains the options and starts the daemon; `pkg/exporter` does the collections. There are two processes: the
//! reader, which has the privileges to inspect pods, and the frontend, which has no privileges and serves the network.

#![forbid(unsafe_code)]

mod channel;
mod frontend;
mod http;
mod kubernetes_api;
mod node_name;
mod node_view;
mod open_files;
mod page_files;
mod reader;
mod snapshot_client;
mod snapshot_encoding;
mod snapshot_source;
mod textfile;
mod token_review;
mod web_config;

use std::{
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Parser, ValueEnum};
use exporter::{Collector, CollectorSet, DeviceFilter, Exporter, ExporterOptions};
use exposition::ExpositionFormat;
use tokio::signal::unix::{SignalKind, signal};

use crate::{kubernetes_api::KubernetesApi, reader::FrontendHandle, snapshot_source::SnapshotSource};

/// RDMA metrics of this node and of every pod on it
///
/// Serves /metrics for Prometheus, /healthz and /readyz for the kubelet, and a web page at / that shows the data of
/// /api/v1/node. It changes nothing on the node.
#[derive(Debug, Parser)]
#[command(name = "silkraild", version, after_help = AFTER_HELP)]
struct SilkraildCli {
    /// Address on which to serve everything
    #[arg(long, default_value = "0.0.0.0:9879", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Additional address of /healthz and /readyz, for probes: clients of the other port cannot delay them
    #[arg(long = "health.listen", default_value = "127.0.0.1:9880", value_name = "ADDRESS:PORT")]
    health: SocketAddr,
    /// TLS, client certificates and logins for --listen, in the web configuration format of Prometheus exporters;
    /// reloaded when one of its files changes
    #[arg(long = "web.config.file", value_name = "FILE")]
    web: Option<PathBuf>,
    /// Also accept tokens of the Kubernetes API, if the API server allows their users to get the path; requires TLS
    #[arg(long = "web.token-review", env = "SILKRAILD_WEB_TOKEN_REVIEW")]
    token_review: bool,
    /// Name of the node in Kubernetes, if it differs from the hostname
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,
    /// State directory of the plugins
    #[arg(long, default_value = "/run/silkrail", value_name = "DIR")]
    state_dir: PathBuf,
    /// Root directory of the node, if silkraild runs in a container
    #[arg(long, default_value = "/", value_name = "DIR")]
    root: PathBuf,
    /// Read only devices that match the pattern, like mlx5_*; can be repeated
    #[arg(long, value_name = "PATTERN")]
    device_include: Vec<String>,
    /// Send no requests to devices that match the pattern; can be repeated
    #[arg(long, value_name = "PATTERN")]
    device_exclude: Vec<String>,
    /// Enable a collector: psn, pid_counters; can be repeated
    #[arg(long, value_name = "COLLECTOR")]
    enable: Vec<Collector>,
    /// Disable a collector; can be repeated
    #[arg(long, value_name = "COLLECTOR")]
    disable: Vec<Collector>,
    /// Interval at which psn reads packet sequence numbers, in seconds: it counts up to 15.7 million packets per interval
    /// and queue pair
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    psn_interval: Duration,
    /// Use psn with this driver too, although it is not known to report packet sequence numbers; can be repeated
    #[arg(long, value_name = "DRIVER")]
    psn_driver: Vec<String>,
    /// Timeout for reading a device, after which a collection continues without it, in seconds
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    device_timeout: Duration,
    /// Whether to get the workloads of pods from the Kubernetes API
    #[arg(long, env = "SILKRAILD_KUBERNETES", default_value = "auto", value_name = "MODE")]
    kubernetes: KubernetesApi,
    /// Also emit metrics with the names and labels that dashboards of another exporter use
    #[arg(long, value_name = "EXPORTER")]
    compat: Vec<Compat>,
    /// Print the metrics once and exit
    #[arg(long)]
    once: bool,
    /// Write the metrics to a file for node_exporter's textfile collector, at the start and after each interval
    #[arg(long = "output.textfile", value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// Interval between writes of that file, in seconds
    #[arg(long = "output.interval", default_value = "15", value_name = "SECONDS", value_parser = seconds)]
    interval: Duration,
    /// Serve the snapshots of the process at the other end of standard input
    #[arg(long, hide = true)]
    frontend: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compat {
    /// Spiderpool's RDMA exporter
    Spiderpool,
}

const AFTER_HELP: &str = "\
Collectors: mode devices ports hw_counters counters ethtool gids resources pods owners cgroup;
disabled by default: psn and pid_counters, for pods that share a device.

psn counts the packets of each pod by the packet sequence numbers of its RC and UC queue pairs. It reads them every
second, independently of scrapes: on mlx5 this takes one firmware command per queue pair. Packets of RDMA READ count as
sent by the pod that reads. pid_counters shows hardware counters that the kernel has bound to processes; enable this with
`rdma statistic qp set link mlx5_0/1 auto pid on` before pods create queue pairs.

To attribute RDMA objects to pods, silkraild must run in the node's PID namespace (hostPID: true). To read devices in the
network namespaces of pods, it needs CAP_SYS_ADMIN. It gets only the workloads of pods from the Kubernetes API; --once does
not use the API.

With --web.token-review, the API server authorizes each path by ClusterRoles with nonResourceURLs. The service account of
silkraild needs the role system:auth-delegator. While the API server does not respond, silkraild accepts no new tokens.

Examples:
  silkraild --once | grep rdma_port_up
  silkraild --device-exclude 'mlx5_bond_*' --disable ethtool
  silkraild --web.config.file /etc/silkraild/web.yaml
  silkraild --output.textfile /var/lib/node_exporter/rdma.prom --listen 127.0.0.1:9879

Exit status:
  0   success, or terminated by SIGTERM or SIGINT
  1   an error
  2   wrong usage";

/// Threads that encode snapshots, in addition to the main thread and those that collect.
const THREADS: usize = 3;

/// Why the daemon exits with an error.
#[derive(Debug, thiserror::Error)]
enum DaemonError {
    #[error(transparent)]
    NodeName(#[from] node_name::UnknownNodeName),
    #[error(transparent)]
    Frontend(#[from] frontend::FrontendError),
    #[error(transparent)]
    Reader(#[from] reader::FrontendProcessError),
    #[error("failed to write the metrics: {0}")]
    Output(io::Error),
    #[error(transparent)]
    TextFile(#[from] textfile::TextfileError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn main() -> ExitCode {
    let cli = SilkraildCli::parse();
    log_to_stderr();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the pipe has exited: `silkraild --once | head -1`.
        Err(DaemonError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // The frontend has reported its error.
        Err(DaemonError::Reader(reader::FrontendProcessError::Ended(status)))
            if status.code().is_some_and(|code| code > 0) =>
        {
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("silkraild: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &SilkraildCli) -> Result<(), DaemonError> {
    if cli.frontend {
        return Ok(frontend::run(cli)?);
    }
    let mut settings = ExporterOptions { kept_files: open_files::allow_many(), ..cli.settings()? };
    if cli.once {
        let owners = kubernetes_api::none(&mut settings);
        return print_once(Exporter::new(settings, owners));
    }
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(THREADS).build()?;
    let end = runtime.block_on(serve(cli, settings));
    // Do not wait for threads: one may be writing to a disk that hangs.
    runtime.shutdown_background();
    end
}

fn print_once(mut exporter: Exporter) -> Result<(), DaemonError> {
    let report = exporter.collect();
    let text = report.exposition.encode(ExpositionFormat::Text);
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(DaemonError::Output)
}

async fn serve(cli: &SilkraildCli, settings: ExporterOptions) -> Result<(), DaemonError> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        end = read(cli, settings) => end,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn read(cli: &SilkraildCli, mut settings: ExporterOptions) -> Result<(), DaemonError> {
    let owners = kubernetes_api::find(cli.kubernetes, &mut settings).await;
    let frontend = FrontendHandle::start().await?;
    let source = SnapshotSource::start(Exporter::new(settings, owners), frontend.first().web);
    let textfile = async {
        match &cli.textfile {
            Some(path) => textfile::write_periodically(path, cli.interval, &source).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        end = frontend.serve(&source) => Ok(end?),
        result = textfile => Ok(result?),
    }
}

impl SilkraildCli {
    fn settings(&self) -> Result<ExporterOptions, DaemonError> {
        let collectors = self.enable.iter().fold(CollectorSet::default(), |all, more| all.with(*more));
        let collectors = self.disable.iter().fold(collectors, |all, less| all.without(*less));
        let devices =
            DeviceFilter { include: self.device_include.clone(), exclude: self.device_exclude.clone() };
        Ok(ExporterOptions {
            node: node_name::of(self.node_name.as_deref())?,
            root: self.root.clone(),
            state_dir: self.state_dir.clone(),
            collectors,
            devices,
            device_timeout: self.device_timeout,
            kept_files: 0,
            psn_interval: self.psn_interval,
            psn_drivers: self.psn_driver.clone(),
            spiderpool: self.compat.contains(&Compat::Spiderpool),
        })
    }
}

fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .without_time() // journald and the container runtime add their own
        .init();
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86400.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("{text:?}: expected a number of seconds above 0 and up to 86400")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        SilkraildCli::command().debug_assert();
    }

    #[test]
    fn collectors_are_enabled_and_disabled_by_name() {
        let cli =
            SilkraildCli::try_parse_from(["silkraild", "--enable=psn", "--disable=gids", "--node-name=n"])
                .unwrap();
        let collectors = cli.settings().unwrap().collectors;
        assert!(collectors.has(Collector::Psn) && !collectors.has(Collector::Gids));
        assert!(collectors.has(Collector::Ports));
        let wrong = SilkraildCli::try_parse_from(["silkraild", "--enable=infiniband"]).unwrap_err();
        assert!(wrong.to_string().contains("expected one of mode, devices"), "{wrong}");
        assert_eq!(wrong.exit_code(), 2);
    }

    #[test]
    fn packet_numbers_are_read_each_second_by_default() {
        let settings = |more: &[&str]| {
            let args = [&["silkraild", "--node-name=n"], more].concat();
            SilkraildCli::try_parse_from(args).unwrap().settings().unwrap()
        };
        let plain = settings(&[]);
        assert_eq!((plain.psn_interval, plain.psn_drivers.len()), (Duration::from_secs(1), 0));
        let changed = settings(&["--psn-interval=0.25", "--psn-driver=bnxt_re", "--psn-driver", "qedr"]);
        assert_eq!(
            (changed.psn_interval, changed.psn_drivers),
            (Duration::from_millis(250), vec!["bnxt_re".into(), "qedr".into()])
        );
    }

    #[test]
    fn a_time_must_be_positive_and_at_most_a_day() {
        for bad in ["0", "-1", "NaN", "inf", "x", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
    }
}
