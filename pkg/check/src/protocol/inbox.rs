//! What has come of a peer, cut into lines or messages, in whatever pieces it came.

/// The longest line.
pub const MAX_LINE_BYTES: usize = 4096;

/// What has come and was not taken yet. Who takes out what is there after each piece has never more in it than the longest
/// line or message, and a piece.
#[derive(Debug, Default)]
pub struct MessageBuffer(Vec<u8>);

/// A line is longer than [`MAX_LINE_BYTES`], or is no line at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageTooLong;

impl MessageBuffer {
    /// Puts a piece in.
    pub fn push(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }

    /// So many bytes are in it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next line out, with its end, if it is there whole.
    ///
    /// # Errors
    /// [`MessageTooLong`].
    pub fn line(&mut self) -> Result<Option<Vec<u8>>, MessageTooLong> {
        match self.0.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\n') {
            Some(end) => Ok(Some(self.0.drain(..=end).collect())),
            None if self.0.len() >= MAX_LINE_BYTES => Err(MessageTooLong),
            None => Ok(None),
        }
    }

    /// Takes the next message out, without its length, if it is there whole.
    pub fn message(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.0.split_first_chunk()?;
        let message = rest.get(..u16::from_be_bytes(*length).into())?.to_vec();
        self.0.drain(..2 + message.len());
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_messages_are_taken_out_when_they_are_whole() {
        let mut inbox = MessageBuffer::default();
        inbox.push(b"a line\n\0");
        assert_eq!(inbox.line().unwrap().unwrap(), b"a line\n");
        assert_eq!((inbox.line(), inbox.message()), (Ok(None), None));
        inbox.push(b"\x02a");
        assert_eq!(inbox.message(), None);
        inbox.push(b"b\0\0\0");
        assert_eq!([inbox.message().unwrap(), inbox.message().unwrap()], [b"ab".to_vec(), Vec::new()]);
        assert_eq!((inbox.message(), inbox.len()), (None, 1));
    }

    #[test]
    fn a_line_has_an_end_within_its_bound() {
        let mut inbox = MessageBuffer::default();
        inbox.push(&[b'x'; MAX_LINE_BYTES - 1]);
        assert_eq!(inbox.line(), Ok(None));
        inbox.push(b"\n");
        assert_eq!(inbox.line().unwrap().unwrap().len(), MAX_LINE_BYTES);
        inbox.push(&[b'x'; MAX_LINE_BYTES]);
        assert_eq!(inbox.line(), Err(MessageTooLong));
    }
}
