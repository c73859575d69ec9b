//! What could not be read.

use std::{io, time::Duration};

use crate::Collector;

/// Something that could not be read, and why. It costs nothing but itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectError {
    /// Whose work it was.
    pub collector: Collector,
    /// The kind of failure, for counting.
    pub reason: ErrorReason,
    /// For people: what, and what the kernel or the API server said.
    pub what: String,
}

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorReason {
    /// The driver does not have it, though the kernel shows a place for it.
    Unsupported,
    /// Two names of a driver became one name of a metric; the first has it.
    Collision,
    /// An owner of a pod that may not be read, or whose kind the API server lacks; the one below it is shown.
    Unreadable,
    /// A privilege is missing.
    Permission,
    /// No answer in time: hung firmware, or a driver that waits for it.
    Timeout,
    /// The answer makes no sense.
    Malformed,
    /// More objects than are listed.
    TooMany,
    /// Anything else that the kernel said.
    Refused,
}

/// An error of any of the libraries below.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl ErrorReason {
    /// As it is named in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsupported => "unsupported",
            Self::Collision => "collision",
            Self::Unreadable => "unreadable",
            Self::Permission => "permission",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::TooMany => "too_many",
            Self::Refused => "refused",
        }
    }

    /// Whether the collector did not do its work. What a driver does not have is no failure, nor is an owner that
    /// nobody lets us read.
    pub fn counts_as_failure(self) -> bool {
        !matches!(self, Self::Unsupported | Self::Collision | Self::Unreadable)
    }
}

impl CollectError {
    /// A failure with an error of any kind. Which kind is told by the first I/O error among its causes.
    pub fn new(collector: Collector, error: &(dyn std::error::Error + 'static)) -> Self {
        Self { collector, reason: reason(error), what: error.to_string() }
    }

    /// Nothing was heard for so long.
    pub fn timed_out(collector: Collector, of: &str, within: Duration) -> Self {
        let what = format!("{of}: no answer within {} s; is its firmware hung?", within.as_secs_f32());
        Self { collector, reason: ErrorReason::Timeout, what }
    }

    /// Nothing has been heard since an earlier collection; nothing more was asked.
    pub fn still_timed_out(collector: Collector, of: &str, since: Duration) -> Self {
        let what =
            format!("{of}: no answer for {} s; it is not asked again before it answers", since.as_secs());
        Self { collector, reason: ErrorReason::Timeout, what }
    }
}

fn reason(error: &(dyn std::error::Error + 'static)) -> ErrorReason {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return match io.kind() {
                io::ErrorKind::PermissionDenied => ErrorReason::Permission,
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ErrorReason::Timeout,
                io::ErrorKind::InvalidData => ErrorReason::Malformed,
                _ => ErrorReason::Refused,
            };
        }
        cause = error.source();
    }
    ErrorReason::Refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_that_of_the_first_cause_the_kernel_named() {
        #[derive(Debug, thiserror::Error)]
        #[error("read counters")]
        struct DisplayChain(#[source] io::Error);
        for (kind, reason) in [
            (io::ErrorKind::PermissionDenied, ErrorReason::Permission),
            (io::ErrorKind::TimedOut, ErrorReason::Timeout),
            (io::ErrorKind::NotFound, ErrorReason::Refused),
        ] {
            let trouble = CollectError::new(Collector::Counters, &DisplayChain(kind.into()));
            assert_eq!((trouble.reason, trouble.what.as_str()), (reason, "read counters"));
        }
    }

    #[test]
    fn what_a_driver_does_not_have_is_no_failure() {
        assert!(!ErrorReason::Unsupported.counts_as_failure() && !ErrorReason::Collision.counts_as_failure());
        assert!(ErrorReason::Timeout.counts_as_failure() && ErrorReason::Permission.counts_as_failure());
    }
}
