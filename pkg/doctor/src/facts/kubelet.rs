//! The sockets of kubelet.

use std::io;

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket},
};
use serde::Serialize;

use crate::host_root::HostRoot;

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubeletFacts {
    /// Whether `/var/lib/kubelet` exists.
    pub(crate) is_there: bool,
    pub(crate) sockets: Vec<KubeletSocket>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubeletSocket {
    pub(crate) path: &'static str,
    /// What the socket is used for.
    pub(crate) purpose: &'static str,
    pub(crate) state: SocketState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SocketState {
    /// A process listens on the socket.
    Listens,
    /// The file does not exist.
    Missing,
    /// No process listens on the socket.
    Dead,
    /// The connection could not be attempted.
    Unknown,
}

const DIR: &str = "/var/lib/kubelet";
const SOCKETS: [(&str, &str); 2] = [
    ("/var/lib/kubelet/device-plugins/kubelet.sock", "device plugins register with kubelet there"),
    ("/var/lib/kubelet/pod-resources/kubelet.sock", "it reports which pod has which device"),
];

impl KubeletFacts {
    pub(crate) fn read(tree: &HostRoot) -> Self {
        if !tree.is_there(DIR) {
            return Self::default();
        }
        let sockets =
            SOCKETS.map(|(path, purpose)| KubeletSocket { path, purpose, state: socket_state(tree, path) });
        Self { is_there: true, sockets: sockets.into() }
    }
}

/// Connects to the socket without sending a request.
pub(crate) fn socket_state(tree: &HostRoot, path: &str) -> SocketState {
    match try_connect(tree, path) {
        // EAGAIN: the backlog of the listening socket is full.
        Ok(()) | Err(Errno::EAGAIN | Errno::EINPROGRESS) => SocketState::Listens,
        Err(Errno::ENOENT | Errno::ENOTDIR) => SocketState::Missing,
        Err(Errno::ECONNREFUSED | Errno::ENOTSOCK) => SocketState::Dead,
        Err(errno) => {
            tree.note_unexamined(path, io::Error::from(errno));
            SocketState::Unknown
        }
    }
}

fn try_connect(tree: &HostRoot, path: &str) -> Result<(), Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(std::os::fd::AsRawFd::as_raw_fd(&socket), &UnixAddr::new(&tree.path(path))?)
}
