//! What `silkrail gc --yes` has reverted since the boot, for metrics.
//!
//! The file is below the state directory, which a reboot empties.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// The file, below the state directory.
const FILE: &str = "gc.json";

/// Mode of the file: it contains counts only.
const MODE: u32 = 0o644;

/// How long another run may hold the lock of the state directory, under which it writes the record.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Resources by kind: `vf`, `address`.
pub type CountsByKind = BTreeMap<String, u64>;

/// The runs of `silkrail gc --yes` since the boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcRecord {
    /// End of the last run, in seconds since 1970.
    pub time: u64,
    /// Resources that were reverted, by all runs.
    pub reverted: CountsByKind,
    /// Stale resources that the last run could not revert.
    pub left: CountsByKind,
}

/// The record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum GcRecordError {
    /// The file cannot be accessed.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// The state directory cannot be opened.
    #[error("{}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The file has other contents.
    #[error("{FILE}: {0}; delete the file")]
    Malformed(#[from] serde_json::Error),
}

impl GcRecord {
    /// Reads the record below a state directory; `None` before the first run.
    ///
    /// # Errors
    /// If the file cannot be read, or is malformed.
    pub fn read(state_dir: &Path) -> Result<Option<Self>, GcRecordError> {
        let content = statefile::read(&state_dir.join(FILE))?;
        Ok(content.map(|content| serde_json::from_slice(&content)).transpose()?)
    }

    /// Adds a run that has just ended to the record below a state directory. A malformed record is replaced.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn add_run(
        state_dir: &Path,
        reverted: CountsByKind,
        left: CountsByKind,
    ) -> Result<(), GcRecordError> {
        let directory = File::open(state_dir)
            .map_err(|source| GcRecordError::Directory { path: state_dir.to_owned(), source })?;
        statefile::lock(&directory, state_dir, Instant::now() + LOCK_TIMEOUT)?;
        let mut record = match Self::read(state_dir) {
            Ok(record) => record.unwrap_or_default(),
            Err(GcRecordError::Malformed(_)) => Self::default(),
            Err(error) => return Err(error),
        };
        record.time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for (kind, count) in reverted {
            let total = record.reverted.entry(kind).or_default();
            *total = total.saturating_add(count);
        }
        record.left = left;
        Ok(statefile::replace(&state_dir.join(FILE), MODE, &serde_json::to_vec(&record)?)?)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, thread};

    use super::*;

    fn counts(kind: &str, count: u64) -> CountsByKind {
        [(kind.to_owned(), count)].into()
    }

    #[test]
    fn runs_are_summed_and_the_rest_is_that_of_the_last_run() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(GcRecord::read(dir.path()).unwrap(), None);
        GcRecord::add_run(dir.path(), counts("vf", 2), counts("address", 1)).unwrap();
        GcRecord::add_run(dir.path(), counts("vf", 3), counts("address", 0)).unwrap();
        let record = GcRecord::read(dir.path()).unwrap().unwrap();
        assert_eq!((record.reverted, record.left), (counts("vf", 5), counts("address", 0)));
        GcRecord::add_run(dir.path(), counts("address", 4), counts("vf", 1)).unwrap();
        let record = GcRecord::read(dir.path()).unwrap().unwrap();
        let sums = [("address".to_owned(), 4), ("vf".to_owned(), 5)];
        assert_eq!((record.reverted, record.left), (sums.into(), counts("vf", 1)));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!((now - 60..=now).contains(&record.time), "{}", record.time);
    }

    #[test]
    fn concurrent_runs_are_all_counted() {
        let dir = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| GcRecord::add_run(dir.path(), counts("vf", 1), counts("vf", 0)).unwrap());
            }
        });
        assert_eq!(GcRecord::read(dir.path()).unwrap().unwrap().reverted, counts("vf", 8));
    }

    #[test]
    fn a_malformed_record_is_an_error_and_the_next_run_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(matches!(GcRecord::read(dir.path()), Err(GcRecordError::Malformed(_))));
        GcRecord::add_run(dir.path(), counts("vf", 1), counts("vf", 0)).unwrap();
        assert_eq!(GcRecord::read(dir.path()).unwrap().unwrap().reverted, counts("vf", 1));
    }

    #[test]
    fn a_counter_at_its_end_stays_there_and_a_missing_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        GcRecord::add_run(dir.path(), counts("vf", u64::MAX), CountsByKind::new()).unwrap();
        GcRecord::add_run(dir.path(), counts("vf", 2), CountsByKind::new()).unwrap();
        assert_eq!(GcRecord::read(dir.path()).unwrap().unwrap().reverted, counts("vf", u64::MAX));
        let missing = dir.path().join("none");
        let added = GcRecord::add_run(&missing, counts("vf", 1), CountsByKind::new());
        assert!(matches!(added, Err(GcRecordError::Directory { .. })), "{added:?}");
        let odd = dir.path().join("odd");
        fs::create_dir(&odd).unwrap();
        symlink("elsewhere", odd.join(FILE)).unwrap();
        assert!(matches!(GcRecord::read(&odd), Err(GcRecordError::File(_))));
        let added = GcRecord::add_run(&odd, counts("vf", 1), CountsByKind::new());
        assert!(
            matches!(added, Err(GcRecordError::File(_))),
            "only a malformed record is replaced: {added:?}"
        );
    }
}
