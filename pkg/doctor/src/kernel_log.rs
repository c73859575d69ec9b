//! Records of the kernel log.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use nix::libc;

/// `PRINTK_MESSAGE_MAX`: the maximum size of a record.
const RECORD: usize = 8192;
/// The maximum size of the text; the beginning is dropped.
const MAX_LOG_BYTES: usize = 512 << 10;
/// An upper limit of the number of records, so that reading ends even if the kernel logs faster than it is read.
const MAX_LOG_RECORDS: usize = 200_000;

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelRecord<'a> {
    /// The time since boot in microseconds.
    pub(crate) micros: u64,
    pub(crate) text: &'a str,
}

/// Calls `each` with all records, the oldest first.
///
/// # Kernel
/// `/dev/kmsg` returns one record per read: `6,339,5140900,-;text`. It returns `EAGAIN` at the end, and `EPIPE` if records
/// were overwritten in the meantime.
pub(crate) fn for_each(path: &Path, mut each: impl FnMut(KernelRecord<'_>)) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() {
        let mut bytes = Vec::new();
        file.take(MAX_LOG_BYTES as u64).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter(|line| !line.starts_with(' ')).for_each(|line| each(record(line)));
        return Ok(());
    }
    let mut buffer = [0; RECORD];
    for _ in 0..MAX_LOG_RECORDS {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => each(record(&String::from_utf8_lossy(&buffer[..length]))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the last lines, each with its time since boot in seconds.
pub(crate) fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for_each(path, |record| {
        text.extend(line(record).into_bytes());
        if text.len() > 2 * MAX_LOG_BYTES {
            text.drain(..text.len() - MAX_LOG_BYTES);
        }
    })?;
    text.drain(..text.len().saturating_sub(MAX_LOG_BYTES));
    Ok(text)
}

/// Parses a record. Lines after the first contain properties of the record, like ` SUBSYSTEM=pci`, and are dropped.
fn record(raw: &str) -> KernelRecord<'_> {
    let (head, text) = raw.split_once(';').unwrap_or(("", raw));
    let micros = head.split(',').nth(2).and_then(|time| time.parse().ok()).unwrap_or(0);
    KernelRecord { micros, text: text.lines().next().unwrap_or_default() }
}

fn line(record: KernelRecord<'_>) -> String {
    let KernelRecord { micros, text } = record;
    format!("[{}.{:06}] {text}\n", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_a_line() {
        let raw = "6,339,5140900,-;NET: Registered family\n SUBSYSTEM=net\n";
        assert_eq!(line(record(raw)), "[5.140900] NET: Registered family\n");
    }

    #[test]
    fn a_file_has_a_record_in_each_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "6,1,5000000,-;one\n SUBSYSTEM=net\n6,2,7000000,-;two\n").unwrap();
        assert_eq!(tail(file.path()).unwrap(), b"[5.000000] one\n[7.000000] two\n");
    }
}
