//! Why a test has no result.

use std::{io, path::PathBuf};

use crate::{InvalidTestSpec, gid::NoGid, protocol::AgentRefusal};

/// A test, or what belongs to one, could not be done. It never becomes a result of 0.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program of perftest is not installed.
    #[error(
        "{program}: not found in PATH; install the package perftest (apt-get install perftest, dnf install perftest)"
    )]
    NoPerftest {
        /// Which one.
        program: &'static str,
    },
    /// Another program is not installed.
    #[error("{program}: not found in PATH; install {package}")]
    NoProgram {
        /// Which one.
        program: &'static str,
        /// What it comes with.
        package: &'static str,
    },
    /// A program ended without a result.
    #[error("{program} failed ({status}): {said}")]
    Failed {
        /// Which one.
        program: &'static str,
        /// How it ended.
        status: String,
        /// The end of what it printed.
        said: String,
    },
    /// A program printed no value that can be true.
    #[error("{program} gave no usable result: {why}{}", if said.is_empty() { String::new() } else { format!(" ({said})") })]
    Unusable {
        /// Which one.
        program: &'static str,
        /// What is wrong with it.
        why: String,
        /// What it complained of.
        said: String,
    },
    /// The two ends found each other by TCP, and then no packet of RDMA was answered.
    #[error(
        "{program}: {said}; RDMA packets are not answered, though TCP is: is UDP port 4791 (RoCE v2) open between the \
         nodes, and do both GIDs belong to links that reach each other?"
    )]
    Unanswered {
        /// Which program.
        program: &'static str,
        /// What it said.
        said: String,
    },
    /// Something took longer than it may.
    #[error("{what} took longer than {seconds} s")]
    TimedOut {
        /// What.
        what: String,
        /// How long it may take.
        seconds: u64,
    },
    /// The user, or the system, wants this process to end.
    #[error("interrupted")]
    Interrupted,
    /// The other end has closed the connection.
    #[error("{peer} has closed the connection")]
    Closed {
        /// Who.
        peer: String,
    },
    /// There are too many connections; this one was closed for another.
    #[error("{peer}: closed for a newer connection, for there are too many")]
    GaveWay {
        /// Who.
        peer: String,
    },
    /// Whatever listens there closes the connection at once.
    #[error(
        "{peer} closed the connection before it said anything: it has too many from this address, or no \
         `silkrail check serve` listens there; try again in a few seconds"
    )]
    TurnedAway {
        /// Who.
        peer: String,
    },
    /// The other end went before it was known.
    #[error(
        "{peer} left before it had shaken hands: a client of another version or without the token, or one that only \
         looked whether somebody listens"
    )]
    Left {
        /// Who.
        peer: String,
    },
    /// The other end has the token, and was refused.
    #[error("{peer} was not let in: {refusal}")]
    NotAdmitted {
        /// Who.
        peer: String,
        /// What it was told.
        refusal: AgentRefusal,
    },
    /// A message is not the one that the other end has sealed.
    #[error(
        "{peer}: a message was changed, repeated or left out on its way, or is somebody else's; the connection is closed"
    )]
    Altered {
        /// Who.
        peer: String,
    },
    /// The other end said something that is not the protocol.
    #[error("{peer} does not speak this protocol: {why}")]
    Protocol {
        /// Who.
        peer: String,
        /// What is wrong.
        why: String,
    },
    /// The other end refuses or could not do it.
    #[error("{peer}: {refusal}")]
    Refused {
        /// Who.
        peer: String,
        /// What it said.
        refusal: AgentRefusal,
    },
    /// The agent cannot be reached.
    #[error(
        "connect to {peer}: {source}; does `silkrail check serve` run there, and does its --listen have that address?"
    )]
    Connect {
        /// Where to.
        peer: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The other end could not prove that it has the token.
    #[error("{peer} {why}")]
    NotTrusted {
        /// Who.
        peer: String,
        /// What is missing.
        why: &'static str,
    },
    /// A token file cannot be used.
    #[error("token file {}: {why}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Everybody could reach the agent.
    #[error(
        "listen on {address}: everybody there could start tests; give it a --token-file, or listen on 127.0.0.1"
    )]
    Open {
        /// Where.
        address: String,
    },
    /// No RDMA port can be used for a test.
    #[error("no usable RDMA port: {why}")]
    NoPort {
        /// Why.
        why: String,
    },
    /// The port has no GID that can be used.
    #[error("RDMA device {device}, port {port}: {source}")]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u32,
        /// Why.
        source: NoGid,
    },
    /// Values that do not go together.
    #[error(transparent)]
    Invalid(#[from] InvalidTestSpec),
    /// RDMA could not be asked.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// Sysfs gave no answer.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// A file of state.
    #[error(transparent)]
    State(#[from] statefile::Error),
    /// A file cannot be understood.
    #[error("{}: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// There is no such result.
    #[error("no result {id} in {}; see `silkrail check history`", path.display())]
    NoRecord {
        /// What was asked for.
        id: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// For `map_err`: a system call that failed.
pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}
