//! The versions that programs have printed. A test of eight rails would otherwise start each program sixteen times more.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

/// Versions by the path and the modification time of the program, so that an upgrade is noticed.
#[derive(Debug, Default)]
pub struct VersionCache(Mutex<HashMap<(PathBuf, SystemTime), String>>);

impl VersionCache {
    /// Returns the version of the program at `path`: a known one, or what `read` returns.
    pub(super) fn get(&self, path: &Path, read: impl FnOnce() -> Option<String>) -> Option<String> {
        let Ok(modified) = path.metadata().and_then(|meta| meta.modified()) else { return read() };
        let key = (path.to_owned(), modified);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Some(known.clone());
        }
        // Not while it is locked: a program can take seconds.
        let version = read()?;
        lock().insert(key, version.clone());
        Some(version)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, time::Duration};

    use super::*;

    #[test]
    fn a_version_is_read_once_and_again_after_an_upgrade() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = VersionCache::default();
        let get = |text: &str| cache.get(file.path(), || Some(text.to_owned())).unwrap();
        assert_eq!([get("6.06"), get("6.07")], ["6.06", "6.06"]);
        let later = SystemTime::now() + Duration::from_secs(60);
        File::options().write(true).open(file.path()).unwrap().set_modified(later).unwrap();
        assert_eq!(get("6.07"), "6.07");
        let gone = Path::new("/nonexistent/ib_write_bw");
        assert_eq!(cache.get(gone, || None), None);
    }
}
