//! The wrapper of a program ([`Launcher::wrapper`]): a process that the kernel kills with its parent (`PR_SET_PDEATHSIG`)
//! and that then executes the program.
//!
//! [`Launcher::wrapper`]: super::Launcher::wrapper

use std::{convert::Infallible, ffi::OsString, os::unix::process::CommandExt, process::Command};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{SigSet, Signal},
    },
    unistd::getppid,
};

use crate::{Error, error::io};

/// Executes a program in the calling process. The kernel kills it when the thread that started the process ends.
///
/// # Errors
/// [`Error::Interrupted`] if the parent with the process ID `parent` has already exited; [`Error::Io`].
pub fn become_child(parent: u32, command: &[OsString]) -> Result<Infallible, Error> {
    let failed = |errno: Errno| io("prepare a child process")(errno.into());
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(failed)?;
    if u32::try_from(getppid().as_raw()) != Ok(parent) {
        return Err(Error::Interrupted);
    }
    // The signal mask of the parent is inherited, so unblock all signals.
    SigSet::empty().thread_set_mask().map_err(failed)?;
    let (program, arguments) = command.split_first().ok_or_else(|| failed(Errno::EINVAL))?;
    let what = format!("execute {}", program.to_string_lossy());
    Err(io(what)(Command::new(program).args(arguments).exec()))
}
