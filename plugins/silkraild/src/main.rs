//! `silkraild`: the node daemon. It exports the RDMA devices and pods of the node to Prometheus and shows them on a web page.
//!
//! This file starts the daemon; `pkg/exporter` does the collections. There are three processes: the reader, which has the
//! privileges to inspect pods and changes nothing, the frontend, which serves the network, and the writer, which writes files and
//! serves the kubelet. The latter two have no privileges.

#![forbid(unsafe_code)]

mod channel;
mod child;
mod cli;
mod cluster_pools;
mod config_file;
mod device_plugin;
mod frontend;
mod http;
mod kubernetes_api;
mod log;
mod networks;
mod node_condition;
mod node_name;
mod node_view;
mod open_files;
mod page_files;
mod reader;
mod release_node;
mod seccomp;
mod seconds;
mod snapshot_client;
mod snapshot_encoding;
mod snapshot_source;
mod textfile;
mod token_review;
mod web_config;
mod writer;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use clap::CommandFactory;
use exporter::{CounterSink, Exporter, ExporterOptions};
use exposition::ExpositionFormat;
use manual_pages::ManualSection;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    channel::WrittenFile,
    cli::{SilkraildCli, SilkraildCommand},
    config_file::Options,
    reader::{FrontendHandle, WriterHandle},
    snapshot_source::SnapshotSource,
};

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
    Reader(#[from] reader::ChildProcessError),
    #[error(transparent)]
    Writer(#[from] writer::WriterError),
    #[error(transparent)]
    Syscalls(#[from] seccomp::SeccompError),
    #[error("failed to write the metrics: {0}")]
    Output(io::Error),
    #[error(transparent)]
    ReleaseNode(#[from] release_node::ReleaseError),
    #[error(transparent)]
    ClusterPools(#[from] cluster_pools::ClusterPoolsError),
    #[error(transparent)]
    ManualPage(#[from] manual_pages::WriteError),
    #[error(transparent)]
    Check(#[from] config_file::CheckError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn main() -> ExitCode {
    let options = match Options::read(env::args_os().collect()) {
        Ok(options) => options,
        Err(failure) => return failure.report(),
    };
    options.cli.log.start();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the pipe has exited: `silkraild --once | head -1`.
        Err(DaemonError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // The frontend or the writer has reported its error.
        Err(DaemonError::Reader(reader::ChildProcessError::Ended(_, status)))
            if status.code().is_some_and(|code| code > 0) =>
        {
            ExitCode::FAILURE
        }
        Err(failure) => {
            options.cli.log.failure(&failure.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), DaemonError> {
    let cli = &options.cli;
    match &cli.command {
        Some(SilkraildCommand::Ipam(args)) => return Ok(cluster_pools::run_agent(args)?),
        Some(SilkraildCommand::IpamController(args)) => return Ok(cluster_pools::run_controller(args)?),
        Some(SilkraildCommand::Networks(args)) => return Ok(networks::run(args)?),
        Some(SilkraildCommand::IpamReleaseNode(args)) => return Ok(release_node::run(args)?),
        Some(SilkraildCommand::Man(args)) => {
            return Ok(manual_pages::write(SilkraildCli::command(), ManualSection::Daemons, &args.dir)?);
        }
        None => {}
    }
    if cli.config_check {
        let text = options.checked()?;
        return io::stdout().lock().write_all(text.as_bytes()).map_err(DaemonError::Output);
    }
    if cli.frontend {
        return Ok(frontend::run(cli)?);
    }
    if cli.writer {
        return Ok(writer::run(cli)?);
    }
    let mut settings = ExporterOptions { kept_files: open_files::allow_many(), ..cli.settings()? };
    if cli.once {
        let owners = kubernetes_api::none(&mut settings);
        return print_once(Exporter::new(settings, owners));
    }
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(THREADS).build()?;
    let end = runtime.block_on(serve(options, settings));
    // Do not wait for threads: one may be waiting for a device that hangs.
    runtime.shutdown_background();
    end
}

fn print_once(mut exporter: Exporter) -> Result<(), DaemonError> {
    let report = exporter.collect();
    let text = report.exposition.encode(ExpositionFormat::Text);
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(DaemonError::Output)
}

async fn serve(options: &Options, settings: ExporterOptions) -> Result<(), DaemonError> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut writer = WriterHandle::start(&options.arguments).await?;
    let end = tokio::select! {
        end = read(options, settings, &mut writer) => end,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    writer.end();
    end
}

async fn read(
    options: &Options,
    mut settings: ExporterOptions,
    writer: &mut WriterHandle,
) -> Result<(), DaemonError> {
    let Options { cli, arguments, .. } = options;
    let condition = node_condition::keep(cli.node_condition, &settings);
    let owners = kubernetes_api::find(cli.kubernetes, &mut settings).await;
    let frontend = FrontendHandle::start(arguments).await?;
    // No client and no pod was read yet.
    reader::syscalls::deny([frontend.pid(), writer.pid()])?;
    let (files, health) = (writer.sender(), settings.resources.clone());
    let counters = files.clone();
    settings.counter_sink = Some(CounterSink::new(move |text| counters.send(WrittenFile::Counters, text)));
    let source = SnapshotSource::start(Exporter::new(settings, owners), frontend.first().web);
    let textfile = async {
        match &cli.textfile {
            Some(_) => textfile::send_periodically(cli.interval, &source, &files).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        end = frontend.serve(&source) => Ok(end?),
        error = writer.serve(&health) => Err(error.into()),
        never = textfile => match never {},
        never = condition => match never {},
    }
}
