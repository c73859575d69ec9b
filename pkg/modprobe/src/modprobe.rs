//! The RDMA mode of the next boot: `options ib_core netns_mode=0|1` in modprobe's configuration.
//!
//! The last setting takes effect: files are sorted by name, regardless of their directory, and the kernel command line
//! follows. This crate always writes `ib_core.conf`, the only file that the vendor's driver container mounts.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rdma::NetnsMode;
use serde::Serialize;

const DIR: &str = "etc/modprobe.d";
const FILE: &str = "ib_core.conf";
const KEY: &str = "netns_mode=";
const FILE_HEADER: &str =
    "# RDMA devices are 0: exclusive, 1: shared. Managed by silkrail: silkrail mode set\n";

/// modprobe's directories. A file hides files of the same name in later directories; see modprobe.d(5).
const DIRS: [&str; 5] =
    [DIR, "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"];

/// Timeout for the lock that another `silkrail` process holds.
const FILE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The configuration could not be read or written. The current mode is not changed either.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {operation} {}: {source}{}; nothing was changed", path.display(), remedy(source))]
    Io {
        /// The verb for the message, such as `open`.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The lock of the directory could not be acquired.
    #[error(transparent)]
    Lock(#[from] statefile::Error),
}

/// A remedy for common errors.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => " (run it as root)",
        io::ErrorKind::ReadOnlyFilesystem => {
            " (/etc is read-only: set options ib_core netns_mode where the image is built)"
        }
        io::ErrorKind::StorageFull => " (the file system is full: free space there)",
        _ => "",
    }
}

/// One setting in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModprobeOption {
    /// The file that contains it.
    pub path: PathBuf,
    /// The mode; `None` if the kernel does not accept the value.
    pub mode: Option<NetnsMode>,
}

/// The configuration below a root directory.
#[derive(Debug)]
pub struct ModprobeConfig {
    root: PathBuf,
}

impl ModprobeConfig {
    /// Returns the configuration of the node with this root directory.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the path of the file that silkrail manages, `/etc/modprobe.d/ib_core.conf`.
    pub fn file(&self) -> PathBuf {
        self.root.join(DIR).join(FILE)
    }

    /// Reads all settings, in modprobe's order: the last one takes effect.
    ///
    /// # Errors
    /// [`Error::Io`] if a directory cannot be listed, or a file cannot be read.
    pub fn settings(&self) -> Result<Vec<ModprobeOption>, Error> {
        let mut files: BTreeMap<OsString, PathBuf> = BTreeMap::new();
        for dir in DIRS.map(|dir| self.root.join(dir)) {
            for path in conf_files(&dir)? {
                files.entry(path.file_name().unwrap_or_default().to_owned()).or_insert(path);
            }
        }
        let mut settings = Vec::new();
        for path in files.into_values() {
            let text = fs::read(&path).or_else(absent).map_err(|source| Error::Io {
                operation: "read",
                path: path.clone(),
                source,
            })?;
            let found = values(&String::from_utf8_lossy(&text));
            settings.extend(found.into_iter().map(|mode| ModprobeOption { path: path.clone(), mode }));
        }
        Ok(settings)
    }

    /// Whether [`ModprobeConfig::persist`] would write something.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn would_persist(&self, mode: NetnsMode) -> Result<bool, Error> {
        let before = own(&self.file())?;
        Ok(edited(&before, mode) != before)
    }

    /// Sets the mode in the managed file, and returns whether the file was changed.
    ///
    /// # Errors
    /// [`Error`]; the file is then unchanged.
    pub fn persist(&self, mode: NetnsMode) -> Result<bool, Error> {
        let file = self.file();
        let dir = self.root.join(DIR);
        let failed = |operation, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { operation, path, source }
        };
        let before = own(&file)?;
        if edited(&before, mode) == before {
            return Ok(false);
        }
        fs::create_dir_all(&dir).map_err(failed("create directory", &dir))?;
        let lock = File::open(&dir).map_err(failed("open", &dir))?;
        statefile::lock(&lock, &dir, Instant::now() + FILE_LOCK_TIMEOUT)?;
        let text = edited(&own(&file)?, mode); // read again under the lock
        statefile::replace_durably(&file, 0o644, text.as_bytes()).map_err(failed("write", &file))?;
        Ok(true)
    }
}

/// Returns the mode on the kernel command line, if any. It overrides every file.
pub fn command_line(text: &str) -> Option<NetnsMode> {
    let options = text.split_ascii_whitespace().filter_map(|word| word.strip_prefix("ib_core."));
    options.filter_map(|option| option.strip_prefix(KEY)).filter_map(mode_of).next_back()
}

/// Returns the text with `netns_mode` set to `mode` in one place, and otherwise unchanged.
fn edited(text: &str, mode: NetnsMode) -> String {
    let setting = format!("{KEY}{}", number(mode));
    if text.trim().is_empty() {
        return format!("{FILE_HEADER}options ib_core {setting}\n");
    }
    let mut result = String::with_capacity(text.len() + 40);
    let mut done = false;
    for line in logical_lines(text) {
        match options(line) {
            Some(words) if words.iter().any(|word| word.starts_with(KEY)) => {
                result.push_str(&with_setting(line, &words, &setting, done));
                done = true;
            }
            _ => result.push_str(line),
        }
    }
    if !done {
        if !result.ends_with('\n') {
            result.push('\n');
        }
        result.push_str(&format!("options ib_core {setting}\n"));
    }
    result
}

/// Returns a line with the setting in place of its first `netns_mode`, or without it if an earlier line has it (`done`).
fn with_setting(line: &str, words: &[&str], setting: &str, done: bool) -> String {
    let mut kept: Vec<&str> = words.to_vec();
    let mut first = !done;
    kept.retain_mut(|word| {
        if !word.starts_with(KEY) {
            return true;
        }
        *word = setting;
        std::mem::take(&mut first)
    });
    match kept.as_slice() {
        _ if kept == words => line.to_owned(), // including its white space
        [_, _] => String::new(),               // only `options ib_core` is left
        _ => kept.join(" ") + "\n",
    }
}

/// Returns the lines with their line ends. A backslash at the end of a line continues it on the next.
fn logical_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut begin = 0;
    for (end, _) in text.match_indices('\n') {
        if !text[begin..end].ends_with('\\') {
            lines.push(&text[begin..=end]);
            begin = end + 1;
        }
    }
    if begin < text.len() {
        lines.push(&text[begin..]);
    }
    lines
}

/// Returns the words of an `options ib_core` line; `None` for other lines.
fn options(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "\\").collect();
    match words.as_slice() {
        ["options", "ib_core" | "ib-core", ..] => Some(words),
        _ => None,
    }
}

fn values(text: &str) -> Vec<Option<NetnsMode>> {
    let words = logical_lines(text).into_iter().filter_map(options).flatten();
    words.filter_map(|word| word.strip_prefix(KEY)).map(mode_of).collect()
}

/// Parses a boolean as the kernel's `kstrtobool` does: true is shared.
fn mode_of(value: &str) -> Option<NetnsMode> {
    match value.as_bytes() {
        [b'1' | b'y' | b'Y' | b't' | b'T', ..] => Some(NetnsMode::Shared),
        [b'0' | b'n' | b'N' | b'f' | b'F', ..] => Some(NetnsMode::Exclusive),
        [b'o' | b'O', b'n' | b'N', ..] => Some(NetnsMode::Shared),
        [b'o' | b'O', b'f' | b'F', ..] => Some(NetnsMode::Exclusive),
        _ => None,
    }
}

fn number(mode: NetnsMode) -> u8 {
    match mode {
        NetnsMode::Exclusive => 0,
        NetnsMode::Shared => 1,
    }
}

fn conf_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Io { operation: "list", path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Reads the managed file; empty if it does not exist. Text that is not UTF-8 is an error, since it could not be preserved.
fn own(path: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(path).or_else(absent);
    text.map_err(|source| Error::Io { operation: "read", path: path.to_owned(), source })
}

fn absent<T: Default>(error: io::Error) -> io::Result<T> {
    if error.kind() == io::ErrorKind::NotFound { Ok(T::default()) } else { Err(error) }
}

#[cfg(test)]
mod tests;
