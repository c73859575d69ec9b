//! Faults that tests inject at each step of a journal, in debug builds only.
//!
//! `SILKRAIL_FAULT=error:N` makes the N-th step fail, `SILKRAIL_FAULT=kill:N` ends the process there with
//! SIGKILL. Two steps belong to each change: after it is noted, and after it is made. Completing the
//! journal is the last. Taking a change back has one: after it.

use crate::Error;

/// Passes a step, or does what the test ordered for it.
#[cfg(debug_assertions)]
pub(crate) fn point() -> Result<(), Error> {
    use std::sync::atomic::{AtomicU32, Ordering};

    static STEPS: AtomicU32 = AtomicU32::new(0);
    let Ok(order) = std::env::var("SILKRAIL_FAULT") else { return Ok(()) };
    let step = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
    match order.split_once(':') {
        Some(("error", at)) if at == step.to_string() => Err(Error::Injected),
        Some(("kill", at)) if at == step.to_string() => {
            let _ = nix::sys::signal::raise(nix::sys::signal::SIGKILL);
            Err(Error::Injected)
        }
        _ => Ok(()),
    }
}

/// Passes a step.
#[cfg(not(debug_assertions))]
#[expect(clippy::unnecessary_wraps, reason = "the debug build's function can fail")]
pub(crate) fn point() -> Result<(), Error> {
    Ok(())
}
