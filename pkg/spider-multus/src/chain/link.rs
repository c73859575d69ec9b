//! Links on a link of the node: macvlan, ipvlan, and VLANs.

use identifiers::LinkName;
use serde_json::{Value, json};

use super::{
    main_plugin::MainPlugin,
    plugin::Plugin,
    values::{MAX_MTU, MAX_VLAN, without_effect},
};
use crate::{InvalidDocument, cni_type::CniType, fields::Fields};

/// The links that a network is on.
struct Masters {
    interfaces: Vec<String>,
    /// The bond of several interfaces.
    bond: Option<Value>,
    /// The only interface, or the bond.
    name: String,
}

/// Reads the settings of `macvlan` or `ipvlan`.
pub(super) fn read(kind: CniType, settings: &mut Fields<'_>) -> Result<MainPlugin, InvalidDocument> {
    let masters = Masters::read(settings)?;
    let vlan = settings.number("vlanID", MAX_VLAN)?.unwrap_or_default();
    let mtu = settings.number("mtu", MAX_MTU)?;
    // Only the webhook for pods uses the name.
    without_effect(settings, &["rdmaResourceName", "enableRdma"]);
    let needs_ifacer = vlan != 0 || masters.interfaces.len() > 1;
    let name = if vlan == 0 { masters.name.clone() } else { format!("{}.{vlan}", masters.name) };
    let _: LinkName = name.parse().map_err(|error| {
        settings.invalid("vlanID", format!("the VLAN of {} would be {name:?}: {error}", masters.name))
    })?;
    let mut main = Plugin::new(kind.name()).with("master", name);
    if kind == CniType::Macvlan {
        main = main.with("mode", "bridge");
    }
    let ifacer = needs_ifacer.then(|| masters.ifacer(vlan));
    Ok(MainPlugin { ifacer, ..MainPlugin::only(main.with_non_zero("mtu", mtu)) })
}

/// Reads the settings of `vlan`.
pub(super) fn read_vlan(settings: &mut Fields<'_>) -> Result<MainPlugin, InvalidDocument> {
    let masters = Masters::read(settings)?;
    let mode = settings.text("vlanMode")?.unwrap_or("manual");
    let vlan = settings.number("vlanID", MAX_VLAN)?;
    let mtu = settings.number("mtu", MAX_MTU)?;
    without_effect(settings, &["rdmaResourceName"]);
    let vlan = match (mode, vlan) {
        ("manual", Some(vlan)) => Some(vlan),
        ("manual", None) => return Err(settings.invalid("vlanID", "it is missing; vlanMode is manual")),
        ("auto", None) => None,
        ("auto", Some(_)) => {
            return Err(settings.invalid("vlanID", "it must be absent, because vlanMode is auto"));
        }
        (other, _) => {
            return Err(
                settings.invalid("vlanMode", format!("expected \"manual\" or \"auto\", found {other:?}"))
            );
        }
    };
    let main = Plugin::new("vlan").with("master", masters.name.clone()).with("vlanMode", mode);
    let main = main.with_some("vlanId", vlan).with_non_zero("mtu", mtu);
    let ifacer = (masters.interfaces.len() > 1).then(|| masters.ifacer(0));
    Ok(MainPlugin { ifacer, ..MainPlugin::only(main) })
}

impl Masters {
    fn read(settings: &mut Fields<'_>) -> Result<Self, InvalidDocument> {
        let interfaces: Vec<_> = settings.texts("master")?.into_iter().map(str::to_owned).collect();
        for name in &interfaces {
            let _: LinkName =
                name.parse().map_err(|error| settings.invalid("master", format!("{name:?}: {error}")))?;
        }
        let (bond, bond_name) = match settings.object("bond")? {
            None => (None, None),
            Some(bond) => read_bond(bond).map(|(bond, name)| (Some(bond), Some(name)))?,
        };
        let name = match (&interfaces[..], bond_name) {
            ([], _) => return Err(settings.invalid("master", "expected at least one link")),
            ([only], _) => only.clone(),
            (_, Some(name)) => name,
            (several, None) => {
                let what = format!("it is missing; master has {} links", several.len());
                return Err(settings.invalid("bond", what));
            }
        };
        Ok(Self { interfaces, bond, name })
    }

    fn ifacer(&self, vlan: u64) -> Plugin {
        let plugin = Plugin::new("ifacer").with("interfaces", self.interfaces.clone());
        let bond = self.bond.clone().filter(|_| self.interfaces.len() > 1);
        plugin.with_non_zero("vlanID", Some(vlan)).with_some("bond", bond)
    }
}

fn read_bond(mut bond: Fields<'_>) -> Result<(Value, String), InvalidDocument> {
    let name = bond.required_text("name")?;
    let _: LinkName = name.parse().map_err(|error| bond.invalid("name", format!("{name:?}: {error}")))?;
    let mut value = json!({"name": name, "mode": bond.number("mode", 6)?.unwrap_or_default()});
    if let Some(options) = bond.text("options")?.filter(|options| !options.is_empty()) {
        value["options"] = options.into();
    }
    bond.end()?;
    Ok((value, name.to_owned()))
}
