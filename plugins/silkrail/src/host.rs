//! Whether this process is where the node's devices are.

use std::{fs, io::Write, path::Path};

use netns::CannotJudge;
use plugin::State;

use crate::exit::Failure;

/// Refuses to work in another network namespace than the node's: devices would not be found, or not come home.
pub(crate) fn is_the_nodes(root: &Path) -> Result<(), Failure> {
    let of = |process: &str| {
        let path = root.join("proc").join(process).join("ns/net");
        let target = fs::read_link(&path).map_err(|source| CannotJudge::Unreadable { path, source })?;
        Ok::<_, CannotJudge>(target.to_string_lossy().into_owned())
    };
    let (is, node) = (of("self")?, of("1")?);
    if is == node { Ok(()) } else { Err(Failure::ElsewhereThanTheNode { is, node }) }
}

/// The same for whoever only looks, and may not see where the node is.
pub(crate) fn is_not_elsewhere(root: &Path) -> Result<(), Failure> {
    match is_the_nodes(root) {
        Err(Failure::CannotJudge(_)) => Ok(()),
        other => other,
    }
}

/// Says that there is no state directory: nothing was made on this node since its boot, or another one is meant.
pub(crate) fn tell_if_missing(state: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    if !state.exists() {
        let (state, usual) = (state.display(), State::DEFAULT);
        writeln!(
            out,
            "there is no directory {state}: no plugin has kept anything there since the boot; expected {usual}, or what \
             the networks' configurations name as stateDir (--state-dir)"
        )?;
    }
    Ok(())
}
