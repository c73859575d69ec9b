//! The values of attributes.

use netlink_packet_core::{DefaultNla, Emitable, Nla};

/// A value to serialize.
pub(crate) enum AttributeValue<'a> {
    U8(u8),
    U32(u32),
    U64(u64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Nested(&'a dyn NestedValue),
    Other(&'a DefaultNla),
}

/// A value of attributes.
pub(crate) trait NestedValue {
    /// Returns the length in bytes.
    fn len(&self) -> usize;

    /// Writes the value to `buffer`, which has that length.
    fn emit(&self, buffer: &mut [u8]);
}

impl<T: Nla> NestedValue for Vec<T> {
    fn len(&self) -> usize {
        self.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        Emitable::emit(&self.as_slice(), buffer);
    }
}

impl AttributeValue<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::U32(_) => 4,
            Self::U64(_) => 8,
            Self::Text(text) => text.len() + 1,
            Self::Bytes(bytes) => bytes.len(),
            Self::Nested(table) => table.len(),
            Self::Other(nla) => nla.value_len(),
        }
    }

    /// Writes the value to `buffer`, which has the length [`AttributeValue::len`].
    pub(crate) fn emit(&self, buffer: &mut [u8]) {
        match self {
            Self::U8(number) => buffer.copy_from_slice(&number.to_ne_bytes()),
            Self::U32(number) => buffer.copy_from_slice(&number.to_ne_bytes()),
            Self::U64(number) => buffer.copy_from_slice(&number.to_ne_bytes()),
            Self::Text(text) => {
                buffer[..text.len()].copy_from_slice(text.as_bytes());
                buffer[text.len()] = 0;
            }
            Self::Bytes(bytes) => buffer.copy_from_slice(bytes),
            Self::Nested(table) => table.emit(buffer),
            Self::Other(nla) => nla.emit_value(buffer),
        }
    }
}

/// Returns a text that ends with its only NUL; `None` for any other value.
pub(crate) fn text(value: &[u8]) -> Option<String> {
    let (end, text) = value.split_last()?;
    let whole = *end == 0 && !text.contains(&0);
    whole.then(|| String::from_utf8(text.to_vec()).ok())?
}

/// `IB_DEVICE_NAME_MAX` of the kernel's `ib_user_ioctl_verbs.h`.
const LONGEST_NAME: usize = 64;

/// Returns a device's name that is not valid UTF-8, with U+FFFD for the invalid bytes: root of a network namespace may
/// choose any bytes.
pub(crate) fn odd_name(value: &[u8]) -> Option<String> {
    let (end, name) = value.split_last()?;
    let is_name = *end == 0 && value.len() <= LONGEST_NAME && !name.contains(&0);
    is_name.then(|| String::from_utf8_lossy(name).into_owned())
}

/// A field of a table's entry: its attribute number and value.
pub(crate) struct EntryField<'a>(pub(crate) u16, pub(crate) AttributeValue<'a>);

impl Nla for EntryField<'_> {
    fn kind(&self) -> u16 {
        self.0
    }

    fn value_len(&self) -> usize {
        self.1.len()
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        self.1.emit(buffer);
    }
}
