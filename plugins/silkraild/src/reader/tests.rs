//! The reader with a frontend that an attacker controls.

use std::{cell::Cell, time::Duration};

use clap::Parser;
use exporter::{Exporter, NoWorkloadResolver};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::yield_now,
};

use super::*;
use crate::{cli::SilkraildCli, snapshot_encoding::SnapshotEncoding};

/// A source of snapshots of a node without devices and pods.
fn source() -> (TempDir, SnapshotSource) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_str().unwrap();
    let cli =
        SilkraildCli::parse_from(["silkraild", "--root", path, "--state-dir", path, "--node-name", "n"]);
    let source =
        SnapshotSource::start(Exporter::new(cli.settings().unwrap(), Arc::new(NoWorkloadResolver)), None);
    (root, source)
}

fn request(id: u64, kind: Option<SnapshotEncoding>, held: Option<u64>) -> SnapshotRequest {
    SnapshotRequest { id, kind, within: Duration::from_secs(60), held, web: None }
}

async fn next_reply(stream: &mut UnixStream) -> (SnapshotReply, String) {
    let reply: SnapshotReply = read_message(stream).await.unwrap();
    let mut text = vec![0; reply.length.unwrap_or(0)];
    stream.read_exact(&mut text).await.unwrap();
    (reply, String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn each_text_is_sent_once_for_each_snapshot() {
    let (_root, source) = source();
    let (mut theirs, ours) = UnixStream::pair().unwrap();
    let serving = spawn(async move { serve_socket(ours, request(1, None, None), &source).await });
    let (first, nothing) = next_reply(&mut theirs).await;
    assert_eq!((first.id, first.number, nothing.as_str()), (1, Some(1), ""));
    for (kind, part) in [
        (SnapshotEncoding::Text, "rdma_exporter_build_info{"),
        (SnapshotEncoding::OpenMetrics, "# EOF"),
        (SnapshotEncoding::Node, "\"node\":\"n\""),
    ] {
        write_message(&mut theirs, &request(2, Some(kind), None), b"").await.unwrap();
        let (sent, text) = next_reply(&mut theirs).await;
        assert!(sent.id == 2 && text.contains(part), "{kind:?}: {text}");
        write_message(&mut theirs, &request(3, Some(kind), sent.number), b"").await.unwrap();
        let (again, _) = next_reply(&mut theirs).await;
        assert!(again.length.is_none() || again.number > sent.number, "{again:?}");
    }
    drop(theirs);
    assert_eq!(serving.await.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn an_invalid_request_ends_the_connection() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\x02{}", b"\0\x01\0\0"] {
        let (_root, source) = source();
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).await.unwrap();
        let end = serve_socket(ours, request(1, None, None), &source).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::InvalidData, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_frontend_that_does_not_read_replies_is_not_read_from() {
    let (_root, source) = source();
    let (mut theirs, ours) = UnixStream::pair().unwrap();
    let serving = spawn(async move { serve_socket(ours, request(0, None, None), &source).await });
    // From now on there is a snapshot, so only its replies make the reader wait.
    next_reply(&mut theirs).await;
    let sent = Cell::new(0);
    let flood = async {
        for id in 1..=1_000_000 {
            write_message(&mut theirs, &request(id, Some(SnapshotEncoding::Text), None), b"").await.unwrap();
            sent.set(id);
        }
    };
    tokio::select! {
        () = flood => panic!("it reads any number of requests"),
        () = stalls(&sent) => {}
    }
    assert!(!serving.is_finished());
}

/// Waits until a number does not grow any more, although every other task of this thread runs.
async fn stalls(number: &Cell<u64>) {
    let (mut seen, mut rounds) = (0, 0);
    while rounds < 10_000 {
        yield_now().await;
        rounds = if number.get() == seen { rounds + 1 } else { 0 };
        seen = number.get();
    }
}
