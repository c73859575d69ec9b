//! Questions to the reader, each with its answer.

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

/// A reading's number and text, if there are any.
type ReplyBody = (Option<u64>, Option<Bytes>);

type PendingReplies = Arc<Mutex<HashMap<u64, oneshot::Sender<ReplyBody>>>>;

/// Asks the reader.
#[derive(Debug)]
pub(super) struct RequestSender {
    questions: mpsc::UnboundedSender<SnapshotRequest>,
    waiting: PendingReplies,
    next: AtomicU64,
    web: WebConfigReloader,
}

impl RequestSender {
    /// Asks over a socket, and what has to be waited for meanwhile.
    pub(super) fn new(
        stream: UnixStream,
        web: WebConfigReloader,
    ) -> (Self, impl Future<Output = io::Result<()>>) {
        let (answers, questions) = stream.into_split();
        let (sender, asked) = mpsc::unbounded_channel();
        let waiting = PendingReplies::default();
        let asker = Self { questions: sender, waiting: waiting.clone(), next: AtomicU64::new(1), web };
        let talk = async move {
            select! {
                end = write(questions, asked) => end,
                end = read(answers, &waiting) => end,
            }
        };
        (asker, talk)
    }

    /// What the reader answers; `None` if it is gone.
    pub(super) async fn request(
        &self,
        kind: Option<SnapshotEncoding>,
        within: Duration,
        held: Option<u64>,
    ) -> Option<ReplyBody> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        lock(&self.waiting).insert(id, answer);
        let _waits = PendingReplyGuard { waiting: &self.waiting, id };
        self.questions.send(SnapshotRequest { id, kind, within, held, web: self.web.status() }).ok()?;
        answered.await.ok()
    }
}

#[cfg(test)]
impl RequestSender {
    /// How many wait for an answer.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.waiting).len()
    }
}

/// Somebody waits for an answer, for as long as this value lives.
struct PendingReplyGuard<'a> {
    waiting: &'a PendingReplies,
    id: u64,
}

impl Drop for PendingReplyGuard<'_> {
    fn drop(&mut self) {
        lock(self.waiting).remove(&self.id);
    }
}

async fn write(
    mut stream: OwnedWriteHalf,
    mut asked: mpsc::UnboundedReceiver<SnapshotRequest>,
) -> io::Result<()> {
    while let Some(question) = asked.recv().await {
        write_message(&mut stream, &question, b"").await?;
    }
    Ok(())
}

/// Ends when the reader does.
async fn read(mut stream: OwnedReadHalf, waiting: &PendingReplies) -> io::Result<()> {
    loop {
        let SnapshotReply { id, number, length } = match read_message(&mut stream).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            heard => heard?,
        };
        let text = match length {
            Some(length) => {
                // Not zeroed first: it may be megabytes.
                let mut text = Vec::with_capacity(length);
                if (&mut stream).take(length as u64).read_to_end(&mut text).await? < length {
                    return Ok(());
                }
                Some(text.into())
            }
            None => None,
        };
        if let Some(answer) = lock(waiting).remove(&id) {
            let _ = answer.send((number, text)); // nobody waits any more
        }
    }
}

fn lock(waiting: &PendingReplies) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<ReplyBody>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
