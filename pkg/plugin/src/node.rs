//! The node: where attachments are made.

use std::{cell::OnceCell, path::PathBuf};

use cni::{Common, Plugin};
use rtnl::Handle;
use sysfs::Sysfs;

use crate::{Budget, Error, State, upgrade::GoState};

/// The node's side of a call: its links, its devices, our state.
pub struct Node {
    /// Where we remember.
    pub state: State,
    /// Where the Go plugins remembered.
    pub go_state: GoState,
    /// Where this call's delegates are.
    pub cni_path: Vec<PathBuf>,
    /// The node's devices.
    pub sysfs: Sysfs,
    /// The IPAM plugin that is part of this executable.
    pub builtin_ipam: &'static dyn Plugin,
    /// How long the call may take.
    pub budget: Budget,
    links: OnceCell<Handle>,
}

impl Node {
    /// The node as a call's configuration describes it.
    ///
    /// # Errors
    /// If the configuration's `stateDir` is wrong.
    pub fn of(common: &Common<'_>, builtin_ipam: &'static dyn Plugin) -> Result<Self, Error> {
        Ok(Self::new(State::of(common)?, common.cni_path.clone(), builtin_ipam))
    }

    /// The node with this state, and delegates here.
    pub fn new(state: State, cni_path: Vec<PathBuf>, builtin_ipam: &'static dyn Plugin) -> Self {
        Self {
            state,
            go_state: GoState::system(),
            cni_path,
            sysfs: Sysfs::system(),
            builtin_ipam,
            budget: Budget::of_call(),
            links: OnceCell::new(),
        }
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
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("state", &self.state).finish_non_exhaustive()
    }
}
