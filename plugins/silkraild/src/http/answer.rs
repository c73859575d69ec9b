//! What is answered to a request.

use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderName, HeaderValue},
};

use super::negotiate;
use crate::source::Source;

type Answer = Response<Full<Bytes>>;

/// Below this an answer goes as fast uncompressed.
const WORTH_COMPRESSING: usize = 8 * 1024;

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request.
pub(super) async fn to<B>(request: &Request<B>, source: &Source) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let answer = plain(StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD\n");
        return with(answer, header::ALLOW, "GET, HEAD");
    }
    match request.uri().path() {
        "/" => page(),
        "/metrics" => metrics(request.headers(), source).await,
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        "/readyz" => ready(source),
        _ => plain(StatusCode::NOT_FOUND, "not found; there are /, /metrics, /healthz and /readyz\n"),
    }
}

async fn metrics(headers: &HeaderMap, source: &Source) -> Answer {
    let Some(reading) = source.reading(negotiate::patience(headers)).await else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the first collection is not done yet\n");
    };
    let format = negotiate::format(headers);
    let text = reading.text(format);
    let answer = if text.len() >= WORTH_COMPRESSING && negotiate::takes_gzip(headers) {
        let answer = Response::new(Full::from(Bytes::from_owner(reading.zipped(format))));
        with(answer, header::CONTENT_ENCODING, "gzip")
    } else {
        Response::new(Full::from(Bytes::from_owner(Text(text))))
    };
    with(with(answer, header::CONTENT_TYPE, format.content_type()), header::VARY, "Accept, Accept-Encoding")
}

/// Bytes that are shared by all who asked.
struct Text(std::sync::Arc<str>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Ready from the first collection on.
fn ready(source: &Source) -> Answer {
    match source.latest() {
        Some(_) => plain(StatusCode::OK, "ok\n"),
        None => plain(StatusCode::SERVICE_UNAVAILABLE, "the first collection is not done yet\n"),
    }
}

fn page() -> Answer {
    plain(StatusCode::OK, "silkraild: see /metrics\n")
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
