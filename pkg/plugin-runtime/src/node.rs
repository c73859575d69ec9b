//! The node: where attachments are made.

use std::{cell::OnceCell, path::PathBuf, time::Duration};

use cni::Plugin;
use go_plugins::GoStateDir;
use rtnl::Handle;
use state::StateDir;
use sysfs::Sysfs;

use crate::{Budget, Deadline, Error};

/// The node's side of a call: its links, its devices, our state.
pub struct Node {
    /// Where we remember.
    pub state: StateDir,
    /// Where the Go plugins remembered.
    pub go_state: GoStateDir,
    /// Where this call's delegates are.
    pub cni_path: Vec<PathBuf>,
    /// The node's devices.
    pub sysfs: Sysfs,
    /// The IPAM plugin that is part of this executable; `None` for a plugin that has no IPAM.
    pub builtin_ipam: Option<&'static dyn Plugin>,
    /// How long the call may take.
    pub budget: Budget,
    links: OnceCell<Handle>,
    rdma: OnceCell<rdma::Handle>,
}

impl Node {
    /// The node with this state, and delegates here.
    pub fn new(state: StateDir, cni_path: Vec<PathBuf>, builtin_ipam: Option<&'static dyn Plugin>) -> Self {
        Self {
            state,
            go_state: GoStateDir::system(),
            cni_path,
            sysfs: Sysfs::system(),
            builtin_ipam,
            budget: Budget::of_call(),
            links: OnceCell::new(),
            rdma: OnceCell::new(),
        }
    }

    /// How long this call may wait for the lock of the claims of devices, which others normally have for microseconds.
    pub fn claims_lock(&self) -> Deadline<'_> {
        self.budget.until("the claims of devices", Duration::from_secs(10))
    }

    /// How long this call may wait for another one that is at work on a file of a Go plugin.
    pub fn go_file_lock(&self) -> Deadline<'_> {
        self.budget.until("another call about the Go plugin's file", Duration::from_secs(60))
    }

    /// The node's links, addresses and routes.
    ///
    /// # Errors
    /// If no socket can be had.
    pub fn links(&self) -> Result<&Handle, Error> {
        if let Some(handle) = self.links.get() {
            return Ok(handle);
        }
        let handle = Handle::open()?;
        Ok(self.links.get_or_init(|| handle))
    }

    /// The RDMA devices in the host namespace. The handle is opened once in a call.
    ///
    /// # Errors
    /// [`rdma::Error::NoRdma`] if the RDMA core is not loaded; that the socket cannot be opened.
    pub fn rdma(&self) -> Result<&rdma::Handle, rdma::Error> {
        if let Some(handle) = self.rdma.get() {
            return Ok(handle);
        }
        let handle = rdma::Handle::open(&self.sysfs)?;
        Ok(self.rdma.get_or_init(|| handle))
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("state", &self.state).finish_non_exhaustive()
    }
}
