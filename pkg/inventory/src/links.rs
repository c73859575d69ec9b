//! The links of the node's network namespace.

use std::collections::BTreeSet;

use identifiers::LinkName;
use rtnl::{Handle, Link, LinkKind};

use crate::Error;

/// Returns the links of this network namespace that its default routes use, including the parent of a VLAN and the members of
/// a bond.
///
/// # Errors
/// If the kernel cannot be asked.
pub fn default_route_links() -> Result<BTreeSet<LinkName>, Error> {
    let links = HostLinks::read()?;
    let used = links.all.iter().filter(|link| links.default_routes.contains(&link.index));
    Ok(used.filter_map(|link| link.name.parse().ok()).collect())
}

/// The links of the network namespace, read once.
pub(crate) struct HostLinks {
    pub(crate) handle: Handle,
    all: Vec<Link>,
    /// The indexes of links that default routes use, including the parent of a VLAN and the members of a bond.
    pub(crate) default_routes: BTreeSet<u32>,
}

impl HostLinks {
    pub(crate) fn read() -> Result<Self, Error> {
        let handle = Handle::open()?;
        let all = handle.links()?;
        let default_routes = with_those_below(&all, handle.default_route_links()?);
        Ok(Self { all, default_routes, handle })
    }

    pub(crate) fn find(&self, name: &LinkName) -> Option<&Link> {
        self.all.iter().find(|link| link.name == name.as_str())
    }

    /// Returns the IP addresses of a link, without link-local ones of the kernel.
    pub(crate) fn addresses(&self, name: &LinkName) -> Result<Vec<String>, Error> {
        let Some(link) = self.find(name) else { return Ok(Vec::new()) };
        Ok(self.handle.addresses(link.index)?.iter().map(ToString::to_string).collect())
    }
}

/// Returns these links with their parents and their members, recursively.
fn with_those_below(all: &[Link], mut open: Vec<u32>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    while let Some(index) = open.pop() {
        if found.insert(index) {
            open.extend(all.iter().filter(|link| link.controller == Some(index)).map(|link| link.index));
            // For a veth, `parent` is its peer, which may be in another namespace.
            let link = all.iter().find(|link| link.index == index);
            let link =
                link.filter(|link| !matches!(&link.kind, Some(LinkKind::Other(kind)) if kind == "veth"));
            open.extend(link.and_then(|link| link.parent));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use identifiers::HardwareAddr;

    use super::*;

    fn link(index: u32, parent: Option<u32>, controller: Option<u32>) -> Link {
        Link {
            index,
            name: format!("link{index}"),
            altnames: Vec::new(),
            kind: None,
            hardware: rtnl::ETHERNET,
            address: HardwareAddr::default(),
            mac: None,
            permanent_mac: None,
            mtu: 1500,
            up: true,
            running: true,
            parent,
            parent_netns: None,
            controller,
            device: None,
            settings: rtnl::LinkSettings::default(),
        }
    }

    #[test]
    fn a_default_route_over_a_vlan_or_a_bridge_uses_the_card_below() {
        // 2: the card, 3: a VLAN on it, 4: a bridge that the VLAN belongs to, 5: another card.
        let all = [link(2, None, None), link(3, Some(2), Some(4)), link(4, None, None), link(5, None, None)];
        for from in [3, 4] {
            assert!(with_those_below(&all, vec![from]).contains(&2), "{from}");
        }
        assert!(!with_those_below(&all, vec![4]).contains(&5));
        // 3: a VLAN on the bond 6, whose member is 2.
        let bond = [link(2, None, Some(6)), link(3, Some(6), None), link(6, None, None)];
        assert!(with_those_below(&bond, vec![3]).contains(&2));
        // A cycle terminates.
        assert_eq!(with_those_below(&[link(7, Some(8), None), link(8, Some(7), None)], vec![7]).len(), 2);
        let veth = Link { kind: Some(LinkKind::Other("veth".into())), ..link(9, Some(2), None) };
        assert!(!with_those_below(&[veth], vec![9]).contains(&2), "2 is a link of another namespace");
    }
}
