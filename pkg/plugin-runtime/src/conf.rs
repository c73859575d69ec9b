//! The configuration keys that every plugin has.

use std::path::{Component, PathBuf};

use cni::{CallContext, Error};
use identifiers::MacAddr;
use state::StateDir;

/// Returns the state directory of a configuration: `stateDir`, else [`StateDir::DEFAULT`].
///
/// # Errors
/// If `stateDir` is not an absolute path.
pub fn state_dir(common: &CallContext<'_>) -> Result<StateDir, Error> {
    let fields = common.conf.fields();
    let Some(text) = fields.text("stateDir")? else { return Ok(StateDir::at(StateDir::DEFAULT)) };
    let path = PathBuf::from(text);
    let plain = path.is_absolute() && path.components().all(|part| part != Component::ParentDir);
    if plain {
        Ok(StateDir::at(path))
    } else {
        Err(fields.invalid("stateDir", "an absolute path without ..", format!("{text:?}")))
    }
}

/// Returns the MAC address of a configuration: `runtimeConfig.mac`, else `MAC` of `CNI_ARGS`, else `mac`.
///
/// # Errors
/// If the value is not a MAC address, or is zero or a multicast address.
pub fn mac(common: &CallContext<'_>) -> Result<Option<MacAddr>, Error> {
    let runtime = common.conf.runtime()?.map_or(Ok(None), |runtime| runtime.text("mac"))?;
    let Some(text) = runtime.or_else(|| common.args.get("MAC")).or(common.conf.fields().text("mac")?) else {
        return Ok(None);
    };
    let mac: MacAddr =
        text.parse().map_err(|e| Error::config(format!("invalid args {text} for MAC addr: {e}")))?;
    if mac.is_multicast() || mac.is_zero() {
        return Err(Error::config(format!("mac: expected a unicast address, got {mac}")));
    }
    Ok(Some(mac))
}
