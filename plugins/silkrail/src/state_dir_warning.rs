//! A warning for a state directory that does not exist.

use std::{io::Write, path::Path};

use state::StateDir;

use crate::exit::CommandError;

/// Warns if the state directory does not exist: no pod was attached since boot, or the plugins use another directory.
pub(crate) fn warn_if_missing(state: &Path, out: &mut dyn Write) -> Result<(), CommandError> {
    if !state.exists() {
        let (state, usual) = (state.display(), StateDir::DEFAULT);
        writeln!(
            out,
            "there is no directory {state}: no plugin has written to it since boot; expected {usual}, or the stateDir of \
             the network configurations (--state-dir)"
        )?;
    }
    Ok(())
}
