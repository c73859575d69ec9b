//! Against a frontend that somebody has taken over.

use std::time::Duration;

use clap::Parser;
use exporter::{Exporter, NoWorkloadResolver};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::*;
use crate::{SilkraildCli, snapshot_encoding::SnapshotEncoding};

/// Of a node that has nothing.
fn source() -> (TempDir, SnapshotSource) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_str().unwrap();
    let cli =
        SilkraildCli::parse_from(["silkraild", "--root", path, "--state-dir", path, "--node-name", "n"]);
    let source =
        SnapshotSource::start(Exporter::new(cli.settings().unwrap(), Arc::new(NoWorkloadResolver)), None);
    (root, source)
}

fn question(id: u64, kind: Option<SnapshotEncoding>, held: Option<u64>) -> SnapshotRequest {
    SnapshotRequest { id, kind, within: Duration::from_secs(60), held, web: None }
}

async fn answered(stream: &mut UnixStream) -> (SnapshotReply, String) {
    let answer: SnapshotReply = read_message(stream).await.unwrap();
    let mut text = vec![0; answer.length.unwrap_or(0)];
    stream.read_exact(&mut text).await.unwrap();
    (answer, String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn each_text_is_given_once_for_each_reading() {
    let (_root, source) = source();
    let (mut theirs, ours) = UnixStream::pair().unwrap();
    let serving = spawn(async move { answer(ours, question(1, None, None), &source).await });
    let (first, nothing) = answered(&mut theirs).await;
    assert_eq!((first.id, first.number, nothing.as_str()), (1, Some(1), ""));
    for (kind, part) in [
        (SnapshotEncoding::Text, "rdma_exporter_build_info{"),
        (SnapshotEncoding::OpenMetrics, "# EOF"),
        (SnapshotEncoding::Node, "\"node\":\"n\""),
    ] {
        write_message(&mut theirs, &question(2, Some(kind), None), b"").await.unwrap();
        let (given, text) = answered(&mut theirs).await;
        assert!(given.id == 2 && text.contains(part), "{kind:?}: {text}");
        write_message(&mut theirs, &question(3, Some(kind), given.number), b"").await.unwrap();
        let (again, _) = answered(&mut theirs).await;
        assert!(again.length.is_none() || again.number > given.number, "{again:?}");
    }
    drop(theirs);
    assert_eq!(serving.await.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn who_asks_as_a_frontend_does_not_is_not_served_any_more() {
    for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\x02{}", b"\0\x01\0\0"] {
        let (_root, source) = source();
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        theirs.write_all(said).await.unwrap();
        let end = answer(ours, question(1, None, None), &source).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::InvalidData, "{said:?}");
    }
}

#[tokio::test]
async fn who_asks_and_does_not_listen_is_not_heard_for_long() {
    let (_root, source) = source();
    let (mut theirs, ours) = UnixStream::pair().unwrap();
    let serving = spawn(async move { answer(ours, question(0, None, None), &source).await });
    let flood = async {
        for id in 1.. {
            write_message(&mut theirs, &question(id, Some(SnapshotEncoding::Text), None), b"").await.unwrap();
        }
    };
    assert!(timeout(Duration::from_secs(5), flood).await.is_err(), "it takes any number of questions");
    assert!(!serving.is_finished());
}
