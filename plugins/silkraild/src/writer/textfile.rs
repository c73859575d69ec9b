//! A file for node_exporter's textfile collector.

use std::{
    panic::resume_unwind,
    path::{Path, PathBuf},
};

use tokio::{sync::watch, task::spawn_blocking};

/// The file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; does the directory exist, and can silkraild write to it?", path.display())]
pub(crate) struct TextfileError {
    path: PathBuf,
    source: statefile::Error,
}

/// Mode of the file: node_exporter runs as another user.
const MODE: u32 = 0o644;

/// Writes the file each time that there is a new text, atomically by rename. A failure is an error the first time, because the
/// options may be wrong; later it is only logged, because a full disk may have space again.
///
/// # Errors
/// [`TextfileError`] if the first write fails.
pub(crate) async fn write(path: &Path, mut texts: watch::Receiver<Vec<u8>>) -> Result<(), TextfileError> {
    let mut was_written = false;
    while texts.changed().await.is_ok() {
        let (file, text) = (path.to_owned(), texts.borrow_and_update().clone());
        // Not on the main thread: a disk may hang.
        let written = spawn_blocking(move || statefile::replace_with_mode(&file, MODE, &text)).await;
        match written.unwrap_or_else(|panic| resume_unwind(panic.into_panic())) {
            Ok(()) => was_written = true,
            Err(source) if !was_written => return Err(TextfileError { path: path.to_owned(), source }),
            Err(error) => tracing::error!("{error}"),
        }
    }
    Ok(())
}
