//! The errors of this crate.

use std::{io, path::PathBuf};

use crate::{InvalidTestSpec, gid_selection::NoGid, protocol::AgentRefusal};

/// Why a test, or an operation around tests, failed. A failed test never becomes a result of 0.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program of perftest is not installed.
    #[error(
        "{program}: not found in PATH; install the package perftest (apt-get install perftest, dnf install perftest)"
    )]
    NoPerftest {
        /// The name of the program, for example `ib_write_bw`.
        program: &'static str,
    },
    /// The installed perftest was built without CUDA and ROCm.
    #[error(
        "{program} {version} cannot use the memory of a GPU: its --help lists neither --use_cuda nor --use_rocm; install a \
         perftest that was built with CUDA (./configure CUDA_H_PATH=…) or ROCm (./configure --with-rocm=…)"
    )]
    NoGpuMemory {
        /// The name of the program, for example `ib_write_bw`.
        program: &'static str,
        /// Its version.
        version: String,
    },
    /// A program other than perftest is not installed.
    #[error("{program}: not found in PATH; install {package}")]
    NoProgram {
        /// The name of the program, for example `ib_write_bw`.
        program: &'static str,
        /// The packages that contain it.
        package: &'static str,
    },
    /// A program exited with an error.
    #[error("{program} failed ({status}): {output}")]
    Failed {
        /// The name of the program, for example `ib_write_bw`.
        program: &'static str,
        /// Its exit status, or the signal that killed it.
        status: String,
        /// The last lines of its output.
        output: String,
    },
    /// The output of a program contains no usable result.
    #[error("{program}: no usable result: {why}{}", if output.is_empty() { String::new() } else { format!(" ({output})") })]
    Unusable {
        /// The name of the program, for example `ib_write_bw`.
        program: &'static str,
        /// What is wrong with the output.
        why: String,
        /// Its error output; may be empty.
        output: String,
    },
    /// The two ends connected over TCP, but RDMA packets were not acknowledged.
    #[error(
        "{program}: {output}; TCP works, but RDMA packets are not acknowledged: is UDP port 4791 (RoCE v2) open between \
         the nodes, and do both GIDs belong to links that reach each other?"
    )]
    Unanswered {
        /// The name of the program, for example `ib_write_bw`.
        program: &'static str,
        /// Its error output.
        output: String,
    },
    /// A wait reached its timeout.
    #[error("{what}: timed out after {seconds} s")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// The timeout in seconds.
        seconds: u64,
    },
    /// The process received SIGINT, SIGTERM or SIGHUP.
    #[error("interrupted")]
    Interrupted,
    /// The other end has closed the connection.
    #[error("{peer} closed the connection")]
    Closed {
        /// The IP address of the other end, or its socket address.
        peer: String,
    },
    /// The connection was closed in favour of a newer one, because there were too many.
    #[error("{peer}: connection closed in favour of a newer one: too many connections")]
    Evicted {
        /// The IP address of the other end, or its socket address.
        peer: String,
    },
    /// The listener closed the connection before sending a greeting.
    #[error(
        "{peer} closed the connection immediately: too many connections from this address, or the listener is not \
         `silkrail check serve`; try again in a few seconds"
    )]
    ClosedBeforeGreeting {
        /// The IP address of the other end, or its socket address.
        peer: String,
    },
    /// The client closed the connection before the handshake was complete.
    #[error(
        "{peer} closed the connection during the handshake: a client of another version or without the token, or a \
         port scan"
    )]
    ClosedDuringHandshake {
        /// The IP address of the other end, or its socket address.
        peer: String,
    },
    /// The client has the token, but the agent refused the connection.
    #[error("{peer}: connection refused: {refusal}")]
    NotAdmitted {
        /// The IP address of the other end, or its socket address.
        peer: String,
        /// The refusal that was sent to the client.
        refusal: AgentRefusal,
    },
    /// The authentication of a message failed: it is not the next message of the other end.
    #[error(
        "{peer}: a message was changed, repeated or dropped in transit, or is of another sender; the connection is closed"
    )]
    Altered {
        /// The IP address of the other end, or its socket address.
        peer: String,
    },
    /// The other end sent something unexpected.
    #[error("{peer}: protocol error: {why}")]
    Protocol {
        /// The IP address of the other end, or its socket address.
        peer: String,
        /// What was unexpected.
        why: String,
    },
    /// The agent refused the request, or the test failed there.
    #[error("{peer}: {refusal}")]
    Refused {
        /// The IP address of the other end, or its socket address.
        peer: String,
        /// The agent's reason.
        refusal: AgentRefusal,
    },
    /// The agent could not be resolved or connected to.
    #[error(
        "connect to {peer}: {source}; does `silkrail check serve` run there, and does its --listen have this address?"
    )]
    Connect {
        /// The host or the socket address of the agent.
        peer: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The other end did not prove that it has the token.
    #[error("{peer} {why}")]
    NotTrusted {
        /// The IP address of the other end, or its socket address.
        peer: String,
        /// What is missing, as a clause without a subject.
        why: &'static str,
    },
    /// A token file cannot be used.
    #[error("token file {}: {why}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        why: String,
    },
    /// The agent would accept clients from the network without a token.
    #[error(
        "listen on {address}: every host there could start tests; use --token-file, or listen on 127.0.0.1"
    )]
    Open {
        /// The address and the port to listen on.
        address: String,
    },
    /// No RDMA port is usable for a test.
    #[error("no usable RDMA port: {why}")]
    NoPort {
        /// Why no port is usable.
        why: String,
    },
    /// Another test runs on the port.
    #[error("busy: another test is running on {device}/{port}; try again later")]
    PortInUse {
        /// The RDMA device.
        device: String,
        /// The port of the device.
        port: u8,
    },
    /// The port has no usable GID.
    #[error("RDMA device {device}, port {port}: {source}")]
    NoGid {
        /// The RDMA device, for example `mlx5_0`.
        device: String,
        /// The port number.
        port: u32,
        /// Why no GID is usable.
        source: NoGid,
    },
    /// A value is out of its bounds, or values conflict.
    #[error(transparent)]
    Invalid(#[from] InvalidTestSpec),
    /// A request to the RDMA subsystem failed.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// A sysfs file could not be read.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// A state file or a lock could not be used.
    #[error(transparent)]
    State(#[from] statefile::Error),
    /// The CPU frequency governors could not be set or restored.
    #[error(transparent)]
    Governor(#[from] cpufreq::Error),
    /// A file could not be parsed.
    #[error("{}: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        why: String,
    },
    /// No stored result has this ID.
    #[error("no result {id} in {}; `silkrail check history` lists the results", path.display())]
    NoRecord {
        /// The requested ID.
        id: String,
        /// The history file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation, for example `open /etc/hosts`.
        what: String,
        /// The error of the system call.
        source: io::Error,
    },
}

/// Returns a closure for `map_err` that makes an [`Error::Io`] of the operation `what`.
pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}
