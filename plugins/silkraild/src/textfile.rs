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
#[error("cannot write {}: {source}; does the directory exist, and can silkraild write to it?", path.display())]
pub(crate) struct TextfileError {
    path: PathBuf,
    source: statefile::Error,
}

/// Mode of the file, regardless of the umask: node_exporter runs as another user.
const MODE: u32 = 0o644;

/// Writes the file now and after each interval, atomically by rename. A failure is an error the first time, because the
/// options may be wrong; later it is only logged, because a full disk may have space again.
///
/// # Errors
/// [`TextfileError`] if the first write fails.
pub(crate) async fn write_periodically(
    path: &Path,
    interval: Duration,
    source: &SnapshotSource,
) -> Result<(), TextfileError> {
    umask(Mode::from_bits_truncate(!MODE & 0o777));
    let mut was_written = false;
    loop {
        if let Some(snapshot) = source.snapshot(interval).await {
            let text = snapshot.text(SnapshotEncoding::Text).await;
            let file = path.to_owned();
            // Not on the main thread: a disk may hang.
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
