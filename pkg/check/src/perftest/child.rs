//! What is put in front of a program ([`Launcher::wrapper`]): a process that the kernel kills with its parent, and that
//! becomes the program.
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

/// Makes the calling process a program that is killed when the thread that started it ends.
///
/// # Errors
/// [`Error::Interrupted`] if its parent, whose number that is, is gone already; [`Error::Io`].
pub fn become_child(parent: u32, command: &[OsString]) -> Result<Infallible, Error> {
    let failed = |errno: Errno| io("prepare a child process")(errno.into());
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(failed)?;
    if u32::try_from(getppid().as_raw()) != Ok(parent) {
        return Err(Error::Interrupted);
    }
    // What the parent blocks is inherited.
    SigSet::empty().thread_set_mask().map_err(failed)?;
    let (program, arguments) = command.split_first().ok_or_else(|| failed(Errno::EINVAL))?;
    let what = format!("execute {}", program.to_string_lossy());
    Err(io(what)(Command::new(program).args(arguments).exec()))
}
