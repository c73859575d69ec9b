//! The content of the file for node_exporter's textfile collector.

use std::{convert::Infallible, time::Duration};

use crate::{
    channel::WrittenFile, reader::FileSender, snapshot_encoding::SnapshotEncoding,
    snapshot_source::SnapshotSource,
};

/// Sends the content of the file now and after each interval.
pub(crate) async fn send_periodically(
    interval: Duration,
    source: &SnapshotSource,
    writer: &FileSender,
) -> Infallible {
    loop {
        if let Some(snapshot) = source.snapshot(interval).await {
            writer.send(WrittenFile::Textfile, snapshot.text(SnapshotEncoding::Text).await);
        }
        tokio::time::sleep(interval).await;
    }
}
