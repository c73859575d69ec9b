//! The configuration of ifacer.

use cni::{CallContext, ConfObject, Error};
use identifiers::{LinkName, VlanId};

use crate::{
    bond_options,
    master::{BondSettings, Master, MasterKind},
};

/// The name of a bond without `bond.name`, as in the Go plugin.
const DEFAULT_BOND_NAME: &str = "sp_bond0";

/// Returns the masters that a configuration requires, each after its parent. There are none if it has one interface and no VLAN.
///
/// # Errors
/// If a value is invalid; the message contains its key.
pub(crate) fn masters(common: &CallContext<'_>) -> Result<Vec<Master>, Error> {
    // It has no meaning here, but must be well-formed, as for every plugin.
    common.conf.ipam_type()?;
    let fields = common.conf.fields();
    let interfaces = interfaces(&fields)?;
    let id: VlanId = fields
        .integer("vlanID")?
        .unwrap_or_default()
        .try_into()
        .map_err(|_| fields.invalid("vlanID", "a VLAN ID from 0 to 4094", number(&fields, "vlanID")))?;
    let below = match (fields.object("bond")?, interfaces.as_slice()) {
        (None, [only]) => Master { name: only.clone(), kind: MasterKind::Interface },
        (None, _) => {
            return Err(fields.invalid("bond", "a bond, since there are several interfaces", "none"));
        }
        (Some(_), [only]) => {
            return Err(fields.invalid(
                "interfaces",
                "at least two interfaces for the bond",
                format!("only {only}"),
            ));
        }
        (Some(bond), _) => self::bond(&bond, interfaces)?,
    };
    if id == VlanId::NONE {
        return Ok(Vec::from_iter((below.kind != MasterKind::Interface).then_some(below)));
    }
    let name = vlan_name(&fields, &below.name, id)?;
    let vlan = Master { name, kind: MasterKind::Vlan { parent: below.name.clone(), id } };
    Ok(vec![below, vlan])
}

fn interfaces(fields: &ConfObject<'_>) -> Result<Vec<LinkName>, Error> {
    let mut interfaces: Vec<LinkName> = Vec::new();
    for text in fields.texts("interfaces")? {
        let name = text
            .parse()
            .map_err(|why| fields.invalid("interfaces", "names of links", format!("{text:?} ({why})")))?;
        if interfaces.contains(&name) {
            return Err(fields.invalid("interfaces", "each interface once", format!("{text:?} twice")));
        }
        interfaces.push(name);
    }
    if interfaces.is_empty() {
        return Err(fields.invalid("interfaces", "at least one interface", "none"));
    }
    Ok(interfaces)
}

fn bond(bond: &ConfObject<'_>, slaves: Vec<LinkName>) -> Result<Master, Error> {
    let name = bond.text("name")?.unwrap_or(DEFAULT_BOND_NAME);
    let name: LinkName =
        name.parse().map_err(|why| bond.invalid("name", "a link name", format!("{name:?} ({why})")))?;
    if slaves.contains(&name) {
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
    if let Some(other) = parsed.iter().filter_map(|option| option.slave()).find(|name| !slaves.contains(name))
    {
        return Err(bond.invalid("options", "one of the interfaces as primary", format!("{other:?}")));
    }
    Ok(Master { name, kind: MasterKind::Bond(BondSettings { mode, options, slaves }) })
}

/// Returns the name of a VLAN link, `eth0.100`, as the next plugin's `master` has it.
fn vlan_name(fields: &ConfObject<'_>, parent: &LinkName, id: VlanId) -> Result<LinkName, Error> {
    let name = format!("{parent}.{}", id.get());
    name.parse().map_err(|why| {
        let expected = "an interface whose name with the VLAN ID appended is a link name";
        fields.invalid("interfaces", expected, format!("{name:?} ({why})"))
    })
}

fn number(fields: &ConfObject<'_>, key: &str) -> i64 {
    fields.integer(key).ok().flatten().unwrap_or_default()
}
