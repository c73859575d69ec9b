//! The error object of the protocol.

use std::fmt;

use serde::Serialize;

/// An error code: below 100 those of the CNI specification, from 100 on those of these plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// The plugin does not support the configuration's `cniVersion`.
    pub const INCOMPATIBLE_VERSION: Self = Self(1);
    /// A field of the configuration is not supported.
    pub const UNSUPPORTED_FIELD: Self = Self(2);
    /// The container does not exist; the runtime need not clean up.
    pub const UNKNOWN_CONTAINER: Self = Self(3);
    /// An environment variable is missing or invalid.
    pub const INVALID_ENVIRONMENT: Self = Self(4);
    /// An I/O error, such as a failed read of standard input.
    pub const IO: Self = Self(5);
    /// The configuration or a result cannot be decoded.
    pub const DECODE: Self = Self(6);
    /// The configuration is valid JSON, but a value in it is invalid.
    pub const INVALID_CONFIG: Self = Self(7);
    /// `CNI_NETNS` is not a network namespace, or is the plugin's own.
    pub const INVALID_NETNS: Self = Self(8);
    /// The same call may succeed later.
    pub const TRY_AGAIN: Self = Self(11);
    /// STATUS: an ADD would fail.
    pub const NOT_AVAILABLE: Self = Self(50);
    /// STATUS: an ADD would fail, and existing containers may have lost connectivity.
    pub const LIMITED_CONNECTIVITY: Self = Self(51);
    /// The configuration requires RDMA (`rdma.require`), which the pod would not have.
    pub const NO_RDMA: Self = Self(100);
    /// No address is free, or no pool can be used.
    pub const NO_ADDRESS: Self = Self(101);
    /// A device, a link or the attachment is already in use.
    pub const IN_USE: Self = Self(102);
    /// CHECK: the node is not as ADD left it.
    pub const CHANGED: Self = Self(103);
    /// The policy of the node does not allow what the configuration takes of the node.
    pub const NOT_ALLOWED: Self = Self(104);
    /// Any other failure.
    pub const INTERNAL: Self = Self(999);
}

/// An error as the runtime sees it: one JSON object on standard output.
///
/// Runtimes discard standard error when a call fails, so `msg` must state what is, what was expected and
/// what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The code, on which runtimes act.
    pub code: ErrorCode,
    /// One line, written for the operator; kubelet shows it in the pod's events.
    pub msg: String,
    /// Further details, or empty.
    pub details: String,
}

impl Error {
    /// Returns an error without details.
    pub fn new(code: ErrorCode, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: String::new() }
    }

    /// Returns an error of the configuration ([`ErrorCode::INVALID_CONFIG`]).
    pub fn config(msg: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_CONFIG, msg)
    }

    /// Sets the details.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// Prepends `context: ` to the message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.msg = format!("{context}: {}", self.msg);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.msg)?;
        if self.details.is_empty() { Ok(()) } else { write!(f, "; {}", self.details) }
    }
}

impl std::error::Error for Error {}
