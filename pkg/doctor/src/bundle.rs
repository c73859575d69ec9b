//! A tar of what the doctor saw, for a support ticket.
//!
//! It has `report.json`, `facts.json`, `netlink.json`, the files that they come from below `node/`, the end of the kernel's
//! log, and `manifest.json`, which says what was cut off or left out. What lets somebody in is taken out ([`secrets`]);
//! addresses and names of hosts are replaced by pseudonyms ([`redact`]) unless that is not wanted. Names of pods and devices
//! stay.

mod collect;
mod kernel_log;
mod redact;
mod secrets;
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

/// A bundle is never larger, before compression.
const MAX_BUNDLE_BYTES: usize = 24 << 20;
/// And never takes longer to collect.
const COLLECT_TIMEOUT: Duration = Duration::from_secs(20);
/// What the files of a bundle are below.
const TOP: &str = "silkrail-bundle";

/// A file as a bundle has it: without secrets and, if they are asked for, with pseudonyms.
pub fn redacted(content: &[u8], redactor: Option<&mut Redactor>) -> String {
    let text = secrets::without(&text::of(content));
    match redactor {
        Some(redactor) => redactor.text(&text),
        None => text,
    }
}

/// How a bundle is written.
#[derive(Debug, Clone, Copy)]
pub struct BundleOptions {
    /// Whether addresses and names of hosts are replaced by pseudonyms.
    pub redact: bool,
    /// Whether a file that is there is replaced.
    pub force: bool,
}

/// What was written.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleSummary {
    /// Where.
    pub path: PathBuf,
    /// How many files it has.
    pub files: usize,
    /// What was cut off or left out, and why.
    pub left_out: Vec<String>,
}

/// The bundle could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is there.
    #[error("{}: is there already; take another name, or --force to replace it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The name says no format.
    #[error("{}: expected a name that ends in .tar, .tar.gz or .tgz", path.display())]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// It could not be written.
    #[error("write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Writes a bundle that only its owner may read. The name's end says whether it is compressed.
///
/// # Errors
/// [`Error`]; the file is then not there, or as it was.
pub fn write(
    path: &Path,
    options: BundleOptions,
    asked: &DoctorOptions,
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
    let mut pack = BundleWriter::new(asked, facts, options.redact);
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

/// A link does not replace what is there, a rename does.
fn place(temporary: &Path, path: &Path, force: bool) -> io::Result<()> {
    if force {
        return fs::rename(temporary, path);
    }
    fs::hard_link(temporary, path)?;
    fs::remove_file(temporary)
}

/// A bundle on its way into a file.
struct BundleWriter {
    asked: DoctorOptions,
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
    fn new(asked: &DoctorOptions, facts: &NodeFacts, redact: bool) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let redactor = redact.then(|| Redactor::of(&collect::hosts(asked, facts)));
        Self { asked: asked.clone(), redactor, files: 0, bytes: 0, left_out: Vec::new(), now }
    }

    fn all(&mut self, to: &mut dyn Write, facts: &NodeFacts, report: &DoctorReport) -> io::Result<()> {
        let mut tar = tar::Builder::new(to);
        self.json(&mut tar, "report.json", report)?;
        self.json(&mut tar, "facts.json", facts)?;
        if facts.look.can_query_netlink() {
            self.json(&mut tar, "netlink.json", &collect::netlink(&self.asked))?;
        }
        self.pieces(&mut tar, BundleCollector::of(&self.asked, facts))?;
        let left_out = std::mem::take(&mut self.left_out);
        let redacted = self.redactor.is_some();
        let manifest = BundleManifest { version: env!("CARGO_PKG_VERSION"), redacted, left_out: &left_out };
        self.json(&mut tar, "manifest.json", &manifest)?;
        self.left_out = left_out;
        tar.finish()
    }

    /// Some files of sysfs ask a card's firmware. So they are read on another thread, which is left alone when it takes
    /// too long.
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
                    self.left_out.push(format!("everything that was not read within {COLLECT_TIMEOUT:?}"));
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

    /// Strings are redacted before they are written: an escape would stick to the address behind it.
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
            self.left_out.push(format!("{name}: the bundle is full"));
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
