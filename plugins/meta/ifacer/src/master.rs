//! A master: a link of the node that is the parent of pods' links.

use std::fmt;

use identifiers::{AnyLinkName, LinkName, VlanId};
use plugin_runtime::{
    Error,
    policy::{self, Resource, ResourceUses},
};
use rtnl::{
    DefaultNla, Handle, InfoBond, InfoData, InfoKind, InfoVlan, Link, LinkKind, LinkMessage,
    LinkMessageBuilder, LinkUnspec,
};

use crate::{bond_options, error::MasterError};

/// A master with its expected properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) name: LinkName,
    pub(crate) kind: MasterKind,
}

/// The kind of a master, with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MasterKind {
    /// A link that the node has. It is only set up, if it is down.
    Interface,
    /// A VLAN link.
    Vlan { parent: LinkName, id: VlanId },
    /// A bond.
    Bond(BondSettings),
}

/// The settings of a bond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BondSettings {
    /// The number of the mode, 0 (balance-rr) to 6 (balance-alb).
    pub(crate) mode: u8,
    /// The options as they were written, which [`bond_options::parse`] accepts.
    pub(crate) options: String,
    pub(crate) slaves: Vec<LinkName>,
}

impl Master {
    /// Adds what it takes of the node.
    ///
    /// # Errors
    /// If the kernel refuses a query.
    pub(crate) fn add_uses(&self, links: &Handle, uses: &mut ResourceUses) -> Result<(), Error> {
        let interfaces = match &self.kind {
            MasterKind::Interface => std::slice::from_ref(&self.name),
            // Its parent is the interface or the bond, which is a master of its own.
            MasterKind::Vlan { id, .. } => {
                uses.add(Resource::Vlan, &id.get());
                &[]
            }
            MasterKind::Bond(bond) => {
                uses.add(Resource::Mode, &"bond");
                uses.add(Resource::Master, &self.name);
                &bond.slaves
            }
        };
        for interface in interfaces {
            match links.find_link(interface)? {
                Some(link) => policy::add_master(uses, links, &link)?,
                None => uses.add(Resource::Master, interface),
            }
        }
        Ok(())
    }

    /// Checks that a link of this name has these properties. The options of a bond cannot be compared.
    ///
    /// # Errors
    /// [`MasterError::OtherLink`], which describes both.
    pub(crate) fn require_same(&self, links: &Handle, link: &Link) -> Result<(), Error> {
        let same = match (&self.kind, &link.kind) {
            (MasterKind::Interface, _) => link.name == self.name.as_str(),
            (MasterKind::Vlan { parent, id }, Some(LinkKind::Vlan(Some(is)))) => {
                let parent = links.find_link(parent)?.map(|parent| parent.index);
                *is == id.get() && link.parent == parent && link.parent_netns.is_none()
            }
            (MasterKind::Bond(bond), Some(LinkKind::Bond(Some(mode)))) => {
                *mode == bond.mode && bond.has_slaves(&slaves(links, link)?)
            }
            _ => false,
        };
        if same && link.name == self.name.as_str() {
            return Ok(());
        }
        let (name, expected) = (self.name.clone(), self.to_string());
        Err(MasterError::OtherLink { name, is: describe(links, link)?, expected }.into())
    }

    /// Returns the message that creates the link; `None` if it cannot be created.
    ///
    /// # Errors
    /// If a link that it needs does not exist.
    pub(crate) fn message(&self, links: &Handle) -> Result<Option<LinkMessage>, Error> {
        let (kind, data, parent) = match &self.kind {
            MasterKind::Interface => return Ok(None),
            MasterKind::Vlan { parent, id } => {
                let parent = interface(links, parent)?;
                (InfoKind::Vlan, InfoData::Vlan(vec![InfoVlan::Id(id.get())]), Some(parent.index))
            }
            MasterKind::Bond(bond) => (InfoKind::Bond, InfoData::Bond(bond.settings(links)?), None),
        };
        let builder = LinkMessageBuilder::<LinkUnspec>::new_with_info_kind(kind)
            .name(self.name.to_string())
            .set_info_data(data);
        Ok(Some(parent.into_iter().fold(builder, LinkMessageBuilder::link).build()))
    }

    /// Returns the name of the kind, as the kernel has it for a link that can be created.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            MasterKind::Interface => "interface",
            MasterKind::Vlan { .. } => "vlan",
            MasterKind::Bond(_) => "bond",
        }
    }

    /// Returns the VLAN ID of a VLAN.
    pub(crate) fn vlan_id(&self) -> Option<u16> {
        match self.kind {
            MasterKind::Vlan { id, .. } => Some(id.get()),
            MasterKind::Interface | MasterKind::Bond(_) => None,
        }
    }

    /// Returns the kind of a link that can be created, and the kernel's module for it.
    pub(crate) fn module(&self) -> Option<(InfoKind, &'static str)> {
        match self.kind {
            MasterKind::Interface => None,
            MasterKind::Vlan { .. } => Some((InfoKind::Vlan, "8021q")),
            MasterKind::Bond(_) => Some((InfoKind::Bond, "bonding")),
        }
    }
}

impl BondSettings {
    fn has_slaves(&self, names: &[String]) -> bool {
        names.len() == self.slaves.len()
            && self.slaves.iter().all(|slave| names.iter().any(|name| name == slave.as_str()))
    }

    fn settings(&self, links: &Handle) -> Result<Vec<InfoBond>, Error> {
        const IFLA_BOND_MODE: u16 = 1;
        let options = bond_options::parse(&self.options).map_err(cni::Error::config)?;
        let mut settings = vec![InfoBond::Other(DefaultNla::new(IFLA_BOND_MODE, vec![self.mode]))];
        for option in options {
            settings.push(option.encode(links)?);
        }
        Ok(settings)
    }
}

/// Returns the name of the link that has a name or altname. A name that no link has is returned as it is: a master of it is
/// refused by [`interface`].
///
/// # Errors
/// [`MasterError::NoInterface`], for one that is too long for a name.
pub(crate) fn name_of(links: &Handle, written: &AnyLinkName) -> Result<LinkName, Error> {
    let found = links.find_link_called(written.as_str())?;
    let name = found.as_ref().map_or(written.as_str(), |link| &link.name);
    Ok(name.parse().map_err(|_| MasterError::NoInterface(written.clone()))?)
}

/// Returns an Ethernet link of the node.
///
/// # Errors
/// [`MasterError::NoInterface`], [`MasterError::NotEthernet`].
pub(crate) fn interface(links: &Handle, name: &LinkName) -> Result<Link, Error> {
    let link = links.find_link(name)?.ok_or_else(|| MasterError::NoInterface(name.clone().into()))?;
    if link.hardware == rtnl::ETHERNET {
        Ok(link)
    } else {
        Err(MasterError::NotEthernet(name.clone()).into())
    }
}

/// Describes a link: `a vlan with ID 100 on eth0`.
fn describe(links: &Handle, link: &Link) -> Result<String, Error> {
    let what = match &link.kind {
        Some(LinkKind::Vlan(Some(id))) => format!("a vlan with ID {id}"),
        Some(LinkKind::Bond(Some(mode))) => {
            format!("a bond of mode {mode} with the interfaces {}", slaves(links, link)?.join(", "))
        }
        Some(kind) => format!("a {kind}"),
        None => "a device".into(),
    };
    let named = |index: u32| links.find_link_by_index(index);
    Ok(match link.parent.filter(|_| link.parent_netns.is_none()).map(named).transpose()?.flatten() {
        Some(parent) => format!("{what} on {}", parent.name),
        None => what,
    })
}

/// Returns the names of a bond's slaves.
fn slaves(links: &Handle, bond: &Link) -> Result<Vec<String>, rtnl::Error> {
    let all = links.links()?;
    Ok(all.into_iter().filter(|link| link.controller == Some(bond.index)).map(|link| link.name).collect())
}

impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            MasterKind::Interface => write!(f, "the interface {}", self.name),
            MasterKind::Vlan { parent, id } => write!(f, "a vlan with ID {} on {parent}", id.get()),
            MasterKind::Bond(bond) => {
                let slaves: Vec<_> = bond.slaves.iter().map(LinkName::as_str).collect();
                write!(f, "a bond of mode {} with the interfaces {}", bond.mode, slaves.join(", "))?;
                if bond.options.is_empty() { Ok(()) } else { write!(f, " and the options {}", bond.options) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bond_has_its_slaves_in_any_order_and_no_others() {
        let slaves = ["a", "b"].map(|name| name.parse().unwrap()).into();
        let bond = BondSettings { mode: 0, options: String::new(), slaves };
        for (names, expected) in [
            (&["a", "b"][..], true),
            (&["b", "a"], true),
            (&["a"], false),
            (&["a", "c"], false),
            (&["a", "b", "c"], false),
        ] {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(bond.has_slaves(&names), expected, "{names:?}");
        }
    }
}
