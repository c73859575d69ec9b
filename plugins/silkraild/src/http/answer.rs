//! What is answered to a request.

use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderName, HeaderValue},
};

use super::negotiate;
use crate::{
    page::{self, File},
    source::{Source, Text},
};

type Answer = Response<Full<Bytes>>;

/// Below this an answer goes as fast uncompressed.
const WORTH_COMPRESSING: usize = 8 * 1024;

const TEXT: &str = "text/plain; charset=utf-8";

const NOT_FOUND: &str = "not found; there are /, /metrics, /api/v1/node, /healthz and /readyz\n";

/// Answers a request.
pub(super) async fn to<B>(request: &Request<B>, source: &Source) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let answer = plain(StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD\n");
        return with(answer, header::ALLOW, "GET, HEAD");
    }
    match request.uri().path() {
        "/metrics" => metrics(request.headers(), source).await,
        "/api/v1/node" => node(request.headers(), source).await,
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        "/readyz" => ready(source),
        path => File::at(path).map_or_else(|| plain(StatusCode::NOT_FOUND, NOT_FOUND), file),
    }
}

async fn metrics(headers: &HeaderMap, source: &Source) -> Answer {
    let Some(reading) = source.reading(negotiate::patience(headers)).await else { return not_yet() };
    let format = negotiate::format(headers);
    let answer = body(headers, reading.metrics(format));
    with(with(answer, header::CONTENT_TYPE, format.content_type()), header::VARY, "Accept, Accept-Encoding")
}

async fn node(headers: &HeaderMap, source: &Source) -> Answer {
    let Some(reading) = source.reading(negotiate::patience(headers)).await else { return not_yet() };
    let answer = with(body(headers, reading.view()), header::CONTENT_TYPE, "application/json");
    with(with(answer, header::CACHE_CONTROL, "no-store"), header::VARY, "Accept-Encoding")
}

fn body(headers: &HeaderMap, text: &Text) -> Answer {
    let plain = text.plain();
    if plain.len() >= WORTH_COMPRESSING && negotiate::takes_gzip(headers) {
        let answer = Response::new(Full::from(text.zipped()));
        with(answer, header::CONTENT_ENCODING, "gzip")
    } else {
        Response::new(Full::from(plain))
    }
}

/// Ready from the first collection on.
fn ready(source: &Source) -> Answer {
    match source.latest() {
        Some(_) => plain(StatusCode::OK, "ok\n"),
        None => not_yet(),
    }
}

fn not_yet() -> Answer {
    plain(StatusCode::SERVICE_UNAVAILABLE, "the first collection is not done yet\n")
}

/// A file of the page. It is asked for anew each time: it may be another version's by now.
fn file(file: &'static File) -> Answer {
    let headers = [
        (header::CONTENT_TYPE, file.kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, page::POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let answer = Response::new(Full::from(file.text));
    headers.into_iter().fold(answer, |answer, (name, value)| with(answer, name, value))
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    with(answer, header::CONTENT_TYPE, TEXT)
}

fn with(mut answer: Answer, name: HeaderName, value: &'static str) -> Answer {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
