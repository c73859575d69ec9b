//! What can go wrong.

use std::{io, path::PathBuf};

use crate::ReleaseVersion;

/// Executables could not be installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source has no such file.
    #[error("no {name} in {}, nor in cni or bin there or beside it: name the directory that hack/build made, --from target/dist", dir.display())]
    NoSource {
        /// What was looked for.
        name: String,
        /// Where.
        dir: PathBuf,
    },
    /// The source is for another processor.
    #[error("{} is for {is}, and this node is {}: take the build for this architecture; nothing was changed", path.display(), std::env::consts::ARCH)]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// What it is for.
        is: String,
    },
    /// Others could have changed the source, or can.
    #[error(
        "{}: {why}: what is there would run as root on this node; install from a directory that only root can write, or \
         change its owner and mode; nothing was run or changed", path.display()
    )]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// Which part of its path, and how.
        why: String,
    },
    /// The source does not do what it should.
    #[error("{} does not run as it should here: {why}; nothing was changed", path.display())]
    DoesNotRun {
        /// The file.
        path: PathBuf,
        /// What it did.
        why: String,
    },
    /// No file can be put into the directory.
    #[error("{}: {why}; nothing was changed", path.display())]
    Destination {
        /// The directory.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// Something else than a file is where a file should go.
    #[error("{}: is neither a file nor a symbolic link: remove it; nothing was changed", path.display())]
    Strange {
        /// What it is.
        path: PathBuf,
    },
    /// A newer release is installed.
    #[error(
        "{} is of release {installed}, and {offered} is older: a newer release may have written state that an older one does not \
         know. To go back all the same, say --force; nothing was changed", path.display()
    )]
    Downgrade {
        /// The file on the node.
        path: PathBuf,
        /// Its release.
        installed: ReleaseVersion,
        /// The release that should have replaced it.
        offered: ReleaseVersion,
    },
    /// Pods have what only the plugins can take back.
    #[error(
        "{} attachment(s) of pods need the plugins for their DEL: {}. Delete these pods, and with `silkrail gc --yes` what \
         is left of dead ones; or say --force, and they leak; nothing was changed",
        attachments.len(), attachments.iter().take(5).cloned().collect::<Vec<_>>().join(", ")
    )]
    InUse {
        /// Container and interface of each.
        attachments: Vec<String>,
    },
    /// What was noted cannot be understood.
    #[error("{}: {why}; nothing was changed", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Another installation is at work.
    #[error("another silkrail installs or removes files at the moment: {0}; nothing was changed")]
    Busy(#[source] statefile::Error),
    /// A system call failed.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// Makes an error of a failed system call.
    pub(crate) fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { operation, path, source }
    }
}
