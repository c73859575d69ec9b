//! A receive buffer that splits a byte stream into lines or messages.

/// Maximum length of a line, in bytes, with its newline.
pub const MAX_LINE_BYTES: usize = 4096;

/// Received bytes that have not been consumed. If all complete lines or messages are taken after each `push`, it never holds
/// more than the longest line or message and one piece.
#[derive(Debug, Default)]
pub struct MessageBuffer(Vec<u8>);

/// There is no newline within [`MAX_LINE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageTooLong;

impl MessageBuffer {
    /// Appends received bytes.
    pub fn push(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }

    /// Returns the number of bytes in the buffer.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes and returns the next line, with its newline; `None` if it is not complete.
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

    /// Removes and returns the next message, without its length prefix; `None` if it is not complete.
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
    fn lines_and_messages_are_returned_when_they_are_complete() {
        let mut buffer = MessageBuffer::default();
        buffer.push(b"a line\n\0");
        assert_eq!(buffer.line().unwrap().unwrap(), b"a line\n");
        assert_eq!((buffer.line(), buffer.message()), (Ok(None), None));
        buffer.push(b"\x02a");
        assert_eq!(buffer.message(), None);
        buffer.push(b"b\0\0\0");
        assert_eq!([buffer.message().unwrap(), buffer.message().unwrap()], [b"ab".to_vec(), Vec::new()]);
        assert_eq!((buffer.message(), buffer.len()), (None, 1));
    }

    #[test]
    fn a_line_ends_within_the_maximum_length() {
        let mut buffer = MessageBuffer::default();
        buffer.push(&[b'x'; MAX_LINE_BYTES - 1]);
        assert_eq!(buffer.line(), Ok(None));
        buffer.push(b"\n");
        assert_eq!(buffer.line().unwrap().unwrap().len(), MAX_LINE_BYTES);
        buffer.push(&[b'x'; MAX_LINE_BYTES]);
        assert_eq!(buffer.line(), Err(MessageTooLong));
    }
}
