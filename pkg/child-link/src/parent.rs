//! The parent of a child link.

use cni::Error as CniError;
use identifiers::AnyLinkName;
use nix::errno::Errno;
use plugin_runtime::{Error, Node, PodNetns};
use rtnl::{Handle, Link, LinkKind, LinkLayer};

use crate::{ChildLinkKind, conf::ChildLinkConf, error::ChildError};

/// The link on which a pod's link is created: the configuration's `master`.
pub(crate) struct Parent {
    pub(crate) link: Link,
}

impl Parent {
    /// Finds the parent, on the node or in the pod, and checks that it can be one.
    ///
    /// # Errors
    /// If it does not exist, is an InfiniBand link, or has a smaller MTU than the configuration.
    pub(crate) fn find<K: ChildLinkKind>(
        kind: &K,
        node: &Node,
        pod: &PodNetns,
        conf: &ChildLinkConf<K>,
    ) -> Result<Self, Error> {
        if conf.settings.link_in_container {
            Self::among(kind, &pod.links, conf)
        } else {
            Self::of_node(kind, node, conf)
        }
    }

    /// Finds the parent on the node.
    ///
    /// # Errors
    /// As [`Parent::find`].
    pub(crate) fn of_node<K: ChildLinkKind>(
        kind: &K,
        node: &Node,
        conf: &ChildLinkConf<K>,
    ) -> Result<Self, Error> {
        Self::among(kind, node.links()?, conf)
    }

    fn among<K: ChildLinkKind>(kind: &K, links: &Handle, conf: &ChildLinkConf<K>) -> Result<Self, Error> {
        let link = match &conf.settings.master {
            Some(name) => match links.find_link_called(name.as_str())? {
                Some(link) => link,
                None => return Err(not_found(links, name, conf.settings.link_in_container)?),
            },
            None if !K::DEFAULT_MASTER => {
                return Err(CniError::config("host master interface is missing")
                    .with_details("set master to the name of the parent link")
                    .into());
            }
            None => {
                let index = links.default_route_link()?.ok_or_else(|| {
                    CniError::config("no default route interface found")
                        .with_details("set master to the name of the parent link")
                })?;
                links.link_by_index(index)?
            }
        };
        let parent = Self { link };
        parent.require_layer::<K>()?;
        kind.require_parent(&parent.link)?;
        parent.mtu(conf)?;
        Ok(parent)
    }

    fn require_layer<K: ChildLinkKind>(&self) -> Result<(), Error> {
        let name = &self.link.name;
        let (msg, details) = match (K::LAYER, self.link.layer()) {
            (LinkLayer::Ethernet, LinkLayer::InfiniBand) => (
                format!("master {name} is an InfiniBand link: {} needs Ethernet", K::NAME),
                "use the ipoib plugin on InfiniBand",
            ),
            (LinkLayer::InfiniBand, LinkLayer::Ethernet) => {
                let kind = self.link.kind.as_ref().map_or_else(|| "device".into(), ToString::to_string);
                let msg =
                    format!("master device is ({kind}) not of type {}: {name} is not InfiniBand", K::NAME);
                (msg, "use macvlan or ipvlan on Ethernet")
            }
            _ => return Ok(()),
        };
        Err(CniError::config(msg).with_details(details).into())
    }

    /// Returns the MTU of the configuration, in bytes. That of an InfiniBand link is limited by its mode, not by its parent.
    ///
    /// # Errors
    /// If it is below 0 or above the parent's.
    pub(crate) fn mtu<K: ChildLinkKind>(&self, conf: &ChildLinkConf<K>) -> Result<Option<u32>, Error> {
        let Some(mtu) = conf.settings.mtu else { return Ok(None) };
        let is_limited = K::LAYER == LinkLayer::Ethernet;
        let valid = u32::try_from(mtu).ok().filter(|mtu| !is_limited || *mtu <= self.link.mtu);
        valid.map(Some).ok_or_else(|| {
            CniError::config(format!("invalid MTU {mtu}, must be [0, master MTU({})]", self.link.mtu)).into()
        })
    }

    /// Returns the error of setting the MTU of an IPoIB link.
    pub(crate) fn explain_mtu(&self, mtu: u32, error: rtnl::Error) -> Error {
        match &error {
            rtnl::Error::Netlink(netlink) if netlink.errno() == Some(Errno::EINVAL) => {
                CniError::config(format!("invalid MTU {mtu} for an IPoIB link on master {}", self.link.name))
                    .with_details(
                        "in datagram mode the limit is the MTU of the partition less 4 bytes, in connected mode 65520; \
                         `ip -d link` shows the mode of the master, which is that of the link too",
                    )
                    .into()
            }
            _ => error.into(),
        }
    }

    /// Returns the error of creating a link on this parent, with its cause if that is known.
    pub(crate) fn explain<K: ChildLinkKind>(&self, links: &Handle, error: rtnl::Error) -> Error {
        let errno = match &error {
            rtnl::Error::Netlink(error) => error.errno(),
            _ => None,
        };
        let (kind, name) = (K::NAME, &self.link.name);
        if errno == Some(Errno::EOPNOTSUPP) {
            return ChildError::NoModule { kind, source: error }.into();
        }
        let Some(other) = K::CONFLICTING.filter(|_| errno == Some(Errno::EBUSY)) else {
            return CniError::from(Error::from(error)).context(format!("{kind} on master {name}")).into();
        };
        let here = self.links_of_kind(links, other);
        ChildError::Busy { master: name.clone(), kind, other, here, source: error }.into()
    }

    /// Returns the names of the links of a kind on this parent, except those in pods.
    fn links_of_kind(&self, links: &Handle, other: &str) -> Vec<String> {
        let conflicts = |link: &Link| {
            link.parent == Some(self.link.index)
                && link.kind.as_ref().is_some_and(|kind| kind.to_string() == other)
        };
        let all = links.links().unwrap_or_default();
        all.into_iter().filter(conflicts).map(|link| link.name).collect()
    }
}

/// The number of links that an error lists.
const MAX_LISTED: usize = 16;

/// Returns the error of a master that does not exist, with the names of the links that do, except those of pods.
fn not_found(links: &Handle, name: &AnyLinkName, in_container: bool) -> Result<Error, rtnl::Error> {
    let place = if in_container { "pod" } else { "node" };
    let mut there = links.links()?;
    there.retain(|link| link.name != "lo" && link.kind != Some(LinkKind::Other("veth".to_owned())));
    let mut names: Vec<_> = there.iter().take(MAX_LISTED).map(|link| link.name.as_str()).collect();
    if there.len() > MAX_LISTED {
        names.push("…");
    }
    let names = match (names.as_slice(), in_container) {
        ([], true) => "none but lo and veths".to_owned(),
        ([], false) => "none but lo and veths; is the plugin in the network namespace of the node (hostNetwork of the pod of Multus)?".to_owned(),
        (names, _) => names.join(", "),
    };
    let details =
        format!("master must be the name or an altname of a link of the {place} (`ip link`): {names}");
    let msg = format!("failed to lookup master {:?}: Link not found", name.as_str());
    Ok(CniError::config(msg).with_details(details).into())
}
