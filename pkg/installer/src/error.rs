//! Errors of installation and removal.

use std::{io, path::PathBuf};

use crate::ReleaseVersion;

/// Executables could not be installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source directories do not contain the program.
    #[error(
        "no {name} in {}, nor in cni or bin in it or next to it: specify the output directory of hack/build, \
         --from target/dist", dir.display()
    )]
    NoSource {
        /// The program, such as `silkrail-cni`.
        name: String,
        /// The directory that was searched.
        dir: PathBuf,
    },
    /// The program was built for another processor.
    #[error(
        "{} is for {is}, and this node is {}: use the build for this architecture; nothing was changed",
        path.display(), std::env::consts::ARCH
    )]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// Its architecture, such as `aarch64`.
        is: String,
    },
    /// Other users can change the source, or could have changed it.
    #[error(
        "{}: {why}: the file would run as root on this node; install from a directory that only root can write, or \
         change its owner and mode; nothing was run or changed", path.display()
    )]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// The file or parent directory, and its owner or mode.
        why: String,
    },
    /// The program failed when it was run for a test.
    #[error("{} does not run correctly on this node: {why}; nothing was changed", path.display())]
    DoesNotRun {
        /// The file.
        path: PathBuf,
        /// How it failed.
        why: String,
    },
    /// Files cannot be installed in the directory.
    #[error("{}: {why}; nothing was changed", path.display())]
    Destination {
        /// The directory.
        path: PathBuf,
        /// The cause, and what to do.
        why: String,
    },
    /// The path of a file exists and is not a regular file.
    #[error("{}: is neither a file nor a symbolic link: remove it; nothing was changed", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// The installed release is newer.
    #[error(
        "{} has release {installed}, which is newer than {offered}: it may have written state that an older release cannot \
         read. To downgrade anyway, use --force; nothing was changed", path.display()
    )]
    Downgrade {
        /// The file on the node.
        path: PathBuf,
        /// Its release.
        installed: ReleaseVersion,
        /// The release to install.
        offered: ReleaseVersion,
    },
    /// Pods have attachments that only the plugins can revert.
    #[error(
        "{} attachment(s) of pods need the plugins for their DEL: {}. Delete these pods, and run `silkrail gc --yes` for \
         pods that no longer exist; or use --force, and the attachments leak; nothing was changed",
        attachments.len(), attachments.iter().take(5).cloned().collect::<Vec<_>>().join(", ")
    )]
    InUse {
        /// The attachments, as `CONTAINER-ID@IFNAME`.
        attachments: Vec<String>,
    },
    /// The record of installed files cannot be parsed.
    #[error("{}: {why}; nothing was changed", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The cause, and what to do.
        why: String,
    },
    /// Another installation is in progress.
    #[error("another silkrail process is installing or removing files: {0}; nothing was changed")]
    Busy(#[source] statefile::Error),
    /// A system call failed.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// What failed, such as `cannot read`.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}

impl Error {
    /// Returns a function that converts the error of a system call.
    pub(crate) fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { operation, path, source }
    }
}
