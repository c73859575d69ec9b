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
