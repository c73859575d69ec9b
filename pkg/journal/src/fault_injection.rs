//! Faults that tests inject at each step of a journal, in debug builds only.
//!
//! `SILKRAIL_FAULT=error:N` makes the N-th step fail, `SILKRAIL_FAULT=kill:N` kills the process there with
//! SIGKILL. Each change has two steps: after it is recorded and after it is made. The completion of the
//! journal is a step of its own. Each revert has one step, after it.

use crate::Error;

/// Counts a step; fails or kills the process if `SILKRAIL_FAULT` selects this one.
#[cfg(debug_assertions)]
pub(crate) fn point() -> Result<(), Error> {
    use std::sync::atomic::{AtomicU32, Ordering};

    static STEPS: AtomicU32 = AtomicU32::new(0);
    let Ok(fault) = std::env::var("SILKRAIL_FAULT") else { return Ok(()) };
    let step = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
    match fault.split_once(':') {
        Some(("error", at)) if at == step.to_string() => Err(Error::Injected),
        Some(("kill", at)) if at == step.to_string() => {
            let _ = nix::sys::signal::raise(nix::sys::signal::SIGKILL);
            Err(Error::Injected)
        }
        _ => Ok(()),
    }
}

/// Does nothing: faults are injected in debug builds only.
#[cfg(not(debug_assertions))]
#[expect(clippy::unnecessary_wraps, reason = "the debug build's function can fail")]
pub(crate) fn point() -> Result<(), Error> {
    Ok(())
}
