//! A tar archive of everything that was examined, for a support ticket.
//!
//! It contains `report.json`, `facts.json`, `netlink.json`, their source files below `node/`, the end of the kernel log, the
//! processes that have RDMA devices open, the PCI configuration of cards and GPUs, the statistics of their links,
//! and `manifest.json`, which lists what was truncated or omitted. Credentials are removed ([`secrets`]). Addresses and
//! host names are replaced by pseudonyms ([`redact`]), unless the caller disables that. Names of pods and devices are not
//! changed.

mod collect;
mod directory;
mod memory;
mod pci;
mod processes;
mod redact;
mod secrets;
mod statistics;
mod text;

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use serde_json::Value;

use self::collect::{BundleCollector, BundleEntry};
pub use self::redact::Redactor;
use crate::{DoctorOptions, DoctorReport, NodeFacts};

/// The maximum size of a bundle before compression.
const MAX_BUNDLE_BYTES: usize = 24 << 20;
/// The maximum time to collect the files of a bundle.
const COLLECT_TIMEOUT: Duration = Duration::from_secs(20);
/// The top-level directory in the archive.
const TOP: &str = "silkrail-bundle";

/// Returns the text of a file as a bundle contains it: without secrets and, if a redactor is given, with pseudonyms.
pub fn redacted(content: &[u8], redactor: Option<&mut Redactor>) -> String {
    let text = secrets::without(&text::of(content));
    match redactor {
        Some(redactor) => redactor.text(&text),
        None => text,
    }
}

/// Options for [`write()`].
#[derive(Debug, Clone, Copy)]
pub struct BundleOptions {
    /// Whether addresses and host names are replaced by pseudonyms.
    pub redact: bool,
    /// Whether an existing file is replaced.
    pub force: bool,
}

/// The result of [`write()`].
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleSummary {
    /// The path of the archive.
    pub path: PathBuf,
    /// The number of files in the archive.
    pub files: usize,
    /// What was truncated or omitted, with the reason.
    pub left_out: Vec<String>,
}

/// Errors of [`write()`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file already exists.
    #[error("{}: already exists; choose another name, or use --force to replace it", path.display())]
    Exists {
        /// The path of the archive.
        path: PathBuf,
    },
    /// The file name has no known extension.
    #[error("{}: expected a name that ends in .tar, .tar.gz or .tgz", path.display())]
    Name {
        /// The path of the archive.
        path: PathBuf,
    },
    /// An I/O error.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The path of the archive.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },
}

/// Writes a bundle with mode 0600. It is compressed if the name ends in `.tar.gz` or `.tgz`.
///
/// # Errors
/// [`Error`]; no file was created then, and an existing one is unchanged.
pub fn write(
    path: &Path,
    options: BundleOptions,
    doctor_options: &DoctorOptions,
    facts: &NodeFacts,
    report: &DoctorReport,
) -> Result<BundleSummary, Error> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), source },
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let compressed = name.ends_with(".tar.gz") || name.ends_with(".tgz");
    if !compressed && !name.ends_with(".tar") {
        return Err(Error::Name { path: path.to_owned() });
    }
    if !options.force && path.symlink_metadata().is_ok() {
        return Err(Error::Exists { path: path.to_owned() });
    }
    let temporary = temporary(path);
    let file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(failed)?;
    let mut pack = BundleWriter::new(doctor_options, facts, options.redact);
    let packed = if compressed {
        let mut encoder = GzEncoder::new(BufWriter::new(&file), Compression::default());
        pack.all(&mut encoder, facts, report).and_then(|()| encoder.finish()?.flush())
    } else {
        let mut writer = BufWriter::new(&file);
        pack.all(&mut writer, facts, report).and_then(|()| writer.flush())
    };
    let placed = packed.and_then(|()| file.sync_all()).and_then(|()| place(&temporary, path, options.force));
    if let Err(error) = placed {
        let _ = fs::remove_file(&temporary);
        return Err(failed(error));
    }
    Ok(BundleSummary { path: path.to_owned(), files: pack.files, left_out: pack.left_out })
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

/// Moves the file to its path. Unlike rename(2), link(2) does not replace an existing file.
fn place(temporary: &Path, path: &Path, force: bool) -> io::Result<()> {
    if force {
        return fs::rename(temporary, path);
    }
    fs::hard_link(temporary, path)?;
    fs::remove_file(temporary)
}

/// The state of a bundle while it is written.
struct BundleWriter {
    options: DoctorOptions,
    redactor: Option<Redactor>,
    files: usize,
    bytes: usize,
    left_out: Vec<String>,
    now: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleManifest<'a> {
    version: &'static str,
    redacted: bool,
    left_out: &'a [String],
}

impl BundleWriter {
    fn new(options: &DoctorOptions, facts: &NodeFacts, redact: bool) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let redactor = redact.then(|| Redactor::of(&collect::hosts(options, facts)));
        Self { options: options.clone(), redactor, files: 0, bytes: 0, left_out: Vec::new(), now }
    }

    fn all(&mut self, to: &mut dyn Write, facts: &NodeFacts, report: &DoctorReport) -> io::Result<()> {
        let mut tar = tar::Builder::new(to);
        self.json(&mut tar, "report.json", report)?;
        self.json(&mut tar, "facts.json", facts)?;
        if facts.look.can_query_netlink() {
            self.json(&mut tar, "netlink.json", &collect::netlink(&self.options))?;
        }
        self.pieces(&mut tar, BundleCollector::of(&self.options, facts))?;
        let left_out = std::mem::take(&mut self.left_out);
        let redacted = self.redactor.is_some();
        let manifest = BundleManifest { version: env!("CARGO_PKG_VERSION"), redacted, left_out: &left_out };
        self.json(&mut tar, "manifest.json", &manifest)?;
        self.left_out = left_out;
        tar.finish()
    }

    /// Appends the files. Reading some sysfs files queries the firmware of a card, so another thread reads them. It is
    /// abandoned after [`COLLECT_TIMEOUT`].
    fn pieces(
        &mut self,
        tar: &mut tar::Builder<&mut dyn Write>,
        collector: BundleCollector,
    ) -> io::Result<()> {
        let (sender, pieces) = mpsc::sync_channel(16);
        let deadline = Instant::now() + COLLECT_TIMEOUT;
        thread::Builder::new().spawn(move || collector.run(&sender))?;
        loop {
            match pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.piece(tar, piece)?,
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.left_out.push(format!("all files that were not read within {COLLECT_TIMEOUT:?}"));
                    return Ok(());
                }
            }
        }
    }

    fn piece(&mut self, tar: &mut tar::Builder<&mut dyn Write>, piece: BundleEntry) -> io::Result<()> {
        let BundleEntry { name, content, note } = piece;
        self.left_out.extend(note.map(|note| format!("{name}: {note}")));
        let Some(content) = content else { return Ok(()) };
        let text = match &mut self.redactor {
            Some(redactor) if name.ends_with("/phys_switch_id") => {
                redactor.guid(&String::from_utf8_lossy(&content))
            }
            redactor => redacted(&content, redactor.as_mut()),
        };
        self.append(tar, &name, text.as_bytes())
    }

    /// Appends JSON. Strings are redacted before they are serialized: an escape sequence could hide an address after it.
    fn json(
        &mut self,
        tar: &mut tar::Builder<&mut dyn Write>,
        name: &str,
        value: &impl Serialize,
    ) -> io::Result<()> {
        let mut value = serde_json::to_value(value)?;
        secrets::clean(&mut value);
        if let Some(redactor) = &mut self.redactor {
            redact_strings(redactor, &mut value);
        }
        let mut text = serde_json::to_vec_pretty(&value)?;
        text.push(b'\n');
        self.append(tar, name, &text)
    }

    fn append(
        &mut self,
        tar: &mut tar::Builder<&mut dyn Write>,
        name: &str,
        content: &[u8],
    ) -> io::Result<()> {
        let name = redacted(name.as_bytes(), self.redactor.as_mut());
        if self.bytes + content.len() > MAX_BUNDLE_BYTES {
            self.left_out.push(format!("{name}: the bundle has reached its maximum size"));
            return Ok(());
        }
        self.bytes += content.len();
        self.files += 1;
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.now);
        tar.append_data(&mut header, Path::new(TOP).join(name), content)
    }
}

fn redact_strings(redactor: &mut Redactor, value: &mut Value) {
    match value {
        Value::String(text) => *text = redactor.text(text),
        Value::Array(items) => items.iter_mut().for_each(|item| redact_strings(redactor, item)),
        Value::Object(fields) => {
            for (key, mut field) in std::mem::take(fields) {
                redact_strings(redactor, &mut field);
                fields.insert(redactor.text(&key), field);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
