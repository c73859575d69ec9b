//! The error object of the protocol.

use std::fmt;

use serde::Serialize;

use crate::Version;

/// An error code of the protocol. Runtimes and people act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// The configuration's version is not spoken here.
    pub const INCOMPATIBLE_VERSION: Self = Self(1);
    /// A field of the configuration is not supported.
    pub const UNSUPPORTED_FIELD: Self = Self(2);
    /// The container is unknown; the runtime need not clean up.
    pub const UNKNOWN_CONTAINER: Self = Self(3);
    /// An environment variable is missing or wrong.
    pub const INVALID_ENVIRONMENT: Self = Self(4);
    /// Reading or writing failed.
    pub const IO: Self = Self(5);
    /// The configuration is not JSON.
    pub const DECODE: Self = Self(6);
    /// The configuration is JSON but wrong.
    pub const INVALID_CONFIG: Self = Self(7);
    /// `CNI_NETNS` is no namespace, or the plugin's own.
    pub const INVALID_NETNS: Self = Self(8);
    /// The same call may succeed later.
    pub const TRY_AGAIN: Self = Self(11);
    /// STATUS: an ADD would fail.
    pub const NOT_AVAILABLE: Self = Self(50);
    /// STATUS: an ADD would fail, and existing containers may have lost connectivity.
    pub const LIMITED_CONNECTIVITY: Self = Self(51);
    /// A pod required RDMA and would not have it.
    pub const NO_RDMA: Self = Self(100);
    /// No address is left, or no pool fits.
    pub const NO_ADDRESS: Self = Self(101);
    /// A device, link or attachment is taken by somebody else.
    pub const IN_USE: Self = Self(102);
    /// CHECK: the node is not as ADD left it.
    pub const CHANGED: Self = Self(103);
    /// Anything else that failed in the plugin.
    pub const INTERNAL: Self = Self(999);
}

/// An error as the runtime sees it: one JSON object on standard output.
///
/// The runtime drops standard error when a call fails, so `msg` must say what is, what was expected and
/// what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it is.
    pub code: ErrorCode,
    /// One line a person can act on.
    pub msg: String,
    /// More of it, or empty.
    pub details: String,
}

impl Error {
    /// An error without details.
    pub fn new(code: ErrorCode, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: String::new() }
    }

    /// An error of the configuration ([`ErrorCode::INVALID_CONFIG`]).
    pub fn config(msg: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_CONFIG, msg)
    }

    /// The same error with details.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// The same error, with `context: ` before its message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.msg = format!("{context}: {}", self.msg);
        self
    }

    /// The JSON object of the protocol.
    pub fn to_json(&self, version: Version) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ErrorObject<'a> {
            cni_version: &'static str,
            code: ErrorCode,
            msg: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            details: &'a str,
        }
        let Self { code, msg, details } = self;
        crate::result::pretty(&ErrorObject { cni_version: version.as_str(), code: *code, msg, details })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.msg)?;
        if self.details.is_empty() { Ok(()) } else { write!(f, "; {}", self.details) }
    }
}

impl std::error::Error for Error {}
