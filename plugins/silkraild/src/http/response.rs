//! The responses to requests.

use std::sync::Arc;

use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderName, HeaderValue},
};

use super::{
    admission::AuthDecision,
    connections::Connection,
    endpoint::{HttpEndpoint, ListenerRole},
    negotiate,
};
use crate::{
    page_files::{self, PageFile},
    snapshot_client::SnapshotClient,
    snapshot_encoding::SnapshotEncoding,
};

type HttpResponse = Response<Full<Bytes>>;

/// Minimum length of a compressed body, in bytes. Shorter ones are sent as fast uncompressed.
const MIN_COMPRESSED_BYTES: usize = 8 * 1024;

const TEXT: &str = "text/plain; charset=utf-8";

const NOT_FOUND: &str = "not found; there are /, /metrics, /api/v1/node, /healthz and /readyz\n";

const NO_HEALTH: &str = "not found; there are /healthz and /readyz\n";

const UNREAD: &str =
    "connections from this address have unread responses; read them, or close the connections\n";

const FORBIDDEN: &str =
    "forbidden: the user of the token cannot get this path; allow it by a ClusterRole with nonResourceURLs\n";

const UNDECIDED: &str = "the Kubernetes API could not review the token; see the log of silkraild\n";

const TOO_OFTEN: &str = "too many token reviews for this address, or for all addresses; try again later\n";

/// The value of `Retry-After` for clients with unread responses or a token that was not reviewed, in seconds.
const RETRY_AFTER_SECONDS: &str = "5";

/// Returns the response to a request, after authentication.
pub(super) async fn to<B>(
    request: &Request<B>,
    service: &HttpEndpoint,
    connection: &Arc<Connection>,
) -> HttpResponse {
    connection.on_request();
    let web = service.web.current();
    let credentials = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let path = request.uri().path();
    let mut response =
        match service.admission.authenticate(&web, credentials, path, connection.source()).await {
            AuthDecision::Yes => admitted(request, service, connection).await,
            AuthDecision::Unauthenticated { login, token } => unauthenticated(connection, login, token),
            AuthDecision::Forbidden => plain(connection, StatusCode::FORBIDDEN, FORBIDDEN),
            AuthDecision::Unknown => later(plain(connection, StatusCode::SERVICE_UNAVAILABLE, UNDECIDED)),
            AuthDecision::TooOften => later(plain(connection, StatusCode::TOO_MANY_REQUESTS, TOO_OFTEN)),
        };
    for (name, value) in &web.headers {
        response.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    response
}

fn unauthenticated(connection: &Arc<Connection>, login: bool, token: bool) -> HttpResponse {
    const BASIC: &str = "Basic realm=\"silkraild\", charset=\"UTF-8\"";
    const BEARER: &str = "Bearer realm=\"silkraild\"";
    let expected = match (login, token) {
        (true, true) => "expected a user name and password, or a token of the Kubernetes API\n",
        (false, true) => "expected a token of the Kubernetes API\n",
        (_, false) => "expected a user name and password\n",
    };
    let mut response = plain(connection, StatusCode::UNAUTHORIZED, expected);
    for scheme in [login.then_some(BASIC), token.then_some(BEARER)].into_iter().flatten() {
        response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
    }
    response
}

async fn admitted<B>(
    request: &Request<B>,
    service: &HttpEndpoint,
    connection: &Arc<Connection>,
) -> HttpResponse {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let response = plain(connection, StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD\n");
        return with(response, header::ALLOW, "GET, HEAD");
    }
    let (snapshots, port) = (&service.snapshots, service.port);
    match (request.uri().path(), port) {
        ("/healthz", _) => healthy(snapshots, connection),
        ("/readyz", _) => ready(snapshots, connection),
        (_, ListenerRole::Health) => plain(connection, StatusCode::NOT_FOUND, NO_HEALTH),
        ("/metrics", _) => metrics(request.headers(), snapshots, connection).await,
        ("/api/v1/node", _) => node(request.headers(), snapshots, connection).await,
        (path, _) => match PageFile::at(path) {
            Some(found) => file(found, connection),
            None => plain(connection, StatusCode::NOT_FOUND, NOT_FOUND),
        },
    }
}

async fn metrics(
    headers: &HeaderMap,
    snapshots: &SnapshotClient,
    connection: &Arc<Connection>,
) -> HttpResponse {
    let format = negotiate::format(headers);
    let response = text(headers, snapshots, connection, format.into()).await;
    with(response, header::VARY, "Accept, Accept-Encoding")
}

async fn node(headers: &HeaderMap, snapshots: &SnapshotClient, connection: &Arc<Connection>) -> HttpResponse {
    let response = text(headers, snapshots, connection, SnapshotEncoding::Node).await;
    with(with(response, header::CACHE_CONTROL, "no-store"), header::VARY, "Accept-Encoding")
}

async fn text(
    headers: &HeaderMap,
    snapshots: &SnapshotClient,
    connection: &Arc<Connection>,
    kind: SnapshotEncoding,
) -> HttpResponse {
    let Some(text) = snapshots.text(kind, negotiate::scrape_timeout(headers)).await else {
        return not_ready(connection);
    };
    let zip = text.plain.len() >= MIN_COMPRESSED_BYTES && negotiate::takes_gzip(headers);
    let number = text.number;
    let text = if zip { text.zipped().await } else { text.plain.clone() };
    let Ok(text) = connection.track_snapshot(number, text) else { return unread(connection) };
    let response = with(Response::new(Full::from(text)), header::CONTENT_TYPE, kind.content_type());
    if zip { with(response, header::CONTENT_ENCODING, "gzip") } else { response }
}

fn healthy(snapshots: &SnapshotClient, connection: &Arc<Connection>) -> HttpResponse {
    if snapshots.is_responding() {
        plain(connection, StatusCode::OK, "ok\n")
    } else {
        plain(
            connection,
            StatusCode::SERVICE_UNAVAILABLE,
            "the reader process has not replied for a minute\n",
        )
    }
}

/// Ready once the first collection is complete.
fn ready(snapshots: &SnapshotClient, connection: &Arc<Connection>) -> HttpResponse {
    if snapshots.has_snapshot() { plain(connection, StatusCode::OK, "ok\n") } else { not_ready(connection) }
}

fn not_ready(connection: &Arc<Connection>) -> HttpResponse {
    plain(connection, StatusCode::SERVICE_UNAVAILABLE, "the first collection is not complete yet\n")
}

fn unread(connection: &Arc<Connection>) -> HttpResponse {
    later(plain(connection, StatusCode::SERVICE_UNAVAILABLE, UNREAD))
}

/// Returns a file of the page. Browsers must revalidate it each time, because silkraild may have been upgraded.
fn file(file: &'static PageFile, connection: &Arc<Connection>) -> HttpResponse {
    let headers = [
        (header::CONTENT_TYPE, file.kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, page_files::POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let response =
        Response::new(Full::from(connection.track_static(Bytes::from_static(file.text.as_bytes()))));
    headers.into_iter().fold(response, |response, (name, value)| with(response, name, value))
}

fn plain(connection: &Arc<Connection>, status: StatusCode, text: &'static str) -> HttpResponse {
    let mut response =
        Response::new(Full::from(connection.track_static(Bytes::from_static(text.as_bytes()))));
    *response.status_mut() = status;
    with(response, header::CONTENT_TYPE, TEXT)
}

fn later(response: HttpResponse) -> HttpResponse {
    with(response, header::RETRY_AFTER, RETRY_AFTER_SECONDS)
}

fn with(mut response: HttpResponse, name: HeaderName, value: &'static str) -> HttpResponse {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
