//! What a command says of the node that it was run on.

use std::{io::Write, path::Path};

use state::StateDir;

use crate::exit::CommandError;

/// Says that there is no state directory: nothing was made on this node since its boot, or another one is meant.
pub(crate) fn warn_if_missing(state: &Path, out: &mut dyn Write) -> Result<(), CommandError> {
    if !state.exists() {
        let (state, usual) = (state.display(), StateDir::DEFAULT);
        writeln!(
            out,
            "there is no directory {state}: no plugin has kept anything there since the boot; expected {usual}, or what \
             the networks' configurations name as stateDir (--state-dir)"
        )?;
    }
    Ok(())
}
