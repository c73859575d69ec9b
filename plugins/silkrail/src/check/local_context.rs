//! The environment of tests on this node.

use std::{path::Path, sync::Arc};

use check::{Interrupt, local_end::LocalContext, perftest::Launcher};
use sysfs::Sysfs;

use super::child;
use crate::exit::CommandError;

/// Returns the environment of tests on this node. SIGINT, SIGTERM and SIGHUP are blocked from now on and polled.
pub(super) fn local_context(root: &Path) -> Result<LocalContext, CommandError> {
    Ok(LocalContext {
        launcher: Launcher::of_environment(child::wrapper()),
        sysfs: Sysfs::at(root.join("sys")),
        interrupt: Interrupt::install()?,
        ports_in_use: Arc::default(),
    })
}
