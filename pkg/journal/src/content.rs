//! The content of a journal and its encoding.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::JournalHeader;

/// The content of a journal.
#[derive(Debug)]
pub struct JournalContent<C> {
    /// The first line, which names the attachment.
    pub head: JournalHeader,
    /// The recorded changes, in the order in which they were made.
    pub changes: Vec<C>,
    /// Whether the ADD was completed.
    pub complete: bool,
}

/// A line after the header: `{"change":…}` or `{"complete":true}`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum JournalLine<C> {
    Change(C),
    Complete(bool),
}

impl<C> JournalContent<C> {
    /// Returns the content of a new journal.
    pub(crate) fn new(head: JournalHeader) -> Self {
        Self { head, changes: Vec::new(), complete: false }
    }
}

impl<C: DeserializeOwned> JournalContent<C> {
    /// Parses a journal. A last line without a newline is ignored: it was being written when the process died.
    ///
    /// # Errors
    /// Why the journal cannot be parsed.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct JournalFormat {
            version: u32,
        }

        let mut lines = bytes[..whole_lines(bytes)].split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let first = lines.next().ok_or("the file has no complete line")?;
        let JournalFormat { version } = serde_json::from_slice(first).map_err(|e| format!("header: {e}"))?;
        if version > JournalHeader::VERSION {
            return Err(format!(
                "format version {version} is newer than {}: written by a newer Silkrail",
                JournalHeader::VERSION
            ));
        }
        let mut content = Self::new(serde_json::from_slice(first).map_err(|e| format!("header: {e}"))?);
        for line in lines {
            let number = content.changes.len() + 1;
            match serde_json::from_slice(line).map_err(|e| format!("change {number}: {e}"))? {
                JournalLine::Change(change) => content.changes.push(change),
                JournalLine::Complete(is) => content.complete = is,
            }
        }
        Ok(content)
    }
}

impl<C: Serialize> JournalContent<C> {
    /// Returns the bytes of the journal, which [`JournalContent::parse`] parses.
    ///
    /// # Errors
    /// If a change cannot be encoded as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = terminated(&self.head)?;
        for change in &self.changes {
            bytes.extend(terminated(&JournalLine::Change(change))?);
        }
        if self.complete {
            bytes.extend(terminated(&JournalLine::<&C>::Complete(true))?);
        }
        Ok(bytes)
    }
}

/// Encodes one line with its newline.
pub(crate) fn terminated(line: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns the number of bytes up to and including the last newline.
pub(crate) fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1)
}
