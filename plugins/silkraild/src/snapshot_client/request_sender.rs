//! Requests to the reader, matched with their replies by ID.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::body::Bytes;
use tokio::{
    io::AsyncReadExt,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    select,
    sync::{mpsc, oneshot},
};

use crate::{
    channel::{SnapshotReply, SnapshotRequest, read_message, write_message},
    snapshot_encoding::SnapshotEncoding,
    web_config::WebConfigReloader,
};

/// The number of a snapshot, and its text if one follows the reply.
type ReplyBody = (Option<u64>, Option<Bytes>);

type PendingReplies = Arc<Mutex<HashMap<u64, oneshot::Sender<ReplyBody>>>>;

/// Sends requests to the reader.
#[derive(Debug)]
pub(super) struct RequestSender {
    requests: mpsc::UnboundedSender<SnapshotRequest>,
    pending: PendingReplies,
    next: AtomicU64,
    web: WebConfigReloader,
}

impl RequestSender {
    /// Returns a sender for the socket, and the task that transfers its messages. The task ends when the reader does.
    pub(super) fn new(
        stream: UnixStream,
        web: WebConfigReloader,
    ) -> (Self, impl Future<Output = io::Result<()>>) {
        let (replies, requests) = stream.into_split();
        let (sender, queue) = mpsc::unbounded_channel();
        let pending = PendingReplies::default();
        let request_sender =
            Self { requests: sender, pending: pending.clone(), next: AtomicU64::new(1), web };
        let transfer = async move {
            select! {
                end = write(requests, queue) => end,
                end = read(replies, &pending) => end,
            }
        };
        (request_sender, transfer)
    }

    /// Sends a request and returns the body of its reply; `None` if the reader has exited.
    pub(super) async fn request(
        &self,
        kind: Option<SnapshotEncoding>,
        within: Duration,
        held: Option<u64>,
    ) -> Option<ReplyBody> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (reply, received) = oneshot::channel();
        lock(&self.pending).insert(id, reply);
        let _guard = PendingReplyGuard { pending: &self.pending, id };
        self.requests.send(SnapshotRequest { id, kind, within, held, web: self.web.status() }).ok()?;
        received.await.ok()
    }
}

#[cfg(test)]
impl RequestSender {
    /// Returns the number of requests without a reply.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.pending).len()
    }
}

/// Removes a pending request on drop: its client may have disconnected.
struct PendingReplyGuard<'a> {
    pending: &'a PendingReplies,
    id: u64,
}

impl Drop for PendingReplyGuard<'_> {
    fn drop(&mut self) {
        lock(self.pending).remove(&self.id);
    }
}

async fn write(
    mut stream: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<SnapshotRequest>,
) -> io::Result<()> {
    while let Some(request) = queue.recv().await {
        write_message(&mut stream, &request, b"").await?;
    }
    Ok(())
}

/// Ends when the reader does.
async fn read(mut stream: OwnedReadHalf, pending: &PendingReplies) -> io::Result<()> {
    loop {
        let SnapshotReply { id, number, length } = match read_message(&mut stream).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            heard => heard?,
        };
        let text = match length {
            Some(length) => {
                // Not zeroed first: the text can have several megabytes.
                let mut text = Vec::with_capacity(length);
                if (&mut stream).take(length as u64).read_to_end(&mut text).await? < length {
                    return Ok(());
                }
                Some(text.into())
            }
            None => None,
        };
        if let Some(reply) = lock(pending).remove(&id) {
            let _ = reply.send((number, text)); // its client may have disconnected
        }
    }
}

fn lock(pending: &PendingReplies) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<ReplyBody>>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}
