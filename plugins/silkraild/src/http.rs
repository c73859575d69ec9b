//! The HTTP server.
//!
//! Whoever reaches the port may be hostile: silent, slow, or in haste. So a connection is one of so many
//! ([`connections`]), each step of it has its time, and an answer is in memory once, however many read it.

mod admission;
mod answer;
mod connections;
mod fair_queue;
mod listener;
mod login_queue;
mod negotiate;
mod review_rates;
mod token_review_queue;
mod tracked_stream;

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    select,
    task::yield_now,
    time::{interval, timeout},
};
use tokio_rustls::TlsAcceptor;

use self::{
    admission::Authenticator,
    connections::{Connection, ConnectionLimits, Connections},
    tracked_stream::TrackedStream,
};
pub(crate) use self::{listener::Listener, token_review_queue::TokenReviewQueue};
use crate::{snapshot_client::SnapshotClient, web_config::WebConfigReloader};

/// Prometheus has one connection open, people a few. A proxy has the readers of all.
const METRICS_CONNECTION_LIMITS: ConnectionLimits =
    ConnectionLimits { all: 128, of_source: 16, unread: 16 * 1024 * 1024, former: 16 * 1024 * 1024 };

/// The kubelet makes a new connection for each probe.
const PROBE_CONNECTION_LIMITS: ConnectionLimits =
    ConnectionLimits { all: 16, of_source: 16, unread: 1024 * 1024, former: 0 };

/// How long a connection is kept; Prometheus makes a new one then. What is being answered is still answered.
const CONNECTION_MAX_AGE: Duration = Duration::from_secs(60);

/// How long that may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// How often is looked for clients that take too long.
const OVERDUE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The longest head of a request.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// What a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListenerRole {
    /// Everything, for whoever reaches it and is let in.
    Metrics,
    /// The daemon's health, for the node itself.
    Health,
}

/// What is served, and to whom.
#[derive(Debug, Clone)]
pub(crate) struct HttpEndpoint {
    port: ListenerRole,
    readings: SnapshotClient,
    web: WebConfigReloader,
    admission: Authenticator,
}

/// Answers requests, for ever.
pub(crate) async fn serve(mut listener: Listener, service: HttpEndpoint) {
    let connections = Connections::with_limits(service.port.limits());
    let mut look = interval(OVERDUE_POLL_INTERVAL);
    loop {
        let (client, address) = select! {
            accepted = listener.accept() => accepted,
            _ = look.tick() => {
                connections.end_overdue();
                continue;
            }
        };
        let (connection, end) = connections.register(address);
        let service = service.clone();
        tokio::spawn(async move {
            select! {
                () = service.serve_connection(client, connection) => {}
                _ = end => {}
            }
        });
        // Those who had to go are gone before the next one is let in, however fast they come.
        yield_now().await;
    }
}

impl HttpEndpoint {
    /// Everything, as the web configuration wants it, and for the bearers of tokens if these are given.
    pub(crate) fn metrics(
        readings: SnapshotClient,
        web: WebConfigReloader,
        tokens: Option<TokenReviewQueue>,
    ) -> Self {
        Self { port: ListenerRole::Metrics, readings, web, admission: Authenticator::new(tokens) }
    }

    /// The daemon's health, in plain text and to everybody who reaches the port.
    pub(crate) fn health(readings: SnapshotClient) -> Self {
        Self {
            port: ListenerRole::Health,
            readings,
            web: WebConfigReloader::default(),
            admission: Authenticator::new(None),
        }
    }

    async fn serve_connection(&self, client: TcpStream, connection: Arc<Connection>) {
        let answer = |request: Request<Incoming>| {
            let (service, connection) = (self.clone(), connection.clone());
            async move { answer::to(&request, &service, &connection).await }
        };
        let client = TrackedStream::new(client, connection.clone());
        match &self.web.current().tls {
            None => serve_requests(client, answer).await,
            Some(tls) => match TlsAcceptor::from(tls.clone()).accept(client).await {
                Ok(client) => serve_requests(client, answer).await,
                Err(error) => tracing::debug!("a client is not let in: {error}"),
            },
        }
    }
}

/// Answers the requests of one client, until it goes away or has been here for long.
async fn serve_requests<A>(
    client: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Fn(Request<Incoming>) -> A,
) where
    A: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut server = http1::Builder::new();
    server.header_read_timeout(None).max_buf_size(MAX_HEADER_BYTES);
    let mut connection = pin!(server.serve_connection(TokioIo::new(client), service));
    if timeout(CONNECTION_MAX_AGE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(DRAIN_TIMEOUT, connection).await;
    }
}

impl ListenerRole {
    fn limits(self) -> ConnectionLimits {
        match self {
            Self::Metrics => METRICS_CONNECTION_LIMITS,
            Self::Health => PROBE_CONNECTION_LIMITS,
        }
    }
}

#[cfg(test)]
mod tests;
