//! Reading the attributes of a reply.
//!
//! The lengths are checked strictly: a value of another size than the kernel's headers define was not understood, and a
//! guess at a counter or a limit is worse than an error.

use identifiers::is_unprintable;
use netlink_packet_core::NlasIterator;

use crate::Malformed;

/// The header of an attribute: its length and its type.
const HEADER: usize = 4;

/// One attribute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attribute<'a> {
    /// The type, without the flags for nesting and byte order.
    pub(crate) kind: u16,
    /// The value, without padding.
    pub(crate) value: &'a [u8],
}

/// Iterates over the attributes of a message or of a nest.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = Result<Attribute<'_>, Malformed>> {
    NlasIterator::new(bytes).map(|attribute| {
        let attribute = attribute.map_err(|_| Malformed::Truncated)?;
        let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
        let value = attribute.into_inner().get(HEADER..length).ok_or(Malformed::Truncated)?;
        Ok(Attribute { kind, value })
    })
}

impl<'a> Attribute<'a> {
    /// Reads a `NLA_U8`.
    pub(crate) fn u8(&self, name: &'static str) -> Result<u8, Malformed> {
        self.array(name, "1").map(|[byte]| byte)
    }

    /// Reads a `NLA_U16`.
    pub(crate) fn u16(&self, name: &'static str) -> Result<u16, Malformed> {
        self.array(name, "2").map(u16::from_ne_bytes)
    }

    /// Reads a `NLA_U32`.
    pub(crate) fn u32(&self, name: &'static str) -> Result<u32, Malformed> {
        self.array(name, "4").map(u32::from_ne_bytes)
    }

    /// Reads a `NLA_U64`.
    pub(crate) fn u64(&self, name: &'static str) -> Result<u64, Malformed> {
        self.array(name, "8").map(u64::from_ne_bytes)
    }

    /// Reads a `NLA_UINT`, which has 32 bits if the value fits into them, and else 64.
    pub(crate) fn uint(&self, name: &'static str) -> Result<u64, Malformed> {
        match self.value.len() {
            4 => self.u32(name).map(u64::from),
            _ => self.array(name, "4 or 8").map(u64::from_ne_bytes),
        }
    }

    /// Reads an array of 64-bit numbers.
    pub(crate) fn u64s(&self, name: &'static str) -> Result<Vec<u64>, Malformed> {
        let (numbers, rest) = self.value.as_chunks();
        if !rest.is_empty() {
            return Err(self.wrong_length(name, "a multiple of 8"));
        }
        Ok(numbers.iter().copied().map(u64::from_ne_bytes).collect())
    }

    /// Iterates over the attributes of a nest.
    pub(crate) fn nested(&self) -> impl Iterator<Item = Result<Attribute<'a>, Malformed>> + use<'a> {
        attributes(self.value)
    }

    fn array<const N: usize>(
        &self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<[u8; N], Malformed> {
        self.value.try_into().map_err(|_| self.wrong_length(name, expected))
    }

    fn wrong_length(&self, attribute: &'static str, expected: &'static str) -> Malformed {
        Malformed::Length { attribute, length: self.value.len(), expected }
    }
}

/// Reads text up to its terminator, if there is one. It is shown in logs and in a terminal, and a module's text is that of
/// its vendor: characters that would steer the terminal are replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = |c| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(text).trim().chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(value: &[u8]) -> Attribute<'_> {
        Attribute { kind: 1, value }
    }

    #[test]
    fn a_value_of_another_size_is_refused() {
        let length = |length, expected| Malformed::Length { attribute: "A", length, expected };
        assert_eq!(attribute(&[]).u8("A"), Err(length(0, "1")));
        assert_eq!(attribute(&[0; 5]).u32("A"), Err(length(5, "4")));
        assert_eq!(attribute(&[0; 4]).u64("A"), Err(length(4, "8")));
        assert_eq!(attribute(&[0; 2]).uint("A"), Err(length(2, "4 or 8")));
        assert_eq!(attribute(&[0; 15]).u64s("A"), Err(length(15, "a multiple of 8")));
        assert_eq!(attribute(&[]).u64s("A"), Ok(Vec::new()));
    }

    #[test]
    fn an_attribute_beyond_the_message_is_refused() {
        for broken in [&[9, 0, 1, 0, 7][..], &[3, 0, 1, 0], &[4, 0, 1], &[0; 4]] {
            let read: Result<Vec<_>, _> = attributes(broken).collect();
            assert_eq!(read.unwrap_err(), Malformed::Truncated, "{broken:?}");
        }
    }

    #[test]
    fn text_does_not_steer_a_terminal() {
        assert_eq!(text(b"ACME            "), "ACME");
        assert_eq!(text(b"400000baseSR8/Full\0rest"), "400000baseSR8/Full");
        assert_eq!(text(b"a\x1b[2J\xff"), "a\u{fffd}[2J\u{fffd}");
    }
}
