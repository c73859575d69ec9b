//! Whether a master exists, or can be created.

use plugin_runtime::{Error, Node};
use rtnl::{Link, LinkKind};

use crate::{
    error::MasterError,
    master::{Master, MasterKind, interface},
    record::{self, MasterRecord, MasterRecords},
    usage,
};

/// Checks that each master of a configuration exists or can be created. Nothing is changed.
///
/// The records are locked meanwhile: another call may just be creating a bond, which does not have all of its slaves yet. If
/// there are no records, another call may begin to create the first one, so a refusal is checked again.
///
/// # Errors
/// Why the first of them cannot be used.
pub(crate) fn examine_all(node: &Node, masters: &[Master]) -> Result<(), Error> {
    let examine = || {
        masters.iter().enumerate().try_for_each(|(number, master)| {
            let record = record::find(node, &master.name)?;
            examine(node, master, record.as_ref(), &masters[..number]).map(drop)
        })
    };
    let lock = MasterRecords::lock_existing(node)?;
    match examine() {
        Err(_) if lock.is_none() && MasterRecords::exist(node) => {
            let _lock = MasterRecords::lock_existing(node)?;
            examine()
        }
        examined => examined,
    }
}

/// Returns the link of a master; `None` if it must be created and can be. `earlier` are the masters that will exist by then.
///
/// # Errors
/// If a link of its name has other properties, or the master cannot be created.
pub(crate) fn examine(
    node: &Node,
    master: &Master,
    record: Option<&MasterRecord>,
    earlier: &[Master],
) -> Result<Option<Link>, Error> {
    let links = node.links()?;
    let Some(link) = links.find_link_called(master.name.as_str())? else {
        require_creatable(node, master, earlier)?;
        return Ok(None);
    };
    let expected = master.to_string();
    match record.filter(|record| record.created && record.is_of(&link)) {
        // The ADD that created it may have been killed before it added the slaves.
        Some(ours) if ours.properties == expected => require_slaves_free(node, master, Some(&link))?,
        Some(ours) if ours.is_bond() && matches!(master.kind, MasterKind::Bond(_)) => {
            let (name, is) = (master.name.clone(), ours.properties.clone());
            return Err(MasterError::OtherLink { name, is, expected }.into());
        }
        _ => master.require_same(links, &link)?,
    }
    if master.kind == MasterKind::Interface {
        interface(links, &master.name)?;
    }
    Ok(Some(link))
}

fn require_creatable(node: &Node, master: &Master, earlier: &[Master]) -> Result<(), Error> {
    match &master.kind {
        MasterKind::Interface => return Err(MasterError::NoInterface(master.name.clone().into()).into()),
        MasterKind::Vlan { parent, id } => {
            let is_later = earlier.iter().any(|earlier| earlier.name == *parent);
            if let Some(parent) = node.links()?.find_link(parent)?.filter(|_| !is_later) {
                require_free(node, master, &parent, id.get())?;
            }
        }
        MasterKind::Bond(bond) => {
            bond.slaves.iter().try_for_each(|slave| interface(node.links()?, slave).map(drop))?;
        }
    }
    require_supported(node, master)?;
    require_slaves_free(node, master, None)
}

fn require_supported(node: &Node, master: &Master) -> Result<(), Error> {
    let Some((kind, module)) = master.module() else { return Ok(()) };
    if node.links()?.supports(kind.clone())? {
        return Ok(());
    }
    Err(MasterError::NoModule { kind, module }.into())
}

/// Checks that nothing uses the slaves of a bond, except those that the bond has already.
fn require_slaves_free(node: &Node, master: &Master, bond: Option<&Link>) -> Result<(), Error> {
    let MasterKind::Bond(settings) = &master.kind else { return Ok(()) };
    for slave in &settings.slaves {
        let link = interface(node.links()?, slave)?;
        if link.controller.is_some() && link.controller == bond.map(|bond| bond.index) {
            continue;
        }
        if let Some(user) = usage::user_of(node, &link)? {
            let (interface, bond) = (slave.clone(), master.name.clone());
            return Err(MasterError::Busy { interface, bond, user }.into());
        }
    }
    Ok(())
}

/// Checks that no link of another name has the VLAN ID on the parent.
fn require_free(node: &Node, master: &Master, parent: &Link, id: u16) -> Result<(), Error> {
    let has_it = |link: &Link| {
        link.parent == Some(parent.index)
            && link.parent_netns.is_none()
            && link.kind == Some(LinkKind::Vlan(Some(id)))
    };
    let Some(other) = node.links()?.links()?.into_iter().find(has_it) else { return Ok(()) };
    let parent = parent.name.parse().map_err(|_| MasterError::NoInterface(master.name.clone().into()))?;
    Err(MasterError::OtherName { id, parent, other: other.name, name: master.name.clone() }.into())
}
