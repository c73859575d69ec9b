//! The faults that are injected.

use std::{fmt, path::Path};

use testkit::Call;

use crate::strace::{self, FaultPoint};

/// A fault at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// The process is killed before a system call.
    Kill,
    /// A system call is not executed and returns this error.
    Error(&'static str),
}

impl InjectedFault {
    /// Every fault. `EIO` is an unexpected error; `EINTR` is one that all code must handle.
    pub(crate) const ALL: [Self; 3] = [Self::Kill, Self::Error("EIO"), Self::Error("EINTR")];

    /// Whether the fault exists at a point. close(2) closes the descriptor whatever it returns (`SYSCALL_DEFINE1(close)` in
    /// fs/open.c), which strace does not do for a call that it makes fail.
    pub(crate) fn can_be_at(self, point: &FaultPoint) -> bool {
        self == Self::Kill || point.name != "close"
    }

    /// The call with this fault at a point; strace writes its trace to `log`.
    pub(crate) fn at(self, call: &Call, point: &FaultPoint, log: &Path) -> Call {
        let fault = match self {
            Self::Kill => "signal=KILL".to_owned(),
            Self::Error(errno) => format!("error={errno}"),
        };
        call.clone().under(&strace::inject(point, &fault, log))
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("killed at a system call"),
            Self::Error(errno) => write!(f, "a system call fails ({errno})"),
        }
    }
}
