//! Ports of a bridge of Open vSwitch.

use serde_json::{Value, json};

use super::{main_plugin::MainPlugin, plugin::Plugin, values::MAX_VLAN};
use crate::{InvalidDocument, fields::Fields};

/// The domain of the resources of ovs-cni.
const RESOURCES: &str = "ovs-cni.network.kubevirt.io";

/// Reads the settings.
pub(super) fn read(settings: &mut Fields<'_>) -> Result<MainPlugin, InvalidDocument> {
    let bridge = settings.required_text("bridge")?;
    let vlan = settings.number("vlan", MAX_VLAN)?;
    let device = settings.text("deviceID")?.filter(|device| !device.is_empty());
    let mut trunks = Vec::new();
    for (number, trunk) in settings.list("trunk")?.iter().enumerate() {
        let path = format!("{}.trunk[{number}]", settings.path);
        let map = trunk.as_object().ok_or_else(|| settings.invalid("trunk", "expected mappings"))?;
        trunks.push(read_trunk(Fields::new(settings.object, &path, map))?);
    }
    let main = Plugin::new("ovs").with("bridge", bridge).with("vlan", vlan.unwrap_or_default());
    // Without a VLAN, the port is an access port of VLAN 0.
    let main = main.with_some("deviceID", device);
    let main = main.with_some("trunk", (!trunks.is_empty()).then_some(Value::Array(trunks)));
    let resource = device.map(|_| format!("{RESOURCES}/{bridge}"));
    Ok(MainPlugin { resource, ..MainPlugin::only(main) })
}

fn read_trunk(mut trunk: Fields<'_>) -> Result<Value, InvalidDocument> {
    let mut value = json!({});
    let mut ids = Vec::new();
    for key in ["minID", "maxID", "id"] {
        let id = trunk.number(key, MAX_VLAN)?;
        ids.push(id);
        if let Some(id) = id {
            value[key] = id.into();
        }
    }
    if let [Some(least), Some(most), _] = ids[..]
        && least > most
    {
        return Err(trunk.invalid("minID", format!("{least} is more than maxID, {most}")));
    }
    trunk.end()?;
    Ok(value)
}
