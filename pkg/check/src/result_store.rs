//! The results stored on this node: a file of limited size with one JSON object per line.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::libc;

use crate::{Error, error::io, test_result::TestResult};

/// Maximum number of results. When it is exceeded, the oldest fifth is removed.
const MAX_RESULTS: usize = 5000;

/// Maximum size of the file; a result has 2 to 8 KB.
const MAX_HISTORY_BYTES: u64 = 64 << 20;

/// How long to wait for another process that holds the lock.
const RESULTS_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The directory with the results, `/var/lib/silkrail/check`.
#[derive(Debug, Clone)]
pub struct ResultStore {
    dir: PathBuf,
    most: usize,
    longest: u64,
}

impl ResultStore {
    /// Returns the store of the node whose root directory is `root`.
    pub fn below(root: &Path) -> Self {
        Self { dir: root.join("var/lib/silkrail/check"), most: MAX_RESULTS, longest: MAX_HISTORY_BYTES }
    }

    /// Returns the path of the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the history file.
    pub fn path(&self) -> PathBuf {
        self.dir.join("history.jsonl")
    }

    /// Reads the results, the oldest first. Skips lines that cannot be parsed: a crash can have truncated a line, or a newer
    /// version can have written it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`] if the file is not a regular file or too large.
    pub fn read(&self) -> Result<Vec<TestResult>, Error> {
        match self.open(OpenOptions::new().read(true)) {
            Ok(mut file) => self.records(&mut file),
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reads the result with this ID.
    ///
    /// # Errors
    /// [`Error::NoRecord`]; and those of [`ResultStore::read`].
    pub fn find(&self, id: u64) -> Result<TestResult, Error> {
        let found = self.read()?.into_iter().rev().find(|record| record.id == id);
        found.ok_or_else(|| Error::NoRecord { id: id.to_string(), path: self.path() })
    }

    /// Appends a result and sets its ID to the next number.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::State`] if another process holds the lock for 10 s.
    pub fn append(&self, record: &mut TestResult) -> Result<(), Error> {
        self.append_all(std::slice::from_mut(record))
    }

    /// Appends several results, in their order.
    ///
    /// # Errors
    /// Those of [`ResultStore::append`].
    pub fn append_all(&self, records: &mut [TestResult]) -> Result<(), Error> {
        statefile::make_dir(&self.dir, 0o755)?;
        // The lock is a separate file, because the history file can be replaced.
        let lock_path = self.dir.join("history.lock");
        let lock = self.open_at(&lock_path, OpenOptions::new().write(true).create(true).truncate(false))?;
        statefile::lock(&lock, &lock_path, Instant::now() + RESULTS_LOCK_TIMEOUT)?;
        let mut file = self.open(OpenOptions::new().read(true).append(true).create(true))?;
        let mut kept = self.records(&mut file)?;
        let last = kept.iter().map(|record| record.id).max().unwrap_or(0);
        for (record, id) in records.iter_mut().zip(last.saturating_add(1)..) {
            record.id = id;
        }
        let length = file.metadata().map_or(0, |meta| meta.len());
        let added = u64::try_from(lines(records).len()).unwrap_or(u64::MAX);
        // `>=`: a newline is added if the last line is truncated.
        if kept.len() + records.len() > self.most || length.saturating_add(added) >= self.longest {
            kept.extend_from_slice(records);
            return Ok(statefile::replace(&self.path(), 0o644, &self.newest(&kept))?);
        }
        let mut text = if self.is_truncated(&mut file)? { b"\n".to_vec() } else { Vec::new() };
        text.extend(lines(records));
        file.write_all(&text).map_err(io(format!("write {}", self.path().display())))
    }

    /// Returns the newest results as lines: at most four fifths of the maximum number and size. The size of a result varies,
    /// because it contains counters sent by a peer.
    fn newest(&self, records: &[TestResult]) -> Vec<u8> {
        let mut room = self.longest / 5 * 4;
        let kept =
            records.iter().rev().take(self.most * 4 / 5).map(|record| lines(std::slice::from_ref(record)));
        let fits = |line: &Vec<u8>| {
            let left = u64::try_from(line.len()).ok().and_then(|length| room.checked_sub(length));
            left.inspect(|left| room = *left).is_some()
        };
        let mut newest: Vec<Vec<u8>> = kept.take_while(fits).collect();
        newest.reverse();
        newest.concat()
    }

    /// Whether the last line has no newline.
    fn is_truncated(&self, file: &mut File) -> Result<bool, Error> {
        let failed = |source| io(format!("read {}", self.path().display()))(source);
        if file.metadata().map_err(failed)?.len() == 0 {
            return Ok(false);
        }
        let mut last = [0];
        file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).map_err(failed)?;
        Ok(last != *b"\n")
    }

    fn records(&self, file: &mut File) -> Result<Vec<TestResult>, Error> {
        let mut text = Vec::new();
        let read = file.take(self.longest + 1).read_to_end(&mut text);
        let length = read.map_err(io(format!("read {}", self.path().display())))?;
        if u64::try_from(length).is_ok_and(|length| length > self.longest) {
            return Err(Error::Malformed { path: self.path(), why: "too large for a history file".into() });
        }
        let lines = text.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    fn open(&self, options: &mut OpenOptions) -> Result<File, Error> {
        self.open_at(&self.path(), options)
    }

    fn open_at(&self, path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
        let options = options.mode(0o644).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open(path).map_err(io(format!("open {}", path.display())))?;
        if !file.metadata().is_ok_and(|meta| meta.is_file()) {
            return Err(Error::Malformed { path: path.to_owned(), why: "not a regular file".into() });
        }
        Ok(file)
    }

    /// Atomically replaces a file in the directory of the results.
    ///
    /// # Errors
    /// [`Error::State`].
    pub fn write(&self, name: &'static str, text: &str) -> Result<PathBuf, Error> {
        let path = self.dir.join(name);
        statefile::replace(&path, 0o644, text.as_bytes())?;
        Ok(path)
    }
}

fn lines(records: &[TestResult]) -> Vec<u8> {
    let mut text = Vec::new();
    for record in records {
        // Serializing cannot fail: all keys are strings.
        text.extend(serde_json::to_vec(record).unwrap_or_default());
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::test_result::tests::record;

    fn store() -> (tempfile::TempDir, ResultStore) {
        let root = tempfile::tempdir().unwrap();
        let store = ResultStore { most: 10, ..ResultStore::below(root.path()) };
        (root, store)
    }

    #[test]
    fn results_are_numbered_and_read_back_unchanged() {
        let (_root, store) = store();
        assert!(store.read().unwrap().is_empty());
        let mut written = record(94.3);
        store.append(&mut written).unwrap();
        store.append_all(&mut [record(95.0), record(96.0)]).unwrap();
        let read = store.read().unwrap();
        assert_eq!(read.iter().map(|record| record.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(read[0], written);
        assert_eq!(store.find(3).unwrap().value(), Some(96.0));
        assert!(matches!(store.find(4), Err(Error::NoRecord { .. })));
    }

    #[test]
    fn an_id_is_above_all_others_and_the_last_result_with_it_is_found() {
        let (_root, store) = store();
        let with_id = |id, gbps| TestResult { id, ..record(gbps) };
        fs::create_dir_all(store.dir()).unwrap();
        let edited = [with_id(7, 1.0), with_id(2, 2.0), with_id(2, 3.0)];
        fs::write(store.path(), lines(&edited)).unwrap();
        assert_eq!(store.find(2).unwrap().value(), Some(3.0));
        let mut next = record(4.0);
        store.append(&mut next).unwrap();
        assert_eq!(next.id, 8);
    }

    #[test]
    fn a_truncated_line_affects_no_other_line() {
        let (_root, store) = store();
        store.append(&mut record(1.0)).unwrap();
        let mut file = OpenOptions::new().append(true).open(store.path()).unwrap();
        file.write_all(b"{\"id\":2,\"time\":17").unwrap();
        store.append(&mut record(3.0)).unwrap();
        let values: Vec<_> = store.read().unwrap().iter().filter_map(TestResult::value).collect();
        assert_eq!(values, [1.0, 3.0]);
    }

    #[test]
    fn the_oldest_results_are_removed_when_there_are_too_many() {
        let (_root, store) = store();
        for _ in 0..25 {
            store.append(&mut record(1.0)).unwrap();
            assert!(store.read().unwrap().len() <= 10);
        }
        let read = store.read().unwrap();
        assert_eq!(read.last().unwrap().id, 25, "IDs are not reused");
        assert!(read.len() >= 8);
    }

    #[test]
    fn the_oldest_results_are_removed_when_the_file_is_too_large() {
        let (_root, store) = store();
        let store = ResultStore { most: MAX_RESULTS, longest: 10_000, ..store };
        for number in 1..30 {
            store.append(&mut record(1.0)).unwrap();
            assert_eq!(store.read().unwrap().last().unwrap().id, number);
        }
        let kept = store.read().unwrap().len();
        assert!((5..29).contains(&kept), "{kept}");
    }

    #[test]
    fn concurrent_results_are_all_stored() {
        let (_root, store) = store();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| store.append(&mut record(1.0)).unwrap());
            }
        });
        let mut ids: Vec<_> = store.read().unwrap().iter().map(|record| record.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let (root, store) = store();
        let precious = root.path().join("precious");
        fs::write(&precious, "x").unwrap();
        fs::create_dir_all(store.dir()).unwrap();
        std::os::unix::fs::symlink(&precious, store.path()).unwrap();
        assert!(store.append(&mut record(1.0)).is_err());
        assert_eq!(fs::read(&precious).unwrap(), b"x");
    }
}
