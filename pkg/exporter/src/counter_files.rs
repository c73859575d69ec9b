//! Counters in sysfs, one file each.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{CollectError, Collector, ErrorReason, RawCounters, device_reading::CounterNames};

/// The number of counter files that can still be kept open, over all devices.
#[derive(Debug, Clone)]
pub(crate) struct OpenFileBudget(Arc<AtomicUsize>);

/// One file of the budget; dropping the permit returns it to the budget.
#[derive(Debug)]
struct OpenFilePermit(Arc<AtomicUsize>);

impl OpenFileBudget {
    pub(crate) fn new(files: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(files)))
    }

    fn take(&self) -> Option<OpenFilePermit> {
        let less = |left: usize| left.checked_sub(1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok().then(|| OpenFilePermit(self.0.clone()))
    }
}

impl Drop for OpenFilePermit {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counter files of one directory. They are kept open while the budget allows it: then a reading is one pread(2) each.
///
/// Open files remain readable when the device is renamed, and fail with `ENODEV` when it is removed.
#[derive(Debug, Default)]
pub(crate) struct CounterFiles {
    files: Vec<CounterFile>,
    /// The names of the files that had a value in the last reading.
    names: CounterNames,
    /// The directory, and the time when the first file was closed because it has no value.
    closed: Option<(PathBuf, Instant)>,
}

/// How long files without a value are not read. The kernel returns the same error if the driver does not implement a counter
/// and if a firmware command failed.
const RETRY_UNREADABLE_AFTER: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct CounterFile {
    name: String,
    access: FileAccess,
    /// Whether it had a value in the last reading.
    has_value: bool,
    /// Whether it ever had a value: then the driver implements it.
    had_value: bool,
}

#[derive(Debug)]
enum FileAccess {
    Kept(File, #[expect(dead_code, reason = "it is held")] OpenFilePermit),
    ByPath(PathBuf),
}

/// The result of reading one file.
enum FileValue {
    Value(u64),
    /// The driver has no value; the text is the reason.
    NoValue(String),
    /// The device is gone.
    Gone,
    Failed(io::Error),
}

impl CounterFiles {
    /// Opens the counter files of a directory. A missing directory has no files.
    pub(crate) fn open(dir: &Path, budget: &OpenFileBudget, errors: &mut Vec<CollectError>) -> Self {
        let mut files = Vec::new();
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "lifespan" {
                continue; // a setting: the maximum age of cached values, in milliseconds
            }
            let access = match budget.take().map(|permit| (File::open(entry.path()), permit)) {
                Some((Ok(file), permit)) => FileAccess::Kept(file, permit),
                Some((Err(error), _)) if error.kind() == io::ErrorKind::NotFound => continue,
                Some((Err(error), _)) => {
                    errors.push(read_error(&entry.path(), &error));
                    FileAccess::ByPath(entry.path())
                }
                None => FileAccess::ByPath(entry.path()),
            };
            files.push(CounterFile { name, access, has_value: false, had_value: false });
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Self { files, names: CounterNames::default(), closed: None }
    }

    /// Opens the directory again if files were closed more than [`RETRY_UNREADABLE_AFTER`] ago.
    pub(crate) fn try_again(&mut self, budget: &OpenFileBudget, errors: &mut Vec<CollectError>) {
        if let Some((dir, _)) = self.closed.take_if(|(_, since)| since.elapsed() > RETRY_UNREADABLE_AFTER) {
            self.files.clear(); // first: the new files need their budget
            *self = Self::open(&dir, budget, errors);
        }
    }

    /// Reads all files. A file that never had a value is closed.
    pub(crate) fn read(&mut self, dir: &Path, errors: &mut Vec<CollectError>) -> RawCounters {
        let mut values = Vec::with_capacity(self.files.len());
        let mut is_as_before = true;
        let (names, closed) = (&self.names, &mut self.closed);
        self.files.retain_mut(|file| {
            let keep = match read_values(&file.access) {
                FileValue::Value(value) => {
                    is_as_before &= names.get(values.len()) == Some(&file.name);
                    values.push(value);
                    (file.has_value, file.had_value) = (true, true);
                    return true;
                }
                FileValue::NoValue(why) if file.had_value => {
                    let what = format!("{}: {why}", dir.join(&file.name).display());
                    errors.push(CollectError {
                        collector: Collector::Counters,
                        reason: ErrorReason::Refused,
                        what,
                    });
                    true
                }
                FileValue::NoValue(why) => {
                    closed.get_or_insert_with(|| (dir.to_owned(), Instant::now()));
                    let path = dir.join(&file.name);
                    let delay = RETRY_UNREADABLE_AFTER.as_secs();
                    let what = format!("{}: {why}; next attempt in {delay} s", path.display());
                    errors.push(CollectError {
                        collector: Collector::Counters,
                        reason: ErrorReason::Unsupported,
                        what,
                    });
                    false
                }
                FileValue::Gone => false,
                FileValue::Failed(error) => {
                    errors.push(read_error(&dir.join(&file.name), &error));
                    true
                }
            };
            file.has_value = false;
            keep
        });
        if !is_as_before || self.names.len() != values.len() {
            self.names =
                self.files.iter().filter(|file| file.has_value).map(|file| file.name.clone()).collect();
        }
        RawCounters { names: self.names.clone(), values }
    }
}

fn read_values(access: &FileAccess) -> FileValue {
    let mut text = [0; 64];
    let read = match access {
        FileAccess::Kept(file, _) => file.read_at(&mut text, 0),
        FileAccess::ByPath(path) => File::open(path).and_then(|file| file.read_at(&mut text, 0)),
    };
    match read {
        Ok(length) => value(&String::from_utf8_lossy(&text[..length])),
        Err(error) => match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NODEV | rustix::io::Errno::NOENT) => FileValue::Gone,
            Some(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => {
                FileValue::NoValue(error.to_string())
            }
            _ => FileValue::Failed(error),
        },
    }
}

/// Parses the text of a file. Drivers without a value write `N/A (no PMA)` or nothing.
fn value(text: &str) -> FileValue {
    match text.trim().parse() {
        Ok(value) => FileValue::Value(value),
        Err(_) => FileValue::NoValue(format!("expected a number, got {:?}", text.trim())),
    }
}

fn read_error(path: &Path, error: &io::Error) -> CollectError {
    let what = format!("{}: {error}", path.display());
    CollectError { what, ..CollectError::new(Collector::Counters, error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(counters: &RawCounters, name: &str) -> Option<u64> {
        counters.iter().find(|counter| counter.0 == name).map(|counter| counter.1)
    }

    /// An empty file, a file with `N/A`, and a directory.
    #[test]
    fn files_without_a_value_are_skipped_and_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("port_xmit_data", "250\n"),
            ("symbol_error", "N/A (no PMA)\n"),
            ("link_downed", ""),
            ("port_rcv_data", "9007199254740993\n"),
            ("lifespan", "10\n"),
        ] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        fs::create_dir(dir.path().join("subdirectory")).unwrap();
        let mut errors = Vec::new();
        let mut files = CounterFiles::open(dir.path(), &OpenFileBudget::new(100), &mut errors);
        let counters = files.read(dir.path(), &mut errors);
        assert_eq!(counters.values.len(), 2, "{counters:?}");
        assert_eq!(named(&counters, "port_xmit_data"), Some(250));
        assert_eq!(named(&counters, "port_rcv_data"), Some(9007199254740993));
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert_eq!(errors.iter().filter(|t| t.reason == ErrorReason::Unsupported).count(), 2);

        fs::write(dir.path().join("port_xmit_data"), "251\n").unwrap();
        errors.clear();
        let again = files.read(dir.path(), &mut errors);
        assert_eq!(named(&again, "port_xmit_data"), Some(251));
        assert!(std::sync::Arc::ptr_eq(&again.names, &counters.names), "unchanged names are shared");
        assert_eq!(errors.len(), 1, "only the directory is read again: {errors:?}");
    }

    #[test]
    fn a_driver_without_counters_has_none() {
        let mut errors = Vec::new();
        let dir = Path::new("/nonexistent");
        let mut files = CounterFiles::open(dir, &OpenFileBudget::new(1), &mut errors);
        assert!(files.read(dir, &mut errors).is_empty());
        assert!(errors.is_empty());
    }

    #[test]
    fn files_that_may_not_be_kept_open_are_read_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(dir.path().join(name), "1\n").unwrap();
        }
        let (budget, mut errors) = (OpenFileBudget::new(2), Vec::new());
        let mut files = CounterFiles::open(dir.path(), &budget, &mut errors);
        let kept = |files: &CounterFiles| {
            files.files.iter().filter(|file| matches!(file.access, FileAccess::Kept(..))).count()
        };
        assert_eq!(kept(&files), 2);
        assert_eq!(files.read(dir.path(), &mut errors).values.len(), 3);
        drop(files);
        assert_eq!(
            kept(&CounterFiles::open(dir.path(), &budget, &mut errors)),
            2,
            "the permits were returned"
        );
        assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn a_file_that_is_gone_is_no_error_and_the_others_are_read() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["c", "a", "b"] {
            fs::write(dir.path().join(name), "1\n").unwrap();
        }
        let mut errors = Vec::new();
        let mut files = CounterFiles::open(dir.path(), &OpenFileBudget::new(0), &mut errors);
        let mut names = |errors: &mut Vec<CollectError>| files.read(dir.path(), errors).names.to_vec();
        assert_eq!(names(&mut errors), ["a", "b", "c"]);
        fs::remove_file(dir.path().join("a")).unwrap();
        assert_eq!(names(&mut errors), ["b", "c"]);
        fs::remove_file(dir.path().join("b")).unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        assert_eq!((names(&mut errors), errors.len()), (vec!["c".to_owned()], 1), "{errors:?}");
        fs::remove_dir(dir.path().join("b")).unwrap();
        fs::write(dir.path().join("b"), "2\n").unwrap();
        assert_eq!(names(&mut errors), ["b", "c"], "a failure is not for ever");
    }

    #[test]
    fn a_counter_that_had_a_value_is_always_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("port_rcv_data");
        let (budget, mut errors) = (OpenFileBudget::new(9), Vec::new());
        fs::write(&file, "7\n").unwrap();
        let mut files = CounterFiles::open(dir.path(), &budget, &mut errors);
        assert_eq!(files.read(dir.path(), &mut errors).values, [7]);
        fs::write(&file, "").unwrap();
        assert!(files.read(dir.path(), &mut errors).is_empty());
        assert!(errors.len() == 1 && errors[0].reason == ErrorReason::Refused, "{errors:?}");
        fs::write(&file, "9\n").unwrap();
        assert_eq!(files.read(dir.path(), &mut errors).values, [9]);
    }

    #[test]
    fn files_without_a_value_are_read_again_after_the_delay() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("symbol_error");
        let (budget, mut errors) = (OpenFileBudget::new(1), Vec::new());
        fs::write(&file, "").unwrap();
        let mut files = CounterFiles::open(dir.path(), &budget, &mut errors);
        assert!(files.read(dir.path(), &mut errors).is_empty());
        fs::write(&file, "3\n").unwrap();
        files.try_again(&budget, &mut errors);
        assert!(files.read(dir.path(), &mut errors).is_empty(), "too early");
        let long_ago = Instant::now().checked_sub(2 * RETRY_UNREADABLE_AFTER).unwrap();
        files.closed = Some((dir.path().to_owned(), long_ago));
        files.try_again(&budget, &mut errors);
        assert_eq!(files.read(dir.path(), &mut errors).values, [3]);
    }
}
