//! The configuration keys that every plugin has.

use std::path::Path;

use cni::{CallContext, Error};
use identifiers::MacAddr;
use state::StateDir;
use tracing::warn;

/// Returns the state directory of a configuration: `stateDir`, else [`StateDir::DEFAULT`].
///
/// # Errors
/// If `stateDir` is in none of the [`StateDir::PLACES`].
pub fn state_dir(common: &CallContext<'_>) -> Result<StateDir, Error> {
    let fields = common.conf.fields();
    let Some(text) = fields.text("stateDir")? else { return Ok(StateDir::at(StateDir::DEFAULT)) };
    StateDir::of_configuration(Path::new(text)).ok_or_else(|| {
        let places = StateDir::PLACES.join(", ");
        let expected = format!("a directory in {places} whose name begins with silkrail");
        fields.invalid("stateDir", &expected, format!("{text:?}"))
    })
}

/// Returns the state directory for a DEL. No ADD succeeded with an invalid one, so the default is used then: a DEL that fails
/// because of its configuration would keep the pod from ending.
pub(crate) fn state_dir_of_del(common: &CallContext<'_>) -> StateDir {
    state_dir(common).unwrap_or_else(|error| {
        warn!(%error, "using {}", StateDir::DEFAULT);
        StateDir::at(StateDir::DEFAULT)
    })
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

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};

    use super::*;

    #[test]
    fn the_state_directory_is_in_a_place_of_root_and_a_del_uses_the_default_otherwise() {
        let read = |keys: &str| {
            let conf = NetConf::parse(format!(r#"{{"name": "rail", {keys}}}"#).as_bytes()).unwrap();
            let call = CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] };
            let of_del = state_dir_of_del(&call).root().display().to_string();
            (state_dir(&call).map(|state| state.root().display().to_string()), of_del)
        };
        let default = StateDir::DEFAULT;
        for (keys, expected) in [
            (r#""stateDir": null"#, default),
            (r#""stateDir": """#, default),
            (r#""stateDir": "/run/silkrail-a/b""#, "/run/silkrail-a/b"),
        ] {
            let (state, of_del) = read(keys);
            assert_eq!((state.unwrap(), of_del), (expected.to_owned(), expected.to_owned()), "{keys}");
        }
        for refused in ["run/silkrail", "../a", "/run/../silkrail", "/tmp/silkrail"] {
            let (state, of_del) = read(&format!(r#""stateDir": "{refused}""#));
            let error = state.unwrap_err().to_string();
            assert!(
                error.contains("stateDir") && error.contains(refused) && error.contains("/var/lib/cni"),
                "{error}"
            );
            assert_eq!(of_del, default);
        }
    }
}
