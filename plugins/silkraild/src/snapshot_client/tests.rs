//! The cache with a reader that is slow or hangs.

use tokio::{spawn, time::sleep};

use super::*;
use crate::channel::{SnapshotReply, SnapshotRequest, read_message, write_message};

/// A reader that has snapshot 7 and never a new one: it replies after the timeout of each request.
async fn slow(mut stream: UnixStream) {
    let (mut requests, mut replies) = stream.split();
    let (late, mut ready) = tokio::sync::mpsc::unbounded_channel();
    loop {
        select! {
            request = read_message::<SnapshotRequest>(&mut requests) => {
                let Ok(request) = request else { return };
                let late = late.clone();
                spawn(async move {
                    sleep(request.within).await;
                    let _ = late.send(request);
                });
            }
            Some(request) = ready.recv() => {
                let text = b"seven";
                let length = (request.kind.is_some() && request.held != Some(7)).then_some(text.len());
                let reply = SnapshotReply { id: request.id, number: Some(7), length };
                write_message(&mut replies, &reply, if length.is_some() { text } else { b"" }).await.unwrap();
            }
        }
    }
}

fn connect(stream: UnixStream) -> SnapshotClient {
    let (snapshots, task) = SnapshotClient::new(stream, WebConfigReloader::default());
    spawn(task);
    snapshots
}

#[tokio::test(start_paused = true)]
async fn a_long_request_does_not_delay_the_latest_snapshot() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let snapshots = connect(ours);
    spawn(slow(theirs));
    let long = snapshots.clone();
    let long = spawn(async move { long.text(SnapshotEncoding::Text, Duration::from_secs(3600)).await });
    sleep(Duration::from_millis(1)).await;
    let began = Instant::now();
    let others: Vec<_> = (0..100)
        .map(|_| {
            let snapshots = snapshots.clone();
            spawn(
                async move { snapshots.text(SnapshotEncoding::Text, Duration::from_secs(1)).await.unwrap() },
            )
        })
        .collect();
    for other in others {
        let text = other.await.unwrap();
        assert_eq!((text.number, &text.plain[..]), (7, &b"seven"[..]));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    assert!(long.await.unwrap().is_some());
    assert!(began.elapsed() < MAX_REQUEST_TIME + LATEST_TIMEOUT, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_silent_reader_delays_no_client_beyond_its_timeout_and_counts_as_hung() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let snapshots = connect(ours);
    let began = Instant::now();
    let clients: Vec<_> = (0..100)
        .map(|_| {
            let snapshots = snapshots.clone();
            spawn(async move { snapshots.text(SnapshotEncoding::Node, Duration::from_secs(1)).await })
        })
        .collect();
    for client in clients {
        assert!(client.await.unwrap().is_none());
    }
    assert!(began.elapsed() <= Duration::from_millis(1010), "{:?}", began.elapsed());
    assert!(snapshots.is_responding() && !snapshots.has_snapshot());
    sleep(HUNG_TIMEOUT).await;
    assert!(!snapshots.is_responding());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_leaves_no_request_behind() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let snapshots = connect(ours);
    for _ in 0..10 {
        let request = snapshots.text(SnapshotEncoding::Text, Duration::from_secs(5));
        assert!(timeout(Duration::from_secs(1), request).await.is_err());
    }
    sleep(Duration::from_secs(60)).await;
    assert!(snapshots.0.sender.waiting() <= 1, "only the keepalive");
}

/// A reader that replies to each request at once with a newer snapshot, until it hangs.
async fn quick(mut stream: UnixStream, mut replies: u64) {
    let mut number = 0;
    while let Ok(request) = read_message::<SnapshotRequest>(&mut stream).await {
        if replies == 0 {
            return std::future::pending().await;
        }
        let Some(kind) = request.kind else {
            let reply =
                SnapshotReply { id: request.id, number: (number > 0).then_some(number), length: None };
            write_message(&mut stream, &reply, b"").await.unwrap();
            continue;
        };
        replies -= 1;
        number += 1;
        let text = format!("{kind:?} {number}");
        let reply = SnapshotReply { id: request.id, number: Some(number), length: Some(text.len()) };
        write_message(&mut stream, &reply, text.as_bytes()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn each_encoding_has_its_own_latest_snapshot_which_is_served_while_the_reader_hangs() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let snapshots = connect(ours);
    spawn(quick(theirs, 3));
    let within = Duration::from_secs(8);
    let text = async |kind| {
        let text = snapshots.text(kind, within).await.unwrap();
        String::from_utf8(text.plain.to_vec()).unwrap()
    };
    assert!(!snapshots.has_snapshot());
    assert_eq!(text(SnapshotEncoding::Text).await, "Text 1");
    assert_eq!(text(SnapshotEncoding::Node).await, "Node 2");
    assert_eq!(text(SnapshotEncoding::Text).await, "Text 3");
    sleep(KEEPALIVE_INTERVAL).await;
    assert!(snapshots.has_snapshot());
    let began = Instant::now();
    assert_eq!(text(SnapshotEncoding::Text).await, "Text 3");
    assert!(began.elapsed() >= within / 2, "it waits as long as the reader may only be slow");
    sleep(UNRESPONSIVE_AFTER + KEEPALIVE_INTERVAL).await;
    let began = Instant::now();
    assert_eq!(text(SnapshotEncoding::Text).await, "Text 3");
    assert_eq!(text(SnapshotEncoding::Node).await, "Node 2");
    assert_eq!(began.elapsed(), Duration::ZERO, "no client waits for a reader that hangs");
    assert!(snapshots.is_responding(), "for a minute");
}

#[tokio::test]
async fn a_text_is_compressed_as_gzip_for_all_its_clients() {
    use std::io::Read;
    let plain = Bytes::from("rdma_port_up 1\n".repeat(1000));
    let text = Arc::new(EncodedSnapshot { number: 1, plain: plain.clone(), zipped: OnceCell::new() });
    let (one, other) = (text.zipped().await, text.zipped().await);
    assert!(one.len() < plain.len() / 10 && one.as_ptr() == other.as_ptr());
    let mut unzipped = Vec::new();
    flate2::read::GzDecoder::new(&one[..]).read_to_end(&mut unzipped).unwrap();
    assert_eq!(unzipped, plain);
}
