//! The configuration keys that sriov and ib-sriov have in common.

use std::{fmt, str::FromStr};

use cni::{CallContext, Error};

/// Returns the device: `deviceID`, else `runtimeConfig.deviceID`, which Multus sets from a pod's annotation.
///
/// # Errors
/// If it is not a valid `T`.
pub fn device<T: FromStr<Err: fmt::Display>>(common: &CallContext<'_>) -> Result<Option<T>, Error> {
    let fields = common.conf.fields();
    let runtime = common.conf.runtime()?;
    let text = match fields.text("deviceID")? {
        Some(text) => Some(text),
        None => runtime.map_or(Ok(None), |runtime| runtime.text("deviceID"))?,
    };
    text.map(|text| text.parse().map_err(|e| Error::config(format!("deviceID: {e}")))).transpose()
}

/// Returns the device that an ADD or CHECK needs.
///
/// # Errors
/// `missing` if the configuration has none; or if it is not a valid `T`.
pub fn required_device<T: FromStr<Err: fmt::Display>>(
    common: &CallContext<'_>,
    missing: &str,
) -> Result<T, Error> {
    device(common)?.ok_or_else(|| {
        Error::config(missing).with_details(
            "Multus fills it in from the network's k8s.v1.cni.cncf.io/resourceName annotation when the pod requests \
             that resource: check both, and that the device plugin runs on this node",
        )
    })
}

/// Returns the VF's link state, `link_state`, as a value of `IFLA_VF_LINK_STATE`: 0 auto (follows the port), 1 enable,
/// 2 disable.
///
/// # Errors
/// If it is another text.
pub fn link_state(common: &CallContext<'_>) -> Result<Option<u32>, Error> {
    match common.conf.fields().text("link_state")? {
        None => Ok(None),
        Some("auto") => Ok(Some(0)),
        Some("enable") => Ok(Some(1)),
        Some("disable") => Ok(Some(2)),
        Some(other) => Err(Error::config(format!("invalid link_state value: {other}"))
            .with_details("link_state must be auto, enable or disable")),
    }
}

/// Returns the text of a link state, a value of `IFLA_VF_LINK_STATE`.
pub fn link_state_text(state: u32) -> &'static str {
    ["auto", "enable", "disable"].get(state as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};
    use serde_json::{Value, json};
    use sysfs::Function;

    use super::*;
    use crate::device_info;

    /// Calls a function with a configuration that has these keys.
    fn with<T>(keys: &Value, call: impl Fn(&CallContext<'_>) -> T) -> T {
        let mut conf = json!({"cniVersion": "1.1.0", "name": "rail0", "type": "sriov"});
        conf.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let stdin = conf.to_string();
        let conf = NetConf::parse(stdin.as_bytes()).unwrap();
        call(&CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: stdin.as_bytes() })
    }

    #[test]
    fn the_device_of_the_network_comes_before_that_of_the_runtime() {
        let of = |keys: &Value| with(keys, |common| device::<Function>(common).unwrap());
        let is = |text: &str| Some(text.parse().unwrap());
        let runtime = json!({"deviceID": "0000:af:00.3"});
        assert_eq!(of(&json!({"deviceID": "0000:af:00.2", "runtimeConfig": runtime})), is("0000:af:00.2"));
        assert_eq!(of(&json!({"runtimeConfig": runtime})), is("0000:af:00.3"));
        assert_eq!(of(&json!({"deviceID": "mlx5_core.sf.4"})), is("mlx5_core.sf.4"));
        assert_eq!((of(&json!({})), of(&json!({"runtimeConfig": {}}))), (None, None));
        let missing =
            with(&json!({}), |common| required_device::<Function>(common, "is required").unwrap_err());
        assert_eq!(missing.msg, "is required");
        for bad in [json!({"deviceID": "../x"}), json!({"runtimeConfig": {"deviceID": "../x"}})] {
            let error = with(&bad, |common| device::<Function>(common).unwrap_err());
            assert!(error.msg.starts_with("deviceID: "), "{error:?}");
        }
    }

    #[test]
    fn link_states_have_the_numbers_of_the_kernel() {
        for (text, expected) in [("auto", Some(0)), ("enable", Some(1)), ("disable", Some(2)), ("up", None)] {
            let state = with(&json!({"link_state": text}), |common| link_state(common).ok().flatten());
            assert_eq!(state, expected, "{text}");
        }
        assert_eq!(with(&json!({}), |common| link_state(common).unwrap()), None);
    }

    #[test]
    fn a_device_information_file_is_in_its_directory() {
        let of = |path: &str| with(&json!({"runtimeConfig": {"CNIDeviceInfoFile": path}}), device_info::path);
        for directory in ["/var/run/k8s.cni.cncf.io/devinfo/cni", "/run/k8s.cni.cncf.io/devinfo/cni"] {
            let path = format!("{directory}/net1");
            assert_eq!(of(&path).unwrap(), Some(path.into()));
            for bad in [directory.to_owned(), format!("{directory}/.."), format!("{directory}/sub/net1")] {
                assert!(of(&bad).is_err(), "{bad}");
            }
        }
        assert!(of("/etc/passwd").is_err());
        assert_eq!(with(&json!({}), device_info::path).unwrap(), None);
    }
}
