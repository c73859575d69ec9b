//! The reader: the process with the privileges to inspect pods. Only its HTTP frontend can send it requests, and its writer writes
//! the files, since a filter of system calls keeps it from changing anything.
//!
//! The frontend is not trusted, because an attacker may control it. A request selects one of three encodings and contains a
//! timeout, the number of the snapshot that the frontend already has, and the status of the web configuration.

mod process;
pub(crate) mod syscalls;
mod writer;

use std::{ffi::OsString, io, sync::Arc};

use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    select, spawn,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use self::process::ChildProcess;
pub(crate) use self::{
    process::ChildProcessError,
    writer::{FileSender, WriterHandle},
};
use crate::{
    channel::{SnapshotReply, SnapshotRequest, read_message, write_message},
    frontend,
    snapshot_source::SnapshotSource,
};

/// Concurrent requests. The frontend requests each of three encodings at most twice, and whether there is a snapshot.
const MAX_PENDING_REQUESTS: usize = 7;

/// A frontend that serves, and its first request.
#[derive(Debug)]
pub(crate) struct FrontendHandle {
    process: ChildProcess,
    stream: UnixStream,
    first: SnapshotRequest,
}

impl FrontendHandle {
    /// Starts the frontend and waits for its first request, which it sends once it serves.
    ///
    /// # Errors
    /// [`ChildProcessError`] if it exits before.
    pub(crate) async fn start(arguments: &[OsString]) -> Result<Self, ChildProcessError> {
        let (mut process, mut stream) = ChildProcess::start("HTTP frontend", frontend::OPTION, arguments)?;
        match read_message(&mut stream).await {
            Ok(first) => Ok(Self { process, stream, first }),
            Err(error) => Err(process.ended_with(error)),
        }
    }

    /// Returns the first request.
    pub(crate) fn first(&self) -> &SnapshotRequest {
        &self.first
    }

    /// Returns the PID.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Replies to the frontend until it exits.
    ///
    /// # Errors
    /// [`ChildProcessError`]: the frontend has exited, or has sent an invalid request.
    pub(crate) async fn serve(mut self, source: &SnapshotSource) -> Result<(), ChildProcessError> {
        let end = serve_socket(self.stream, self.first, source).await;
        end.map_err(|error| self.process.ended_with(error))
    }
}

/// Replies to requests until one is invalid or the socket is closed.
async fn serve_socket(stream: UnixStream, first: SnapshotRequest, source: &SnapshotSource) -> io::Result<()> {
    let (requests, replies) = stream.into_split();
    let (done, ready) = mpsc::channel(MAX_PENDING_REQUESTS);
    select! {
        end = read_requests(requests, first, source, done) => end,
        end = send_replies(replies, ready) => end,
    }
}

/// A reply, its body, and the permit of its request.
type EncodedReply = (SnapshotReply, Vec<u8>, OwnedSemaphorePermit);

async fn read_requests(
    mut requests: OwnedReadHalf,
    first: SnapshotRequest,
    source: &SnapshotSource,
    done: mpsc::Sender<EncodedReply>,
) -> io::Result<()> {
    let permits = Arc::new(Semaphore::new(MAX_PENDING_REQUESTS));
    let mut request = first;
    loop {
        source.set_web(request.web);
        let Ok(permit) = permits.clone().acquire_owned().await else { return Ok(()) };
        let (source, done) = (source.clone(), done.clone());
        spawn(async move {
            let (reply, text) = source.reply(request).await;
            let _ = done.send((reply, text, permit)).await; // the connection has ended
        });
        request = read_message(&mut requests).await?;
    }
}

/// Sends replies. A permit is released after its body was sent, which limits the number of bodies in memory.
async fn send_replies(
    mut replies: OwnedWriteHalf,
    mut ready: mpsc::Receiver<EncodedReply>,
) -> io::Result<()> {
    while let Some((reply, text, _permit)) = ready.recv().await {
        write_message(&mut replies, &reply, &text).await?;
    }
    Ok(())
}

impl SnapshotSource {
    async fn reply(&self, request: SnapshotRequest) -> (SnapshotReply, Vec<u8>) {
        let SnapshotRequest { id, kind, within, held, .. } = request;
        let nothing = |number| (SnapshotReply { id, number, length: None }, Vec::new());
        let Some(kind) = kind else { return nothing(self.first_number(within).await) };
        match self.snapshot(within).await {
            Some(snapshot) if held != Some(snapshot.number) => {
                let text = snapshot.text(kind).await;
                (SnapshotReply { id, number: Some(snapshot.number), length: Some(text.len()) }, text)
            }
            snapshot => nothing(snapshot.map(|snapshot| snapshot.number)),
        }
    }
}

#[cfg(test)]
mod tests;
