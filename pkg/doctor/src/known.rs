//! A value that may be absent or unknown.

use serde::{Serialize, Serializer};

/// A value read from the node: present, absent, or not readable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Known<T> {
    /// The value was read.
    Value(T),
    /// The file or attribute does not exist.
    #[default]
    Absent,
    /// The value could not be read; [`crate::NodeFacts::unexamined`] lists the reason.
    Unknown,
}

impl<T> Known<T> {
    /// Returns the value if it is known.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Returns whether the value is known to be absent.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub(crate) fn map<U>(self, to: impl FnOnce(T) -> U) -> Known<U> {
        match self {
            Self::Value(value) => Known::Value(to(value)),
            Self::Absent => Known::Absent,
            Self::Unknown => Known::Unknown,
        }
    }

    pub(crate) fn into_option(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Returns whether the value is known and satisfies `predicate`.
    pub(crate) fn is_and(&self, predicate: impl FnOnce(&T) -> bool) -> bool {
        self.get().is_some_and(predicate)
    }
}

impl<T> Known<Vec<T>> {
    /// Returns the items; an empty slice if the list is absent or unknown.
    pub(crate) fn items(&self) -> &[T] {
        self.get().map_or(&[], Vec::as_slice)
    }
}

/// Absent is serialized as `null`, unknown as `"unknown"`.
impl<T: Serialize> Serialize for Known<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Absent => serializer.serialize_none(),
            Self::Unknown => serializer.serialize_str("unknown"),
        }
    }
}
