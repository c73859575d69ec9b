//! The reader's end of the writer.

use std::{ffi::OsString, io, mem};

use exporter::{ResourceHealth, ResourceHealthStore};
use tokio::{
    io::AsyncRead,
    net::UnixStream,
    select,
    sync::mpsc::{Receiver, Sender, channel},
};

use super::process::{ChildProcess, ChildProcessError};
use crate::{
    channel::{FileText, HealthReport, WrittenFile, read_body, read_message, write_message},
    writer,
};

/// Texts that wait for a writer that hangs; later ones are dropped, since each replaces the former one.
const MAX_WAITING_TEXTS: usize = 4;

/// A file, and its new content.
type NewText = (WrittenFile, Vec<u8>);

/// A writer that is ready.
#[derive(Debug)]
pub(crate) struct WriterHandle {
    process: ChildProcess,
    stream: UnixStream,
    /// The first report.
    health: Vec<ResourceHealth>,
    texts: (Sender<NewText>, Receiver<NewText>),
}

/// Sends the content of files to the writer.
#[derive(Debug, Clone)]
pub(crate) struct FileSender(Sender<NewText>);

impl FileSender {
    /// Has a file replaced, without waiting for it. The writer logs why it cannot.
    pub(crate) fn send(&self, file: WrittenFile, text: Vec<u8>) {
        let _ = self.0.try_send((file, text));
    }
}

impl WriterHandle {
    /// Starts the writer and waits until it offers the devices of the device plugin, if there is one.
    ///
    /// # Errors
    /// [`ChildProcessError`] if it exits before.
    pub(crate) async fn start(arguments: &[OsString]) -> Result<Self, ChildProcessError> {
        let (mut process, mut stream) = ChildProcess::start("writer", writer::OPTION, arguments)?;
        match read_report(&mut stream).await {
            Ok(health) => Ok(Self { process, stream, health, texts: channel(MAX_WAITING_TEXTS) }),
            Err(error) => Err(process.ended_with(error)),
        }
    }

    /// Returns the PID.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns a sender.
    pub(crate) fn sender(&self) -> FileSender {
        FileSender(self.texts.0.clone())
    }

    /// Sends the files, and stores the health of the devices that the kubelet is offered, until the writer exits.
    ///
    /// # Errors
    /// [`ChildProcessError`]: the writer has exited, or has sent an invalid message.
    pub(crate) async fn serve(&mut self, health: &ResourceHealthStore) -> ChildProcessError {
        health.set(mem::take(&mut self.health));
        let (mut reports, mut requests) = self.stream.split();
        let send = async {
            while let Some((file, text)) = self.texts.1.recv().await {
                write_message(&mut requests, &FileText { file, length: text.len() }, &text).await?;
            }
            Ok(())
        };
        let receive = async {
            loop {
                health.set(read_report(&mut reports).await?);
            }
        };
        let end = select! {
            end = send => end,
            end = receive => end,
        };
        self.process.ended_with(end.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }

    /// Waits until the writer has deleted the sockets of the device plugin, or a second at most.
    pub(crate) fn end(self) {
        let Self { mut process, stream, .. } = self;
        drop(stream);
        process.wait();
    }
}

async fn read_report(reports: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<ResourceHealth>> {
    let HealthReport { length } = read_message(reports).await?;
    Ok(serde_json::from_slice(&read_body(reports, length).await?)?)
}
