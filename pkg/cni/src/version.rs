//! Versions of the CNI protocol.

use std::fmt;

use crate::{Error, ErrorCode};

/// A version of the CNI protocol that the plugins support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each variant is the version it names")]
pub enum Version {
    V0_1_0,
    V0_2_0,
    V0_3_0,
    V0_3_1,
    V0_4_0,
    V1_0_0,
    V1_1_0,
}

impl Version {
    /// All supported versions, oldest first.
    pub const ALL: [Self; 7] =
        [Self::V0_1_0, Self::V0_2_0, Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The newest supported version, which VERSION reports.
    pub const LATEST: Self = Self::V1_1_0;

    /// Returns the version as in a configuration's `cniVersion`, for example `1.1.0`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// Returns the version of a configuration's `cniVersion`. An empty string means 0.1.0.
    ///
    /// # Errors
    /// [`ErrorCode::INCOMPATIBLE_VERSION`] if `text` is not exactly one of [`Version::ALL`].
    pub fn from_conf(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Ok(Self::V0_1_0);
        }
        Self::ALL.into_iter().find(|v| v.as_str() == text).ok_or_else(|| {
            let supported: Vec<_> = Self::ALL.iter().map(|v| format!("{:?}", v.as_str())).collect();
            let details = format!("config is {text:?}, plugin supports [{}]", supported.join(" "));
            Error::new(ErrorCode::INCOMPATIBLE_VERSION, "incompatible CNI versions").with_details(details)
        })
    }

    /// Whether results of both versions have the same format, so that one is a valid `prevResult` of the other.
    pub(crate) fn same_family(self, other: Self) -> bool {
        self.family() == other.family()
    }

    /// Returns the versions whose results have the same format as those of this version.
    pub(crate) fn family(self) -> &'static [Self] {
        match self {
            Self::V0_1_0 | Self::V0_2_0 => &[Self::V0_1_0, Self::V0_2_0],
            Self::V0_3_0 | Self::V0_3_1 | Self::V0_4_0 => &[Self::V0_3_0, Self::V0_3_1, Self::V0_4_0],
            Self::V1_0_0 | Self::V1_1_0 => &[Self::V1_0_0, Self::V1_1_0],
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether version `text` is `minimum` or later. `text` need not be a supported version.
///
/// # Errors
/// [`ErrorCode::DECODE`] if `text` does not have the form `x.y.z`.
pub(crate) fn at_least(text: &str, minimum: Version) -> Result<bool, Error> {
    let text = if text.is_empty() { Version::V0_1_0.as_str() } else { text };
    Ok(triple(text)? >= triple(minimum.as_str())?)
}

fn triple(text: &str) -> Result<[u32; 3], Error> {
    let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
    parts
        .and_then(|parts| parts.try_into().ok())
        .ok_or_else(|| Error::new(ErrorCode::DECODE, format!("cniVersion {text:?}: expected the form x.y.z")))
}
