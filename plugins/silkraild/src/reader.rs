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

use self::process::Process;
use crate::{
    channel::{Answer, Question, hear, say},
    source::Source,
};

/// Questions at a time. The frontend asks for each of three texts twice at most, and whether there is one.
const AT_ONCE: usize = 7;

/// What ends it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
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
pub(crate) struct Frontend {
    process: Process,
    stream: UnixStream,
    first: Question,
}

impl Frontend {
    /// Starts it, and waits until it serves.
    ///
    /// # Errors
    /// That it does not.
    pub(crate) async fn start() -> Result<Self, Error> {
        let (mut process, mut stream) = Process::start().map_err(Error::Start)?;
        match hear(&mut stream).await {
            Ok(first) => Ok(Self { process, stream, first }),
            Err(error) => Err(process.ended_with(error)),
        }
    }

    /// The first question.
    pub(crate) fn first(&self) -> &Question {
        &self.first
    }

    /// Answers it, for ever.
    ///
    /// # Errors
    /// That it has ended, or does not ask as it should.
    pub(crate) async fn serve(mut self, source: &Source) -> Result<(), Error> {
        let end = answer(self.stream, self.first, source).await;
        end.map_err(|error| self.process.ended_with(error))
    }
}

/// Answers questions until one cannot be understood.
async fn answer(stream: UnixStream, first: Question, source: &Source) -> io::Result<()> {
    let (questions, answers) = stream.into_split();
    let (done, ready) = mpsc::channel(AT_ONCE);
    select! {
        end = take(questions, first, source, done) => end,
        end = give(answers, ready) => end,
    }
}

/// An answer and its text.
type Ready = (Answer, Vec<u8>, OwnedSemaphorePermit);

async fn take(
    mut questions: OwnedReadHalf,
    first: Question,
    source: &Source,
    done: mpsc::Sender<Ready>,
) -> io::Result<()> {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut question = first;
    loop {
        source.set_web(question.web);
        let Ok(turn) = turns.clone().acquire_owned().await else { return Ok(()) };
        let (source, done) = (source.clone(), done.clone());
        spawn(async move {
            let (answer, text) = source.answer(question).await;
            let _ = done.send((answer, text, turn)).await; // nobody waits for it any more
        });
        question = hear(&mut questions).await?;
    }
}

/// Its turn ends when a text has left: no more of them are in memory than may be asked for at a time.
async fn give(mut answers: OwnedWriteHalf, mut ready: mpsc::Receiver<Ready>) -> io::Result<()> {
    while let Some((answer, text, _turn)) = ready.recv().await {
        say(&mut answers, &answer, &text).await?;
    }
    Ok(())
}

impl Source {
    async fn answer(&self, question: Question) -> (Answer, Vec<u8>) {
        let Question { id, kind, within, held, .. } = question;
        let nothing = |number| (Answer { id, number, length: None }, Vec::new());
        let Some(kind) = kind else { return nothing(self.first(within).await) };
        match self.reading(within).await {
            Some(reading) if held != Some(reading.number) => {
                let text = reading.text(kind).await;
                (Answer { id, number: Some(reading.number), length: Some(text.len()) }, text)
            }
            reading => nothing(reading.map(|reading| reading.number)),
        }
    }
}

#[cfg(test)]
mod tests;
