//! Against a reader that hangs.

use tokio::{spawn, time::sleep};

use super::*;
use crate::channel::{SnapshotReply, SnapshotRequest, read_message, write_message};

/// A reader that has reading 7, and never a fresh one: it answers when the time is up.
async fn slow(mut stream: UnixStream) {
    let (mut questions, mut answers) = stream.split();
    let (late, mut ready) = tokio::sync::mpsc::unbounded_channel();
    loop {
        select! {
            question = read_message::<SnapshotRequest>(&mut questions) => {
                let Ok(question) = question else { return };
                let late = late.clone();
                spawn(async move {
                    sleep(question.within).await;
                    let _ = late.send(question);
                });
            }
            Some(question) = ready.recv() => {
                let text = b"seven";
                let length = (question.kind.is_some() && question.held != Some(7)).then_some(text.len());
                let answer = SnapshotReply { id: question.id, number: Some(7), length };
                write_message(&mut answers, &answer, if length.is_some() { text } else { b"" }).await.unwrap();
            }
        }
    }
}

fn over(stream: UnixStream) -> SnapshotClient {
    let (readings, talk) = SnapshotClient::new(stream, WebConfigReloader::default());
    spawn(talk);
    readings
}

#[tokio::test(start_paused = true)]
async fn who_waits_long_keeps_nobody_from_the_latest_reading() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let readings = over(ours);
    spawn(slow(theirs));
    let patient = readings.clone();
    let patient = spawn(async move { patient.text(SnapshotEncoding::Text, Duration::from_secs(3600)).await });
    sleep(Duration::from_millis(1)).await;
    let began = Instant::now();
    let others: Vec<_> = (0..100)
        .map(|_| {
            let readings = readings.clone();
            spawn(async move { readings.text(SnapshotEncoding::Text, Duration::from_secs(1)).await.unwrap() })
        })
        .collect();
    for other in others {
        let text = other.await.unwrap();
        assert_eq!((text.number, &text.plain[..]), (7, &b"seven"[..]));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    assert!(patient.await.unwrap().is_some());
    assert!(began.elapsed() < MAX_REQUEST_TIME + LATEST_TIMEOUT, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_says_nothing_is_waited_for_no_longer_than_it_may_take_and_is_not_well() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let readings = over(ours);
    let began = Instant::now();
    let crowd: Vec<_> = (0..100)
        .map(|_| {
            let readings = readings.clone();
            spawn(async move { readings.text(SnapshotEncoding::Node, Duration::from_secs(1)).await })
        })
        .collect();
    for one in crowd {
        assert!(one.await.unwrap().is_none());
    }
    assert!(began.elapsed() <= Duration::from_millis(1010), "{:?}", began.elapsed());
    assert!(readings.is_responding() && !readings.has_snapshot());
    sleep(HUNG_TIMEOUT).await;
    assert!(!readings.is_responding());
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_leaves_no_question_behind() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let readings = over(ours);
    for _ in 0..10 {
        let asking = readings.text(SnapshotEncoding::Text, Duration::from_secs(5));
        assert!(timeout(Duration::from_secs(1), asking).await.is_err());
    }
    sleep(Duration::from_secs(60)).await;
    assert!(readings.0.asker.waiting() <= 1, "that which keeps telling");
}
