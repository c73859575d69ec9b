//! The end of the kernel log.

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
/// An upper limit of the number of records, so that reading ends even if the file is not `/dev/kmsg`.
const MAX_LOG_RECORDS: usize = 200_000;

/// Returns the last lines, each with its time since boot in seconds.
///
/// # Kernel
/// `/dev/kmsg` returns one record per read: `6,339,5140900,-;text`. It returns `EAGAIN` at the end, and `EPIPE` if records
/// were overwritten in the meantime.
pub(super) fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let (mut text, mut record) = (Vec::new(), [0; RECORD]);
    for _ in 0..MAX_LOG_RECORDS {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(length) => text.extend(line(&String::from_utf8_lossy(&record[..length])).into_bytes()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
        if text.len() > 2 * MAX_LOG_BYTES {
            text.drain(..text.len() - MAX_LOG_BYTES);
        }
    }
    text.drain(..text.len().saturating_sub(MAX_LOG_BYTES));
    Ok(text)
}

/// Formats a record. Lines after the first contain properties of the record, like ` SUBSYSTEM=pci`, and are dropped.
fn line(record: &str) -> String {
    let (head, text) = record.split_once(';').unwrap_or(("", record));
    let micros: u64 = head.split(',').nth(2).and_then(|time| time.parse().ok()).unwrap_or(0);
    let text = text.lines().next().unwrap_or_default();
    format!("[{}.{:06}] {text}\n", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_a_line() {
        let record = "6,339,5140900,-;NET: Registered family\n SUBSYSTEM=net\n";
        assert_eq!(line(record), "[5.140900] NET: Registered family\n");
    }
}
