//! The writer: writes the files of the daemon and serves the device plugin, in a process without capabilities. With a device plugin it
//! keeps those with which it reads the namespaces of pods.
//!
//! The reader, which has capabilities, opens files only for reading. What it sends is written as it is.

mod textfile;

use std::{convert::Infallible, ffi::CStr, io, os::unix::net, path::PathBuf};

use caps::Capability;
use exporter::ResourceHealth;
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    select,
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::spawn_blocking,
};

use crate::{
    channel::{FileText, HealthReport, WrittenFile, read_body, read_message, write_message},
    child::{self, parent, privileges},
    cli::SilkraildCli,
    device_plugin::{DevicePlugin, DevicePluginError},
    node_name,
};

/// The option that starts this program as the writer. Only the reader passes it.
pub(crate) const OPTION: &str = "--writer";

/// The process name that `ps` shows.
const NAME: &CStr = c"silkraild-write";

/// Threads that write: one for each file.
const THREADS: usize = 2;

/// Why the writer exits with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriterError {
    #[error(transparent)]
    Parent(#[from] parent::Error),
    #[error("failed to drop privileges: {0}")]
    Privileges(#[from] privileges::DropPrivilegesError),
    #[error("{OPTION} is internal to silkraild: expected a socket as standard input")]
    NoSocket,
    #[error(transparent)]
    NodeName(#[from] node_name::UnknownNodeName),
    #[error(transparent)]
    TextFile(#[from] textfile::TextfileError),
    #[error(transparent)]
    DevicePlugin(#[from] DevicePluginError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Writes and serves until the reader exits.
///
/// # Errors
/// [`WriterError`]: privileges cannot be dropped, the text file cannot be written, or the device plugin fails.
pub(crate) fn run(cli: &SilkraildCli) -> Result<(), WriterError> {
    // The device plugin reads the GIDs of a pod's device in the namespace of the pod (`rdma.json`).
    const OF_NAMESPACES: [Capability; 3] =
        [Capability::CAP_SYS_ADMIN, Capability::CAP_DAC_READ_SEARCH, Capability::CAP_SYS_PTRACE];
    let needed: &[_] = if cli.device_plugin.is_empty() { &[] } else { &OF_NAMESPACES };
    privileges::drop_all_but(NAME, needed)?;
    let stream = child::socket()?.ok_or(WriterError::NoSocket)?;
    parent::end_with(&stream)?;
    let settings = cli.settings()?;
    let (sender, health) = watch::channel(Vec::new());
    let names = cli.resource_names(&settings.node);
    let mut devices = DevicePlugin::start(&cli.device_plugin, names, cli.device_plugin_options(sender))?;
    let files = DaemonFiles { textfile: cli.textfile.clone(), counters: settings.counter_file };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(THREADS).build()?;
    let end = runtime.block_on(serve(stream, &files, devices.as_mut(), health));
    if let Some(devices) = devices {
        devices.end();
    }
    // Do not wait for threads: one may be writing to a disk that hangs.
    runtime.shutdown_background();
    end
}

/// The files that the reader has written.
struct DaemonFiles {
    textfile: Option<PathBuf>,
    counters: Option<PathBuf>,
}

async fn serve(
    stream: net::UnixStream,
    files: &DaemonFiles,
    devices: Option<&mut DevicePlugin>,
    health: watch::Receiver<Vec<ResourceHealth>>,
) -> Result<(), WriterError> {
    // The writer exits with the reader. SIGTERM may be sent to both.
    let _ignored = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (requests, reports) = UnixStream::from_std(stream)?.into_split();
    let (sender, texts) = watch::channel(Vec::new());
    let (counter_sender, counters) = watch::channel(Vec::new());
    let failure = async {
        match devices {
            Some(devices) => devices.failure().await,
            None => std::future::pending().await,
        }
    };
    let write = async {
        match &files.textfile {
            Some(path) => textfile::write(path, texts).await,
            None => std::future::pending().await,
        }
    };
    select! {
        end = receive(requests, &sender, &counter_sender) => match end {
            // The reader has exited.
            Err(e) if [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset].contains(&e.kind()) => Ok(()),
            end => Ok(end?),
        },
        end = report(reports, health) => Ok(end?),
        end = write => Ok(end?),
        never = save_counters(files.counters.clone(), counters) => match never {},
        error = failure => Err(DevicePluginError::Serving(error).into()),
    }
}

/// Passes the content of files on, of which only the latest matters.
async fn receive(
    mut requests: OwnedReadHalf,
    textfile: &watch::Sender<Vec<u8>>,
    counters: &watch::Sender<Vec<u8>>,
) -> io::Result<()> {
    loop {
        let FileText { file, length } = read_message(&mut requests).await?;
        let text = read_body(&mut requests, length).await?;
        match file {
            WrittenFile::Textfile => textfile.send_replace(text),
            WrittenFile::Counters => counters.send_replace(text),
        };
    }
}

/// Reports the health of the devices now and after each change. The first report tells the reader that the writer is ready.
async fn report(
    mut reports: OwnedWriteHalf,
    mut health: watch::Receiver<Vec<ResourceHealth>>,
) -> io::Result<()> {
    loop {
        let body = serde_json::to_vec(&*health.borrow_and_update())?;
        write_message(&mut reports, &HealthReport { length: body.len() }, &body).await?;
        if health.changed().await.is_err() {
            // There is no device plugin.
            std::future::pending::<()>().await;
        }
    }
}

/// Saves the counters each time that the reader sends them. An error is logged once.
async fn save_counters(path: Option<PathBuf>, mut texts: watch::Receiver<Vec<u8>>) -> Infallible {
    let mut former = None;
    loop {
        let (Some(path), Ok(())) = (path.clone(), texts.changed().await) else {
            std::future::pending::<()>().await;
            continue;
        };
        let text = texts.borrow_and_update().clone();
        // Not on the main thread: a disk may hang.
        let saved = spawn_blocking(move || exporter::save_counters(&path, &text)).await;
        let error = saved.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())).err();
        if let Some(error) = error.as_ref().filter(|_| error != former) {
            tracing::warn!("the offsets of 32-bit counters are lost at the next restart: {error}");
        }
        former = error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_file_gets_its_text_until_the_reader_has_exited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("silkraild/counters.json");
        let (mut reader, ours) = UnixStream::pair().unwrap();
        for (file, text) in [(WrittenFile::Counters, "{}"), (WrittenFile::Textfile, "rdma_port_up 1\n")] {
            write_message(&mut reader, &FileText { file, length: text.len() }, text.as_bytes())
                .await
                .unwrap();
        }
        drop(reader);
        let ((textfile, latest), (counters, saved)) = (watch::channel(vec![]), watch::channel(vec![]));
        let end = receive(ours.into_split().0, &textfile, &counters).await.unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(*latest.borrow(), b"rdma_port_up 1\n");
        let save = save_counters(Some(path.clone()), saved);
        let is_there = async {
            while !path.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        select! {
            never = save => match never {},
            () = is_there => {}
        }
        assert_eq!(std::fs::read(path).unwrap(), b"{}");
    }
}
