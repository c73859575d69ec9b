use std::{future::pending, net::Ipv4Addr};

use hyper::header;
use proptest::prelude::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    join,
    time::{Instant, sleep},
};

use webconfig::BasicCredentials;

use super::*;

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n";

/// A response with a body of `length` bytes, after a delay.
async fn respond(length: usize, after: Duration) -> Response<Full<Bytes>> {
    sleep(after).await;
    Response::new(Full::from(vec![b'.'; length]))
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_is_disconnected() {
    let (mut client, ours) = duplex(64);
    let began = Instant::now();
    let client_task = async {
        client.write_all(REQUEST).await.unwrap();
        while client.read_u8().await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    join!(client_task, serve_requests(ours, |_| respond(100_000, Duration::ZERO), pending()));
    assert!(began.elapsed() >= CONNECTION_MAX_AGE + DRAIN_TIMEOUT);
    // The client could still read what had been sent before.
    assert!(
        began.elapsed() < CONNECTION_MAX_AGE + DRAIN_TIMEOUT + Duration::from_secs(70),
        "{:?}",
        began.elapsed()
    );
}

/// With TLS, each new connection costs a handshake.
#[tokio::test(start_paused = true)]
async fn prometheus_keeps_its_connection_for_several_scrapes_a_minute_apart() {
    let (mut client, ours) = duplex(4096);
    let client_task = async {
        for scrape in 0..9 {
            client.write_all(REQUEST).await.unwrap();
            let mut last = [0; 4];
            while !last.ends_with(b"....") {
                last.rotate_left(1);
                last[3] = client.read_u8().await.unwrap_or_else(|error| panic!("scrape {scrape}: {error}"));
            }
            sleep(Duration::from_secs(60)).await;
        }
        drop(client);
    };
    join!(client_task, serve_requests(ours, |_| respond(4, Duration::ZERO), pending()));
}

#[tokio::test(start_paused = true)]
async fn a_request_in_progress_at_the_maximum_age_is_still_served() {
    let (mut client, ours) = duplex(64);
    let late = CONNECTION_MAX_AGE + DRAIN_TIMEOUT / 2;
    let client_task = async {
        client.write_all(REQUEST).await.unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        text
    };
    let (text, ()) = join!(client_task, serve_requests(ours, |_| respond(1000, late), pending()));
    assert!(text.ends_with(&".".repeat(1000)), "{text}");
}

/// Without vectored writes, hyper copies the body of each response into its buffer.
#[tokio::test]
async fn responses_are_not_copied_into_streams() {
    let (_client, ours) = duplex(64);
    assert!(ours.is_write_vectored());
    let (connection, _end) = Connections::with_limits(endpoint::ListenerRole::Metrics.limits())
        .register(Ipv4Addr::LOCALHOST.into());
    assert!(TrackedStream::new(ours, connection).is_write_vectored());
}

#[tokio::test]
async fn a_request_with_endless_headers_is_refused() {
    let (mut client, ours) = duplex(1024);
    let client_task = async {
        let _ = client.write_all(&REQUEST[..REQUEST.len() - 2]).await;
        for _ in 0..MAX_HEADER_BYTES / 100 {
            let _ = client.write_all(format!("X: {}\r\n", "x".repeat(100)).as_bytes()).await;
        }
        let mut text = String::new();
        let _ = client.read_to_string(&mut text).await;
        text
    };
    let (text, ()) = join!(client_task, serve_requests(ours, |_| respond(1, Duration::ZERO), pending()));
    assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
}

/// Parses everything that the server reads from a request.
async fn parse_request(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let headers = request.headers();
    let login =
        headers.get(header::AUTHORIZATION).and_then(|value| BasicCredentials::from_header(value.as_bytes()));
    let within = negotiate::scrape_timeout(headers);
    assert!(within <= Duration::from_secs(3600), "{within:?}");
    let read = format!("{:?} {login:?} {}", negotiate::format(headers), negotiate::takes_gzip(headers));
    Response::new(Full::from(read + request.uri().path()))
}

fn converse(bytes: &[u8]) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut client, ours) = duplex(1 << 20);
        client.write_all(bytes).await.unwrap();
        client.shutdown().await.unwrap();
        serve_requests(ours, parse_request, pending()).await;
        let mut response = Vec::new();
        client.read_to_end(&mut response).await.unwrap();
        response
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic_and_get_a_response_or_none(
        bytes in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        let response = converse(&bytes);
        prop_assert!(response.is_empty() || response.starts_with(b"HTTP/1."), "{response:?}");
    }

    #[test]
    fn arbitrary_headers_get_a_response(
        name in "(accept|accept-encoding|authorization|x-prometheus-scrape-timeout-seconds|te|connection|content-length|transfer-encoding|expect|[a-z-]{1,20})",
        value in "([ -~\\x80-\\xff]{0,60}|basic [A-Za-z0-9+/=]{0,40}|[a-z/;=,.* -]{0,60}|[0-9.e+-]{0,12})",
        path in "/[!-~]{0,40}",
    ) {
        let mut head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{name}: ").into_bytes();
        head.extend(value.chars().map(|letter| u8::try_from(letter).unwrap()));
        head.extend(b"\r\n\r\n");
        let response = converse(&head);
        prop_assert!(response.is_empty() || response.starts_with(b"HTTP/1.1 "), "{response:?}");
    }
}
