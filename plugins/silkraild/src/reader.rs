//! The reader: it alone has the privileges to look into pods, and nobody but its HTTP frontend can ask it anything.
//!
//! The frontend is believed as little as anybody who might have taken it over. What it can say is which of three texts it wants,
//! how long it waits for it, of which reading it has it, and whether the web configuration is well.

mod process;

use std::{io, process::ExitStatus, sync::Arc};

use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    select, spawn,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use self::process::FrontendProcess;
use crate::{
    channel::{SnapshotReply, SnapshotRequest, read_message, write_message},
    snapshot_source::SnapshotSource,
};

/// Questions at a time. The frontend asks for each of three texts twice at most, and whether there is one.
const MAX_PENDING_REQUESTS: usize = 7;

/// What ends it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrontendProcessError {
    /// The frontend has said why, unless it was killed.
    #[error("the HTTP frontend has ended: {0}")]
    Ended(ExitStatus),
    #[error("start the HTTP frontend: {0}")]
    Start(io::Error),
    #[error("the HTTP frontend has closed its socket and does not end")]
    Hangs,
    #[error("the HTTP frontend does not ask as it should: {0}")]
    Talk(io::Error),
}

/// A frontend that serves, and its first question.
#[derive(Debug)]
pub(crate) struct FrontendHandle {
    process: FrontendProcess,
    stream: UnixStream,
    first: SnapshotRequest,
}

impl FrontendHandle {
    /// Starts it, and waits until it serves.
    ///
    /// # Errors
    /// That it does not.
    pub(crate) async fn start() -> Result<Self, FrontendProcessError> {
        let (mut process, mut stream) = FrontendProcess::start().map_err(FrontendProcessError::Start)?;
        match read_message(&mut stream).await {
            Ok(first) => Ok(Self { process, stream, first }),
            Err(error) => Err(process.ended_with(error)),
        }
    }

    /// The first question.
    pub(crate) fn first(&self) -> &SnapshotRequest {
        &self.first
    }

    /// Answers it, for ever.
    ///
    /// # Errors
    /// That it has ended, or does not ask as it should.
    pub(crate) async fn serve(mut self, source: &SnapshotSource) -> Result<(), FrontendProcessError> {
        let end = answer(self.stream, self.first, source).await;
        end.map_err(|error| self.process.ended_with(error))
    }
}

/// Answers questions until one cannot be understood.
async fn answer(stream: UnixStream, first: SnapshotRequest, source: &SnapshotSource) -> io::Result<()> {
    let (questions, answers) = stream.into_split();
    let (done, ready) = mpsc::channel(MAX_PENDING_REQUESTS);
    select! {
        end = read_requests(questions, first, source, done) => end,
        end = send_reply(answers, ready) => end,
    }
}

/// An answer and its text.
type EncodedReply = (SnapshotReply, Vec<u8>, OwnedSemaphorePermit);

async fn read_requests(
    mut questions: OwnedReadHalf,
    first: SnapshotRequest,
    source: &SnapshotSource,
    done: mpsc::Sender<EncodedReply>,
) -> io::Result<()> {
    let turns = Arc::new(Semaphore::new(MAX_PENDING_REQUESTS));
    let mut question = first;
    loop {
        source.set_web(question.web);
        let Ok(turn) = turns.clone().acquire_owned().await else { return Ok(()) };
        let (source, done) = (source.clone(), done.clone());
        spawn(async move {
            let (answer, text) = source.answer(question).await;
            let _ = done.send((answer, text, turn)).await; // nobody waits for it any more
        });
        question = read_message(&mut questions).await?;
    }
}

/// Its turn ends when a text has left: no more of them are in memory than may be asked for at a time.
async fn send_reply(mut answers: OwnedWriteHalf, mut ready: mpsc::Receiver<EncodedReply>) -> io::Result<()> {
    while let Some((answer, text, _turn)) = ready.recv().await {
        write_message(&mut answers, &answer, &text).await?;
    }
    Ok(())
}

impl SnapshotSource {
    async fn answer(&self, question: SnapshotRequest) -> (SnapshotReply, Vec<u8>) {
        let SnapshotRequest { id, kind, within, held, .. } = question;
        let nothing = |number| (SnapshotReply { id, number, length: None }, Vec::new());
        let Some(kind) = kind else { return nothing(self.first_number(within).await) };
        match self.reading(within).await {
            Some(reading) if held != Some(reading.number) => {
                let text = reading.text(kind).await;
                (SnapshotReply { id, number: Some(reading.number), length: Some(text.len()) }, text)
            }
            reading => nothing(reading.map(|reading| reading.number)),
        }
    }
}

#[cfg(test)]
mod tests;
