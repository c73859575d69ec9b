//! A file for node_exporter's textfile collector.

use std::{
    panic::resume_unwind,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sys::stat::{Mode, umask};
use tokio::task::spawn_blocking;

use crate::{snapshot_encoding::SnapshotEncoding, snapshot_source::SnapshotSource};

/// The file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("write {}: {source}; does the directory exist, and may silkraild write to it?", path.display())]
pub(crate) struct TextfileError {
    path: PathBuf,
    source: statefile::Error,
}

/// Whoever reads it is another user, whatever umask the daemon was started with.
const MODE: u32 = 0o644;

/// Writes the file now and after each interval: whoever reads it sees it whole, before and after. That it cannot be
/// written is an error the first time, a mistake in the options; later it is only said, for the disk may have room
/// again.
pub(crate) async fn write_periodically(
    path: &Path,
    interval: Duration,
    source: &SnapshotSource,
) -> Result<(), TextfileError> {
    umask(Mode::from_bits_truncate(!MODE & 0o777));
    let mut was_written = false;
    loop {
        if let Some(reading) = source.reading(interval).await {
            let text = reading.text(SnapshotEncoding::Text).await;
            let file = path.to_owned();
            // A disk may hang.
            let written = spawn_blocking(move || statefile::replace(&file, MODE, &text)).await;
            match written.unwrap_or_else(|panic| resume_unwind(panic.into_panic())) {
                Ok(()) => was_written = true,
                Err(source) if !was_written => return Err(TextfileError { path: path.to_owned(), source }),
                Err(error) => tracing::error!("{error}"),
            }
        }
        tokio::time::sleep(interval).await;
    }
}
