//! The HTTP server.

mod answer;
mod negotiate;

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::source::Source;

/// Prometheus has one connection open; people a few. Whoever opens more waits.
const CONNECTIONS: usize = 64;

/// How long a connection is kept; Prometheus makes a new one then. What is being answered is still answered.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a client may take to ask, or to read the last answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers requests, for ever.
pub(crate) async fn serve(listener: TcpListener, source: Source) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // It is never closed.
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("accept a connection: {error}");
                sleep(Duration::from_millis(100)).await; // out of files: some will be closed
                continue;
            }
        };
        let source = source.clone();
        tokio::spawn(async move {
            converse(stream, |request| {
                let source = source.clone();
                async move { answer::to(&request, &source).await }
            })
            .await;
            drop(permit);
        });
    }
}

/// Answers the requests of one client, until it goes away or is sent away: one that does not read, after a while.
async fn converse<A>(client: impl AsyncRead + AsyncWrite + Unpin, answer: impl Fn(Request<Incoming>) -> A)
where
    A: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let mut connection = pin!(server.serve_connection(TokioIo::new(client), service));
    if timeout(LONGEST, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(PATIENCE, connection).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        join,
        time::Instant,
    };

    use super::*;

    const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n";

    /// An answer of so many bytes, after some time.
    async fn answer(length: usize, after: Duration) -> Response<Full<Bytes>> {
        sleep(after).await;
        Response::new(Full::from(vec![b'.'; length]))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_sent_away() {
        let (mut client, ours) = duplex(64);
        let began = Instant::now();
        let ask = async {
            client.write_all(REQUEST).await.unwrap();
            Instant::now()
        };
        let (_, ()) = join!(ask, converse(ours, |_| answer(100_000, Duration::ZERO)));
        assert_eq!(began.elapsed(), LONGEST + PATIENCE);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_ask_is_sent_away() {
        let (client, ours) = duplex(64);
        let began = Instant::now();
        converse(ours, |_| answer(1, Duration::ZERO)).await;
        assert_eq!(began.elapsed(), PATIENCE);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_answered_when_the_time_is_up_is_still_answered() {
        let (mut client, ours) = duplex(64);
        let late = LONGEST + PATIENCE / 2;
        let ask = async {
            client.write_all(REQUEST).await.unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).await.unwrap();
            text
        };
        let (text, ()) = join!(ask, converse(ours, |_| answer(1000, late)));
        assert!(text.ends_with(&".".repeat(1000)), "{text}");
    }
}
