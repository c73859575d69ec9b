//! What is answered to a request.

use std::sync::Arc;

use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderName, HeaderValue},
};

use super::{HttpEndpoint, ListenerRole, admission::AuthDecision, connections::Connection, negotiate};
use crate::{
    page_files::{self, PageFile},
    snapshot_client::SnapshotClient,
    snapshot_encoding::SnapshotEncoding,
};

type HttpAnswer = Response<Full<Bytes>>;

/// Below this an answer goes as fast uncompressed.
const MIN_COMPRESSED_BYTES: usize = 8 * 1024;

const TEXT: &str = "text/plain; charset=utf-8";

const NOT_FOUND: &str = "not found; there are /, /metrics, /api/v1/node, /healthz and /readyz\n";

const NO_HEALTH: &str = "not found; there are /healthz and /readyz\n";

const UNREAD: &str =
    "this address has connections that do not read what they were given; read, or close them\n";

const FORBIDDEN: &str =
    "the Kubernetes API does not let you get this path: a ClusterRole with nonResourceURLs would\n";

const UNDECIDED: &str = "the Kubernetes API does not say whether you may; silkraild's log says why\n";

const TOO_OFTEN: &str =
    "the Kubernetes API was asked about too many tokens from this address, or from all; try again later\n";

/// How long somebody had better wait who has not read former answers, or of whom nobody says whether they may, in seconds.
const RETRY_AFTER_SECONDS: &str = "5";

/// Answers a request.
pub(super) async fn to<B>(
    request: &Request<B>,
    service: &HttpEndpoint,
    connection: &Arc<Connection>,
) -> HttpAnswer {
    connection.on_request();
    let web = service.web.current();
    let who = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let path = request.uri().path();
    let mut answer = match service.admission.authenticate(&web, who, path, connection.source()).await {
        AuthDecision::Yes => admitted(request, service, connection).await,
        AuthDecision::Unauthenticated { login, token } => unauthenticated(connection, login, token),
        AuthDecision::Forbidden => plain(connection, StatusCode::FORBIDDEN, FORBIDDEN),
        AuthDecision::Unknown => later(plain(connection, StatusCode::SERVICE_UNAVAILABLE, UNDECIDED)),
        AuthDecision::TooOften => later(plain(connection, StatusCode::TOO_MANY_REQUESTS, TOO_OFTEN)),
    };
    for (name, value) in &web.headers {
        answer.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    answer
}

fn unauthenticated(connection: &Arc<Connection>, login: bool, token: bool) -> HttpAnswer {
    const BASIC: &str = "Basic realm=\"silkraild\", charset=\"UTF-8\"";
    const BEARER: &str = "Bearer realm=\"silkraild\"";
    let expected = match (login, token) {
        (true, true) => "expected a name and a password, or a token of the Kubernetes API\n",
        (false, true) => "expected a token of the Kubernetes API\n",
        (_, false) => "expected a name and a password\n",
    };
    let mut answer = plain(connection, StatusCode::UNAUTHORIZED, expected);
    for way in [login.then_some(BASIC), token.then_some(BEARER)].into_iter().flatten() {
        answer.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(way));
    }
    answer
}

async fn admitted<B>(
    request: &Request<B>,
    service: &HttpEndpoint,
    connection: &Arc<Connection>,
) -> HttpAnswer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let answer = plain(connection, StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD\n");
        return with(answer, header::ALLOW, "GET, HEAD");
    }
    let (readings, port) = (&service.readings, service.port);
    match (request.uri().path(), port) {
        ("/healthz", _) => healthy(readings, connection),
        ("/readyz", _) => ready(readings, connection),
        (_, ListenerRole::Health) => plain(connection, StatusCode::NOT_FOUND, NO_HEALTH),
        ("/metrics", _) => metrics(request.headers(), readings, connection).await,
        ("/api/v1/node", _) => node(request.headers(), readings, connection).await,
        (path, _) => match PageFile::at(path) {
            Some(found) => file(found, connection),
            None => plain(connection, StatusCode::NOT_FOUND, NOT_FOUND),
        },
    }
}

async fn metrics(headers: &HeaderMap, readings: &SnapshotClient, connection: &Arc<Connection>) -> HttpAnswer {
    let format = negotiate::format(headers);
    let answer = text(headers, readings, connection, format.into()).await;
    with(answer, header::VARY, "Accept, Accept-Encoding")
}

async fn node(headers: &HeaderMap, readings: &SnapshotClient, connection: &Arc<Connection>) -> HttpAnswer {
    let answer = text(headers, readings, connection, SnapshotEncoding::Node).await;
    with(with(answer, header::CACHE_CONTROL, "no-store"), header::VARY, "Accept-Encoding")
}

async fn text(
    headers: &HeaderMap,
    readings: &SnapshotClient,
    connection: &Arc<Connection>,
    kind: SnapshotEncoding,
) -> HttpAnswer {
    let Some(text) = readings.text(kind, negotiate::scrape_timeout(headers)).await else {
        return not_yet(connection);
    };
    let zip = text.plain.len() >= MIN_COMPRESSED_BYTES && negotiate::takes_gzip(headers);
    let number = text.number;
    let text = if zip { text.zipped().await } else { text.plain.clone() };
    let Ok(text) = connection.track_snapshot(number, text) else { return unread(connection) };
    let answer = with(Response::new(Full::from(text)), header::CONTENT_TYPE, kind.content_type());
    if zip { with(answer, header::CONTENT_ENCODING, "gzip") } else { answer }
}

fn healthy(readings: &SnapshotClient, connection: &Arc<Connection>) -> HttpAnswer {
    if readings.is_responding() {
        plain(connection, StatusCode::OK, "ok\n")
    } else {
        plain(
            connection,
            StatusCode::SERVICE_UNAVAILABLE,
            "the process that reads the node has not answered for a minute\n",
        )
    }
}

/// Ready from the first collection on.
fn ready(readings: &SnapshotClient, connection: &Arc<Connection>) -> HttpAnswer {
    if readings.has_snapshot() { plain(connection, StatusCode::OK, "ok\n") } else { not_yet(connection) }
}

fn not_yet(connection: &Arc<Connection>) -> HttpAnswer {
    plain(connection, StatusCode::SERVICE_UNAVAILABLE, "the first collection is not done yet\n")
}

fn unread(connection: &Arc<Connection>) -> HttpAnswer {
    later(plain(connection, StatusCode::SERVICE_UNAVAILABLE, UNREAD))
}

/// A file of the page. It is asked for anew each time: it may be another version's by now.
fn file(file: &'static PageFile, connection: &Arc<Connection>) -> HttpAnswer {
    let headers = [
        (header::CONTENT_TYPE, file.kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, page_files::POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let answer = Response::new(Full::from(connection.track_static(Bytes::from_static(file.text.as_bytes()))));
    headers.into_iter().fold(answer, |answer, (name, value)| with(answer, name, value))
}

fn plain(connection: &Arc<Connection>, status: StatusCode, text: &'static str) -> HttpAnswer {
    let mut answer = Response::new(Full::from(connection.track_static(Bytes::from_static(text.as_bytes()))));
    *answer.status_mut() = status;
    with(answer, header::CONTENT_TYPE, TEXT)
}

fn later(answer: HttpAnswer) -> HttpAnswer {
    with(answer, header::RETRY_AFTER, RETRY_AFTER_SECONDS)
}

fn with(mut answer: HttpAnswer, name: HeaderName, value: &'static str) -> HttpAnswer {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
