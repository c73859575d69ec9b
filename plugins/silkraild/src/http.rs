//! The HTTP server.
//!
//! Clients may be hostile: silent, slow, or numerous. Therefore the number of connections is limited ([`connections`]), each
//! step of a connection has a timeout, and a response body is in memory once for all clients that read it.

mod admission;
mod connections;
mod endpoint;
mod fair_queue;
mod listener;
mod login_queue;
mod negotiate;
mod response;
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
    time::{interval, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use self::{
    connections::{Connection, Connections},
    tracked_stream::TrackedStream,
};
pub(crate) use self::{endpoint::HttpEndpoint, listener::Listener, token_review_queue::TokenReviewQueue};

/// Maximum age of a connection. A request in progress is still served; Prometheus then opens a new connection, with the current
/// TLS configuration. It is several scrape intervals, because each new connection costs a TLS handshake.
const CONNECTION_MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// Timeout for a request in progress at the end of [`CONNECTION_MAX_AGE`].
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between checks for connections that have exceeded their timeout.
const OVERDUE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum length of the request line and headers, in bytes.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Accepts connections and serves their requests, forever.
pub(crate) async fn serve(mut listener: Listener, service: HttpEndpoint) {
    let connections = Connections::with_limits(service.port.limits());
    let mut poll = interval(OVERDUE_POLL_INTERVAL);
    loop {
        let (client, address) = select! {
            accepted = listener.accept() => accepted,
            _ = poll.tick() => {
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
        // Evicted connections are closed before the next one is accepted, at any rate of connections.
        yield_now().await;
    }
}

impl HttpEndpoint {
    async fn serve_connection(&self, client: TcpStream, connection: Arc<Connection>) {
        let respond = |request: Request<Incoming>| {
            let (service, connection) = (self.clone(), connection.clone());
            async move { response::to(&request, &service, &connection).await }
        };
        let client = TrackedStream::new(client, connection.clone());
        let (web, replaced) = self.web.for_connection();
        match &web.tls {
            None => serve_requests(client, respond, replaced).await,
            Some(tls) => match TlsAcceptor::from(tls.clone()).accept(client).await {
                Ok(client) => serve_requests(client, respond, replaced).await,
                Err(error) => tracing::debug!("TLS handshake failed: {error}"),
            },
        }
    }
}

/// Serves the requests of one connection until it is closed, for [`CONNECTION_MAX_AGE`], or until its web configuration was
/// replaced: a client whose certificate is no longer accepted must not continue.
async fn serve_requests<A>(
    client: impl AsyncRead + AsyncWrite + Unpin,
    respond: impl Fn(Request<Incoming>) -> A,
    replaced: impl Future<Output = ()>,
) where
    A: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(move |request| {
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let mut server = http1::Builder::new();
    server.header_read_timeout(None).max_buf_size(MAX_HEADER_BYTES);
    let mut connection = pin!(server.serve_connection(TokioIo::new(client), service));
    select! {
        _ = connection.as_mut() => return,
        () = replaced => {}
        () = sleep(CONNECTION_MAX_AGE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(DRAIN_TIMEOUT, connection).await;
}

#[cfg(test)]
mod tests;
