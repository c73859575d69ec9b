//! The host side of a call.

use std::{
    cell::{Cell, OnceCell, RefCell},
    path::PathBuf,
    time::Duration,
};

use cni::Plugin;
use go_plugins::GoStateDir;
use journal::StepTimes;
use rtnl::Handle;
use state::StateDir;
use sysfs::Sysfs;

use crate::{Budget, Deadline, Error};

/// The host side of a call: links, devices, and the state directory.
pub struct Node {
    /// The state directory: `/run/silkrail` or the configuration's `stateDir`.
    pub state: StateDir,
    /// The files that sriov-cni and rdma-cni left, in `/var/lib/cni`.
    pub go_state: GoStateDir,
    /// The directories of `CNI_PATH`, in which delegates are searched.
    pub cni_path: Vec<PathBuf>,
    /// The node's devices, in `/sys`.
    pub sysfs: Sysfs,
    /// The IPAM plugin that is part of this executable; `None` for a plugin that has no IPAM.
    pub builtin_ipam: Option<&'static dyn Plugin>,
    /// The time that all waits of the call share.
    pub budget: Budget,
    add_was_interrupted: Cell<bool>,
    steps: RefCell<StepTimes>,
    links: OnceCell<Handle>,
    rdma: OnceCell<rdma::Handle>,
}

impl Node {
    /// Returns the node with the given state directory and delegates. Sockets are opened when they are first used.
    pub fn new(state: StateDir, cni_path: Vec<PathBuf>, builtin_ipam: Option<&'static dyn Plugin>) -> Self {
        Self {
            state,
            go_state: GoStateDir::system(),
            cni_path,
            sysfs: Sysfs::system(),
            builtin_ipam,
            budget: Budget::of_call(),
            add_was_interrupted: Cell::new(false),
            steps: RefCell::default(),
            links: OnceCell::new(),
            rdma: OnceCell::new(),
        }
    }

    /// Whether the ADD that is being reverted did not end: it may have made its last change without recording the result.
    pub fn add_was_interrupted(&self) -> bool {
        self.add_was_interrupted.get()
    }

    /// Sets what [`Node::add_was_interrupted`] returns.
    pub(crate) fn set_add_was_interrupted(&self, interrupted: bool) {
        self.add_was_interrupted.set(interrupted);
    }

    /// Adds the durations of steps of the call.
    pub(crate) fn add_steps(&self, steps: &StepTimes) {
        self.steps.borrow_mut().extend(steps);
    }

    /// Returns the durations of the call's steps so far.
    pub(crate) fn steps(&self) -> StepTimes {
        self.steps.borrow().clone()
    }

    /// Returns the deadline of a wait for the lock of the claims of devices. Calls normally hold it for microseconds.
    pub fn claims_lock(&self) -> Deadline<'_> {
        self.budget.until("the claims of devices", Duration::from_secs(10))
    }

    /// Returns the deadline of a wait for another call that uses the same file of a Go plugin.
    pub fn go_file_lock(&self) -> Deadline<'_> {
        self.budget.until("another call about the Go plugin's file", Duration::from_secs(60))
    }

    /// Returns the rtnetlink socket for the node's links, addresses and routes. It is opened once in a call.
    ///
    /// # Errors
    /// If the socket cannot be opened.
    pub fn links(&self) -> Result<&Handle, Error> {
        if let Some(handle) = self.links.get() {
            return Ok(handle);
        }
        let handle = Handle::open()?;
        Ok(self.links.get_or_init(|| handle))
    }

    /// Returns the handle for the RDMA devices in the host namespace. It is opened once in a call.
    ///
    /// # Errors
    /// [`rdma::Error::NoRdma`] if the RDMA core is not loaded; or if the socket cannot be opened.
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
