//! Waits for changes of a directory.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use inotify::{EventMask, EventStream, Inotify, WatchMask};
use tokio_stream::StreamExt;

/// Waits for entries of a directory that appear or disappear.
#[derive(Debug)]
pub struct DirectoryWatch {
    path: PathBuf,
    /// `None` while the directory does not exist.
    events: Option<EventStream<[u8; 4096]>>,
}

/// The longest time until a change is seen that inotify does not report, such as a new directory.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl DirectoryWatch {
    /// Watches a directory, which may not exist yet.
    pub fn new(path: PathBuf) -> Self {
        let events = watch(&path).ok();
        Self { path, events }
    }

    /// Waits until the directory may have changed, at most a second.
    pub async fn changed(&mut self) {
        let Some(events) = &mut self.events else {
            tokio::time::sleep(POLL_INTERVAL).await;
            self.events = watch(&self.path).ok();
            return;
        };
        match tokio::time::timeout(POLL_INTERVAL, events.next()).await {
            Ok(Some(Ok(event))) if !event.mask.contains(EventMask::IGNORED) => {}
            // The directory was deleted.
            Ok(_) => self.events = watch(&self.path).ok(),
            Err(_) => {}
        }
    }
}

fn watch(path: &Path) -> io::Result<EventStream<[u8; 4096]>> {
    let inotify = Inotify::init()?;
    let entries = WatchMask::CREATE | WatchMask::DELETE | WatchMask::MOVED_TO;
    inotify.watches().add(path, entries | WatchMask::DELETE_SELF | WatchMask::ONLYDIR)?;
    inotify.into_event_stream([0; 4096])
}
