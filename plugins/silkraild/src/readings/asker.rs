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
    channel::{Answer, Question, hear, say},
    kind::Kind,
    web::Web,
};

/// A reading's number and text, if there are any.
type Answered = (Option<u64>, Option<Bytes>);

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Answered>>>>;

/// Asks the reader.
#[derive(Debug)]
pub(super) struct Asker {
    questions: mpsc::UnboundedSender<Question>,
    waiting: Waiting,
    next: AtomicU64,
    web: Web,
}

impl Asker {
    /// Asks over a socket, and what has to be waited for meanwhile.
    pub(super) fn over(stream: UnixStream, web: Web) -> (Self, impl Future<Output = io::Result<()>>) {
        let (answers, questions) = stream.into_split();
        let (sender, asked) = mpsc::unbounded_channel();
        let waiting = Waiting::default();
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
    pub(super) async fn ask(
        &self,
        kind: Option<Kind>,
        within: Duration,
        held: Option<u64>,
    ) -> Option<Answered> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        lock(&self.waiting).insert(id, answer);
        let _waits = Waits { waiting: &self.waiting, id };
        self.questions.send(Question { id, kind, within, held, web: self.web.status() }).ok()?;
        answered.await.ok()
    }
}

#[cfg(test)]
impl Asker {
    /// How many wait for an answer.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.waiting).len()
    }
}

/// Somebody waits for an answer, for as long as this value lives.
struct Waits<'a> {
    waiting: &'a Waiting,
    id: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        lock(self.waiting).remove(&self.id);
    }
}

async fn write(mut stream: OwnedWriteHalf, mut asked: mpsc::UnboundedReceiver<Question>) -> io::Result<()> {
    while let Some(question) = asked.recv().await {
        say(&mut stream, &question, b"").await?;
    }
    Ok(())
}

/// Ends when the reader does.
async fn read(mut stream: OwnedReadHalf, waiting: &Waiting) -> io::Result<()> {
    loop {
        let Answer { id, number, length } = match hear(&mut stream).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            heard => heard?,
        };
        let text = match length {
            Some(length) => {
                let mut text = vec![0; length];
                stream.read_exact(&mut text).await?;
                Some(text.into())
            }
            None => None,
        };
        if let Some(answer) = lock(waiting).remove(&id) {
            let _ = answer.send((number, text)); // nobody waits any more
        }
    }
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Answered>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
