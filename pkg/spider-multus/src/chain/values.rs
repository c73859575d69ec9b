//! Values that several types have.

use serde_json::Value;

use crate::fields::Fields;

/// The largest VLAN ID.
pub(super) const MAX_VLAN: u64 = 4094;

/// The largest MTU of a link.
pub(super) const MAX_MTU: u64 = 65_535;

/// Reads keys that have no effect on the network, such as of former versions.
pub(super) fn without_effect(settings: &mut Fields<'_>, keys: &[&'static str]) {
    for key in keys {
        let _: Option<&Value> = settings.value(key);
    }
}
