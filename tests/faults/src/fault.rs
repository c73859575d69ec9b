//! The faults that are injected.

use std::{fmt, path::Path};

use testkit::Call;

use crate::strace::{self, FaultPoint};

/// A fault at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// The process is killed at a step of its journal.
    JournalKill,
    /// A step of the journal fails.
    JournalError,
    /// The process is killed before a system call.
    Kill,
    /// A system call is not executed and returns this error.
    Error(&'static str),
}

impl InjectedFault {
    /// Every fault. `EIO` is an unexpected error; `EINTR` is one that all code must handle.
    pub(crate) const ALL: [Self; 5] =
        [Self::JournalKill, Self::JournalError, Self::Kill, Self::Error("EIO"), Self::Error("EINTR")];

    /// Whether it is a fault of a journal step, which only debug builds support.
    pub(crate) fn is_journal_fault(self) -> bool {
        matches!(self, Self::JournalKill | Self::JournalError)
    }

    /// Whether the process is killed, so that it prints no result.
    pub(crate) fn kills(self) -> bool {
        matches!(self, Self::JournalKill | Self::Kill)
    }

    /// The call with this fault at a point; strace writes its trace to `log`.
    pub(crate) fn at(self, call: &Call, point: &FaultPoint, log: &Path) -> Call {
        match self {
            Self::JournalKill => call.clone().fault(&format!("kill:{}", point.nth)),
            Self::JournalError => call.clone().fault(&format!("error:{}", point.nth)),
            Self::Kill => call.clone().under(&strace::inject(point, "signal=KILL", log)),
            Self::Error(errno) => call.clone().under(&strace::inject(point, &format!("error={errno}"), log)),
        }
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JournalKill => f.write_str("killed at a journal step"),
            Self::JournalError => f.write_str("a journal step fails"),
            Self::Kill => f.write_str("killed at a system call"),
            Self::Error(errno) => write!(f, "a system call fails ({errno})"),
        }
    }
}
