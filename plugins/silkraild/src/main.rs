//! `silkraild`: the node's daemon. It tells Prometheus, and people, of every RDMA device and every pod.
//!
//! This file is the table of contents: the options, and what is started. A collection is `pkg/exporter`'s work. There are two
//! processes: the reader, which may look into pods, and the frontend, which has no privileges and talks to the network.

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
/// Serves /metrics for Prometheus, /healthz and /readyz for the kubelet, and / for people, a page that shows what
/// /api/v1/node tells. It changes nothing on the node.
#[derive(Debug, Parser)]
#[command(name = "silkraild", version, after_help = AFTER_HELP)]
struct SilkraildCli {
    /// Where to serve
    #[arg(long, default_value = "0.0.0.0:9879", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Where to serve /healthz and /readyz besides, for probes: clients of the other port are not in their way
    #[arg(long = "health.listen", default_value = "127.0.0.1:9880", value_name = "ADDRESS:PORT")]
    health: SocketAddr,
    /// TLS, client certificates and logins for the first of them, in the form that exporters share; read again when a
    /// file of it changes
    #[arg(long = "web.config.file", value_name = "FILE")]
    web: Option<PathBuf>,
    /// Let in who has a token of the Kubernetes API that may get the path, beside the logins of that file; needs TLS
    #[arg(long = "web.token-review", env = "SILKRAILD_WEB_TOKEN_REVIEW")]
    token_review: bool,
    /// What the node is called in Kubernetes, if not as its host
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,
    /// Where the plugins keep their state
    #[arg(long, default_value = "/run/silkrail", value_name = "DIR")]
    state_dir: PathBuf,
    /// The node's root directory, when run in a container
    #[arg(long, default_value = "/", value_name = "DIR")]
    root: PathBuf,
    /// Read only devices that fit, like mlx5_*; may be given again
    #[arg(long, value_name = "PATTERN")]
    device_include: Vec<String>,
    /// Do not even ask devices that fit; may be given again
    #[arg(long, value_name = "PATTERN")]
    device_exclude: Vec<String>,
    /// Switch a collector on: psn, pid_counters; may be given again
    #[arg(long, value_name = "COLLECTOR")]
    enable: Vec<Collector>,
    /// Switch a collector off; may be given again
    #[arg(long, value_name = "COLLECTOR")]
    disable: Vec<Collector>,
    /// How often packet numbers are read, in seconds: with psn, all packets count up to 15.7 million in this time, for each
    /// queue pair
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    psn_interval: Duration,
    /// With psn, count also with this driver, of which it is not known that it tells packet numbers; may be given again
    #[arg(long, value_name = "DRIVER")]
    psn_driver: Vec<String>,
    /// How long a device may take before the others go on without it, in seconds
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    device_timeout: Duration,
    /// Ask the Kubernetes API which workloads pods belong to
    #[arg(long, env = "SILKRAILD_KUBERNETES", default_value = "auto", value_name = "WHETHER")]
    kubernetes: KubernetesApi,
    /// Also emit the names and labels of another exporter's dashboards
    #[arg(long, value_name = "EXPORTER")]
    compat: Vec<Compat>,
    /// Print the metrics once, and end
    #[arg(long)]
    once: bool,
    /// Write the metrics to a file for node_exporter's textfile collector, and again after each interval
    #[arg(long = "output.textfile", value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// How often that file is written, in seconds
    #[arg(long = "output.interval", default_value = "15", value_name = "SECONDS", value_parser = seconds)]
    interval: Duration,
    /// Serve what the process at the other end of standard input reads
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
on demand psn and pid_counters, for pods that share a device.

psn counts each pod's packets by the packet numbers of its RC and UC queue pairs. It reads them every second, whoever
scrapes: on mlx5 that is a firmware command for each queue pair. Packets of RDMA READ count as sent by whoever reads.
pid_counters shows hardware counters that the kernel bound to processes. Tell it to with `rdma statistic qp set link
mlx5_0/1 auto pid on`, before pods make queue pairs.

To see pods' objects it must run in the node's PID namespace (hostPID: true), and to read devices in pods' namespaces
it needs CAP_SYS_ADMIN. Nothing but the workloads of pods comes from the Kubernetes API; --once does not ask it.

With --web.token-review the API decides who may get a path, by a ClusterRole with nonResourceURLs; silkraild's own account
needs the role system:auth-delegator, and nobody is let in by a token while the API server does not answer.

Examples:
  silkraild --once | grep rdma_port_up
  silkraild --device-exclude 'mlx5_bond_*' --disable ethtool
  silkraild --web.config.file /etc/silkraild/web.yaml
  silkraild --output.textfile /var/lib/node_exporter/rdma.prom --listen 127.0.0.1:9879

Exit status:
  0   done, or told to end by SIGTERM or SIGINT
  1   an error
  2   wrong usage";

/// Threads that encode texts, besides the one that answers and those that collect.
const THREADS: usize = 3;

/// What ends the daemon.
#[derive(Debug, thiserror::Error)]
enum DaemonError {
    #[error(transparent)]
    NodeName(#[from] node_name::UnknownNodeName),
    #[error(transparent)]
    Frontend(#[from] frontend::FrontendError),
    #[error(transparent)]
    Reader(#[from] reader::FrontendProcessError),
    #[error("write the metrics: {0}")]
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
        // Whoever reads has seen enough: `silkraild --once | head -1`.
        Err(DaemonError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // It has said why.
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
    // Not waiting for threads: one may be writing to a disk that hangs.
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
            patience: self.device_timeout,
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
        .without_time() // journald and the container runtime have theirs
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
    fn collectors_are_switched_by_name() {
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
    fn packet_numbers_are_read_each_second_unless_it_is_told_otherwise() {
        let settings = |more: &[&str]| {
            let args = [&["silkraild", "--node-name=n"], more].concat();
            SilkraildCli::try_parse_from(args).unwrap().settings().unwrap()
        };
        let plain = settings(&[]);
        assert_eq!((plain.psn_interval, plain.psn_drivers.len()), (Duration::from_secs(1), 0));
        let told = settings(&["--psn-interval=0.25", "--psn-driver=bnxt_re", "--psn-driver", "qedr"]);
        assert_eq!(
            (told.psn_interval, told.psn_drivers),
            (Duration::from_millis(250), vec!["bnxt_re".into(), "qedr".into()])
        );
    }

    #[test]
    fn a_time_must_make_sense() {
        for bad in ["0", "-1", "NaN", "inf", "x", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
    }
}
