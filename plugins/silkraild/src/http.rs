//! The HTTP server.

mod answer;
mod negotiate;

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
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
            let service = service_fn(move |request| {
                let source = source.clone();
                async move { Ok::<_, Infallible>(answer::to(&request, &source).await) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
            // A client that goes away is no trouble of ours, and one that does not read is sent away.
            if timeout(LONGEST, connection.as_mut()).await.is_err() {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(PATIENCE, connection).await;
            }
            drop(permit);
        });
    }
}
