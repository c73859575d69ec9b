//! What is known of something.

use serde::{Serialize, Serializer};

/// A value, that there is none, or that it could not be seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Known<T> {
    /// It is this.
    Is(T),
    /// It is not there.
    #[default]
    Absent,
    /// It could not be seen; [`crate::NodeFacts::unexamined`] has the reason.
    Unknown,
}

impl<T> Known<T> {
    /// The value, if there is one that is known.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Whether it is known not to be there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub(crate) fn map<U>(self, to: impl FnOnce(T) -> U) -> Known<U> {
        match self {
            Self::Is(value) => Known::Is(to(value)),
            Self::Absent => Known::Absent,
            Self::Unknown => Known::Unknown,
        }
    }

    pub(crate) fn into_option(self) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Whether the value is known and `holds`.
    pub(crate) fn is_and(&self, holds: impl FnOnce(&T) -> bool) -> bool {
        self.get().is_some_and(holds)
    }
}

impl<T> Known<Vec<T>> {
    /// The items that are known.
    pub(crate) fn items(&self) -> &[T] {
        self.get().map_or(&[], Vec::as_slice)
    }
}

/// `null` is what is not there, `"unknown"` what could not be seen.
impl<T: Serialize> Serialize for Known<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Is(value) => value.serialize(serializer),
            Self::Absent => serializer.serialize_none(),
            Self::Unknown => serializer.serialize_str("unknown"),
        }
    }
}
