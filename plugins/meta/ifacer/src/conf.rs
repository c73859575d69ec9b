//! The configuration of ifacer.

use cni::{CallContext, ConfObject, Error};
use identifiers::{AnyLinkName, LinkName, VlanId};

use crate::{
    bond_options,
    master::{BondSettings, Master, MasterKind},
};

/// The name of a bond without `bond.name`, as in the Go plugin.
const DEFAULT_BOND_NAME: &str = "sp_bond0";

/// An interface of the configuration.
struct Interface {
    /// The name or altname as it is written.
    written: AnyLinkName,
    name: LinkName,
}

/// Returns the masters that a configuration requires, each after its parent. There are none if it has one interface and no VLAN.
/// `name_of` returns the name of the link that has a name or altname.
///
/// # Errors
/// If a value is invalid; the message contains its key. Those of `name_of`.
pub(crate) fn masters(
    common: &CallContext<'_>,
    name_of: &dyn Fn(&AnyLinkName) -> Result<LinkName, plugin_runtime::Error>,
) -> Result<Vec<Master>, Error> {
    // It has no meaning here, but must be well-formed, as for every plugin.
    common.conf.ipam_type()?;
    let fields = common.conf.fields();
    let interfaces = interfaces(&fields, name_of)?;
    let vlan_name = fields.text("vlanName")?;
    let id: VlanId = fields
        .integer("vlanID")?
        .unwrap_or_default()
        .try_into()
        .map_err(|_| fields.invalid("vlanID", "a VLAN ID from 0 to 4094", number(&fields, "vlanID")))?;
    let (below, written) = match (fields.object("bond")?, interfaces.as_slice()) {
        (None, [only]) => (
            Master { name: only.name.clone(), kind: MasterKind::Interface },
            only.written.as_str().to_owned(),
        ),
        (None, _) => {
            return Err(fields.invalid("bond", "a bond, since there are several interfaces", "none"));
        }
        (Some(_), [only]) => {
            return Err(fields.invalid(
                "interfaces",
                "at least two interfaces for the bond",
                format!("only {}", only.written.as_str()),
            ));
        }
        (Some(bond), _) => {
            let bond = self::bond(&bond, interfaces)?;
            let name = bond.name.to_string();
            (bond, name)
        }
    };
    if id == VlanId::NONE {
        if let Some(name) = vlan_name {
            return Err(fields.invalid("vlanName", "a vlanID with it", format!("{name:?} without one")));
        }
        return Ok(Vec::from_iter((below.kind != MasterKind::Interface).then_some(below)));
    }
    let name = match vlan_name {
        Some(name) => link_name(&fields, "vlanName", name)?,
        None => default_vlan_name(&fields, &written, id)?,
    };
    let vlan = Master { name, kind: MasterKind::Vlan { parent: below.name.clone(), id } };
    Ok(vec![below, vlan])
}

fn interfaces(
    fields: &ConfObject<'_>,
    name_of: &dyn Fn(&AnyLinkName) -> Result<LinkName, plugin_runtime::Error>,
) -> Result<Vec<Interface>, Error> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for text in fields.texts("interfaces")? {
        let written = text
            .parse()
            .map_err(|why| fields.invalid("interfaces", "names of links", format!("{text:?} ({why})")))?;
        let name = name_of(&written)?;
        if interfaces.iter().any(|interface| interface.name == name) {
            return Err(fields.invalid("interfaces", "each interface once", format!("{text:?} twice")));
        }
        interfaces.push(Interface { written, name });
    }
    if interfaces.is_empty() {
        return Err(fields.invalid("interfaces", "at least one interface", "none"));
    }
    Ok(interfaces)
}

fn bond(bond: &ConfObject<'_>, interfaces: Vec<Interface>) -> Result<Master, Error> {
    let name = bond.text("name")?.unwrap_or(DEFAULT_BOND_NAME);
    let name = link_name(bond, "name", name)?;
    let is_called = |interface: &Interface, name: &LinkName| {
        interface.name == *name || interface.written.as_str() == name.as_str()
    };
    if interfaces.iter().any(|interface| is_called(interface, &name)) {
        return Err(bond.invalid("name", "another name than the interfaces", format!("{name:?}")));
    }
    let mode = bond.integer("mode")?.unwrap_or_default();
    let mode = u8::try_from(mode)
        .ok()
        .filter(|mode| *mode <= 6)
        .ok_or_else(|| bond.invalid("mode", "a bond mode from 0 to 6", mode))?;
    let options = bond.text("options")?.unwrap_or_default().trim().to_owned();
    let parsed = bond_options::parse(&options)
        .map_err(|why| Error::config(format!("{}: {why}", bond.path("options"))))?;
    let is_slave = |name: &&LinkName| interfaces.iter().any(|interface| is_called(interface, name));
    if let Some(other) = parsed.iter().filter_map(|option| option.slave()).find(|name| !is_slave(name)) {
        return Err(bond.invalid("options", "one of the interfaces as primary", format!("{other:?}")));
    }
    let slaves = interfaces.into_iter().map(|interface| interface.name).collect();
    Ok(Master { name, kind: MasterKind::Bond(BondSettings { mode, options, slaves }) })
}

/// Returns the name of a VLAN link without `vlanName`, `eth0.100`, as the next plugin's `master` has it.
fn default_vlan_name(fields: &ConfObject<'_>, parent: &str, id: VlanId) -> Result<LinkName, Error> {
    let name = format!("{parent}.{}", id.get());
    name.parse().map_err(|why| {
        let expected = "an interface whose name with the VLAN ID appended is a link name";
        fields.invalid("interfaces", expected, format!("{name:?} ({why})")).with_details(
            "set vlanName to the name of the VLAN link, and master of the next plugin to the same, or give the interface a shorter \
             altname on each node and use that",
        )
    })
}

fn link_name(fields: &ConfObject<'_>, key: &str, name: &str) -> Result<LinkName, Error> {
    name.parse().map_err(|why| fields.invalid(key, "a link name", format!("{name:?} ({why})")))
}

fn number(fields: &ConfObject<'_>, key: &str) -> i64 {
    fields.integer(key).ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};
    use serde_json::{Value, json};

    use super::*;

    /// Returns the names of the masters, with their properties.
    fn read(keys: &Value) -> Result<Vec<String>, Error> {
        let mut conf = json!({"name": "rail"});
        conf.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let conf = NetConf::parse(conf.to_string().as_bytes()).unwrap();
        let call = CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] };
        let name_of = |written: &AnyLinkName| {
            Ok(written
                .as_str()
                .strip_prefix("alternative-name-of-")
                .unwrap_or(written.as_str())
                .parse()
                .unwrap())
        };
        Ok(masters(&call, &name_of)?.iter().map(|master| format!("{}: {master}", master.name)).collect())
    }

    #[test]
    fn a_bond_is_below_the_vlan_and_the_interface_alone_needs_no_master() {
        let two = json!(["a", "b"]);
        for (keys, expected) in [
            (json!({"interfaces": ["a"]}), &[][..]),
            (json!({"interfaces": ["a"], "vlanID": 0}), &[]),
            (
                json!({"interfaces": ["a"], "vlanID": 4094}),
                &["a: the interface a", "a.4094: a vlan with ID 4094 on a"],
            ),
            (
                json!({"interfaces": two, "bond": {}}),
                &["sp_bond0: a bond of mode 0 with the interfaces a, b"],
            ),
            (
                json!({"interfaces": two, "vlanID": 1, "bond": {"name": "bond7", "mode": 6, "options": " miimon=1;primary=b "}}),
                &[
                    "bond7: a bond of mode 6 with the interfaces a, b and the options miimon=1;primary=b",
                    "bond7.1: a vlan with ID 1 on bond7",
                ],
            ),
            (
                json!({"interfaces": ["alternative-name-of-a"], "vlanID": 7, "vlanName": "rail7"}),
                &["a: the interface a", "rail7: a vlan with ID 7 on a"],
            ),
            (
                json!({"interfaces": ["b", "alternative-name-of-a"], "bond": {}}),
                &["sp_bond0: a bond of mode 0 with the interfaces b, a"],
            ),
        ] {
            assert_eq!(read(&keys).unwrap(), expected, "{keys}");
        }
        for invalid in [
            json!({"interfaces": two}),
            json!({"interfaces": ["a"], "bond": {}}),
            json!({"interfaces": two, "bond": {"mode": 7}}),
            json!({"interfaces": two, "bond": {"mode": -1}}),
            json!({"interfaces": two, "bond": {"options": "primary=c"}}),
            json!({"interfaces": two, "bond": {"name": "b"}}),
            json!({"interfaces": ["a", "b", "a"], "bond": {}}),
            json!({"interfaces": ["a", "alternative-name-of-a"], "bond": {}}),
            json!({"interfaces": ["a"], "vlanID": 4095}),
            json!({"interfaces": ["a"], "vlanName": "rail7"}),
            json!({"interfaces": ["alternative-name-of-a"], "vlanID": 7}),
        ] {
            assert!(read(&invalid).is_err(), "{invalid}");
        }
    }
}
