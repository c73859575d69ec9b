//! Errors of a collection.

use std::{io, time::Duration};

use crate::Collector;

/// A value that could not be read, and the reason. Other values of the collection are not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectError {
    /// The collector that failed.
    pub collector: Collector,
    /// The kind of failure, for `rdma_scrape_errors_total`.
    pub reason: ErrorReason,
    /// The message for logs: the object, a colon, and the error of the kernel or the API server.
    pub what: String,
}

/// A kind of failure; the label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorReason {
    /// The driver does not implement it, although the kernel has a file or attribute for it.
    Unsupported,
    /// Two counters of a driver have the same metric name; only the first is exposed.
    Collision,
    /// An owner of a pod is forbidden to read, or the API server does not have its kind; the owner below it is exposed. Or a
    /// module, without `CAP_NET_ADMIN`.
    Unreadable,
    /// A capability or permission is missing.
    Permission,
    /// The operation timed out: the firmware is hung, or the driver waits for it.
    Timeout,
    /// The data is malformed.
    Malformed,
    /// There are too many objects to list them.
    TooMany,
    /// Any other error.
    Refused,
}

/// An error of any of the crates that the exporter uses.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl ErrorReason {
    /// Returns the value of the label `reason`.
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

    /// Whether the collector failed. A counter that the driver does not implement and an owner that must not be read are not
    /// failures.
    pub fn counts_as_failure(self) -> bool {
        !matches!(self, Self::Unsupported | Self::Collision | Self::Unreadable)
    }
}

impl CollectError {
    /// Creates a collect error from any error. The first I/O error among its sources determines the reason.
    pub fn new(collector: Collector, error: &(dyn std::error::Error + 'static)) -> Self {
        Self { collector, reason: reason(error), what: error.to_string() }
    }

    /// Creates the error of an operation that timed out in this collection.
    pub fn timed_out(collector: Collector, of: &str, within: Duration) -> Self {
        let what = format!("{of}: timed out after {} s; the firmware may be hung", within.as_secs_f32());
        Self { collector, reason: ErrorReason::Timeout, what }
    }

    /// Creates the error of an operation that is still running since an earlier collection and was not started again.
    pub fn still_timed_out(collector: Collector, of: &str, since: Duration) -> Self {
        let what =
            format!("{of}: no response for {} s; it is not read again until it responds", since.as_secs());
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
    fn the_reason_is_that_of_the_first_io_error() {
        #[derive(Debug, thiserror::Error)]
        #[error("read counters")]
        struct DisplayChain(#[source] io::Error);
        for (kind, reason) in [
            (io::ErrorKind::PermissionDenied, ErrorReason::Permission),
            (io::ErrorKind::TimedOut, ErrorReason::Timeout),
            (io::ErrorKind::WouldBlock, ErrorReason::Timeout),
            (io::ErrorKind::InvalidData, ErrorReason::Malformed),
            (io::ErrorKind::NotFound, ErrorReason::Refused),
        ] {
            let error = CollectError::new(Collector::Counters, &DisplayChain(kind.into()));
            assert_eq!((error.reason, error.what.as_str()), (reason, "read counters"));
        }
    }

    #[test]
    fn missing_driver_support_is_not_a_failure() {
        use ErrorReason::{
            Collision, Malformed, Permission, Refused, Timeout, TooMany, Unreadable, Unsupported,
        };
        assert!(![Unsupported, Collision, Unreadable].into_iter().any(ErrorReason::counts_as_failure));
        assert!(
            [Permission, Timeout, Malformed, TooMany, Refused]
                .into_iter()
                .all(ErrorReason::counts_as_failure)
        );
    }
}
