//! How a command ends.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// What `--help` says of it.
pub(crate) const HELP: &str = "\
Exit status:
  0   done, or nothing to do
  1   an error
  2   wrong usage
  3   refused, or something could not be taken back
  4   not supported: no RDMA or no SR-IOV on this node, or a kernel too old
  5   a time limit passed
  6   something was found to be wrong
  10  a reboot (or an idle node) is needed
  11  something was changed (with --detailed-exitcode)";

/// The exit status of a command that did what it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandExit {
    /// Done, or nothing to do.
    Done = 0,
    /// An error.
    Failed = 1,
    /// What is wanted makes no sense: wrong usage, or a wrong file.
    Wrong = 2,
    /// Refused, because something is in use; or something could not be taken back.
    Refused = 3,
    /// No RDMA on this node, or a kernel too old.
    Unsupported = 4,
    /// A time limit passed.
    TimedOut = 5,
    /// What was asked for was done, and found something wrong.
    Found = 6,
    /// A reboot, or an idle node, is needed.
    NeedsReboot = 10,
    /// Something was changed, and the caller asked to be told.
    Changed = 11,
}

/// A command that could not do it. Wrong usage (2) is found by clap.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Mode(#[from] rdma_mode::Error),
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    #[error(transparent)]
    PodMap(#[from] podmap::Error),
    #[error(transparent)]
    CannotJudge(#[from] netns::NotOnNode),
    #[error(transparent)]
    Gc(#[from] ::gc::Error),
    #[error(transparent)]
    Bundle(#[from] ::doctor::bundle::Error),
    #[error("{}: {source}", path.display())]
    NodeFile { path: PathBuf, source: provision::InvalidNodeFile },
    #[error("{}", no_file(what, path, source))]
    NoNodeFile { what: &'static str, path: PathBuf, source: io::Error },
    #[error("there is no PF {wanted:?}: {}", pfs(there))]
    NoPf { wanted: String, there: Vec<String> },
    #[error(transparent)]
    Inventory(#[from] inventory::Error),
    #[error("{}: {source}", path.display())]
    Profile { path: PathBuf, source: tune::InvalidProfile },
    #[error(transparent)]
    Tune(#[from] tune::Error),
    #[error(transparent)]
    Recover(#[from] provision::RecoverError),
    #[error(transparent)]
    Apply(#[from] provision::ApplyError),
    #[error(transparent)]
    StateFile(#[from] statefile::Error),
    #[error(transparent)]
    Install(#[from] installer::Error),
    #[error("which file is this program? {0}; name the directory of the executables with --from")]
    WhereAmI(#[source] io::Error),
    #[error("write {}: {source}", path.display())]
    ManPage { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Check(#[from] ::check::Error),
    #[error(transparent)]
    Governor(#[from] cpufreq::Error),
    #[error(transparent)]
    Incomparable(#[from] ::check::comparison::CompareError),
    #[error("{0} is named twice")]
    NodeTwice(String),
    /// Whoever had it written says which.
    #[error("the kernel's answer: {0}")]
    Attribute(#[source] io::Error),
    #[error("{0} is this node for each node ({1}); name it by an address that the others reach it by")]
    Loopback(String, std::net::IpAddr),
    #[error("write the output: {0}")]
    Output(#[from] io::Error),
}

/// Why a file that was to be read was not, and what to do.
fn no_file(what: &str, path: &Path, source: &io::Error) -> String {
    let path = path.display();
    if source.kind() != io::ErrorKind::NotFound {
        return format!("read {path}: {source}; expected a file with YAML, the {what}");
    }
    let remedy = match what {
        NODE_FILE => {
            "write one (`silkrail apply --help` shows what is in it), or name another: silkrail apply FILE"
        }
        GUID_FILE => "write it, or correct guidFile in the node file",
        _ => "name a file that is there",
    };
    format!("there is no {what} {path}: {remedy}")
}

/// What a PF is called, and which there are.
fn pfs(there: &[String]) -> String {
    if there.is_empty() {
        return "this node has no PCI network card (`lspci -d ::0200` would show one)".into();
    }
    format!("expected the link, the PCI address or the RDMA device of one; there are: {}", there.join(", "))
}

/// What [`CommandError::NoNodeFile`] is about.
pub(crate) const NODE_FILE: &str = "node file";
/// The same, of what a node file names.
pub(crate) const GUID_FILE: &str = "GUID file";
/// The same, of what `tune` is told to do.
pub(crate) const PROFILE: &str = "profile";

impl CommandError {
    pub(crate) fn exit(&self) -> CommandExit {
        use provision::{ApplyError, PciBackendError, RecoverError};
        use rdma::Error::{NoRdma, TooOld};
        match self {
            Self::Rdma(NoRdma | TooOld { .. }) => CommandExit::Unsupported,
            Self::Check(::check::Error::Rdma(NoRdma | TooOld { .. })) => CommandExit::Unsupported,
            Self::Mode(error) | Self::Apply(ApplyError::Mode(error)) => mode(error),
            Self::NodeFile { .. } | Self::NoPf { .. } | Self::Profile { .. } => CommandExit::Wrong,
            Self::Apply(ApplyError::NodeFile(_)) | Self::Recover(RecoverError::NoFunction(_)) => {
                CommandExit::Wrong
            }
            Self::Recover(RecoverError::Hardware(PciBackendError::TimedOut { .. })) => CommandExit::TimedOut,
            Self::Apply(ApplyError::File(statefile::Error::Busy { .. }))
            | Self::Recover(RecoverError::File(statefile::Error::Busy { .. })) => CommandExit::TimedOut,
            Self::StateFile(statefile::Error::Busy { .. }) => CommandExit::TimedOut,
            Self::Install(installer::Error::Busy(_)) => CommandExit::TimedOut,
            Self::Install(installer::Error::InUse { .. } | installer::Error::Downgrade { .. }) => {
                CommandExit::Refused
            }
            _ => CommandExit::Failed,
        }
    }
}

fn mode(error: &rdma_mode::Error) -> CommandExit {
    match error {
        error if error.is_unsupported() => CommandExit::Unsupported,
        error if error.is_busy() => CommandExit::NeedsReboot,
        _ => CommandExit::Failed,
    }
}

impl From<CommandExit> for ExitCode {
    fn from(exit: CommandExit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}
