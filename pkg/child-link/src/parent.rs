//! The parent of a child link.

use cni::Error as CniError;
use nix::errno::Errno;
use plugin_runtime::{Error, Node, PodNetns};
use rtnl::{Handle, INFINIBAND, Link};

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
        node: &Node,
        pod: &PodNetns,
        conf: &ChildLinkConf<K>,
    ) -> Result<Self, Error> {
        if conf.settings.link_in_container {
            Self::among(&pod.links, conf)
        } else {
            Self::of_node(node, conf)
        }
    }

    /// Finds the parent on the node.
    ///
    /// # Errors
    /// As [`Parent::find`].
    pub(crate) fn of_node<K: ChildLinkKind>(node: &Node, conf: &ChildLinkConf<K>) -> Result<Self, Error> {
        Self::among(node.links()?, conf)
    }

    fn among<K: ChildLinkKind>(links: &Handle, conf: &ChildLinkConf<K>) -> Result<Self, Error> {
        let link = match &conf.settings.master {
            Some(name) => links.link(name).map_err(|e| not_found(e, name.as_str()))?,
            None => {
                let index = links.default_route_link()?.ok_or_else(|| {
                    CniError::config("no default route interface found")
                        .with_details("set master to the name of the parent link")
                })?;
                links.link_by_index(index)?
            }
        };
        let parent = Self { link };
        parent.require_ethernet::<K>()?;
        parent.mtu(conf)?;
        Ok(parent)
    }

    fn require_ethernet<K: ChildLinkKind>(&self) -> Result<(), Error> {
        let Link { name, hardware, .. } = &self.link;
        if *hardware != INFINIBAND {
            return Ok(());
        }
        let msg = format!("master {name} is an InfiniBand link: {} needs Ethernet", K::NAME);
        Err(CniError::config(msg).with_details("use the ipoib plugin on InfiniBand").into())
    }

    /// Returns the MTU of the configuration, in bytes.
    ///
    /// # Errors
    /// If it is below 0 or above the parent's.
    pub(crate) fn mtu<K: ChildLinkKind>(&self, conf: &ChildLinkConf<K>) -> Result<Option<u32>, Error> {
        let Some(mtu) = conf.settings.mtu else { return Ok(None) };
        let valid = u32::try_from(mtu).ok().filter(|mtu| *mtu <= self.link.mtu);
        valid.map(Some).ok_or_else(|| {
            CniError::config(format!("invalid MTU {mtu}, must be [0, master MTU({})]", self.link.mtu)).into()
        })
    }

    /// Returns the error of creating a link on this parent, with its cause if that is known.
    pub(crate) fn explain<K: ChildLinkKind>(&self, links: &Handle, error: rtnl::Error) -> Error {
        let errno = match &error {
            rtnl::Error::Netlink(error) => error.errno(),
            _ => None,
        };
        let (kind, other, name) = (K::NAME, K::CONFLICTING, &self.link.name);
        if errno == Some(Errno::EOPNOTSUPP) {
            return ChildError::NoModule { kind, source: error }.into();
        }
        if errno != Some(Errno::EBUSY) {
            return CniError::from(Error::from(error)).context(format!("{kind} on master {name}")).into();
        }
        let here = self.conflicting::<K>(links);
        ChildError::Busy { master: name.clone(), kind, other, here, source: error }.into()
    }

    /// Returns the names of the links of the conflicting kind on this parent, except those in pods.
    fn conflicting<K: ChildLinkKind>(&self, links: &Handle) -> Vec<String> {
        let conflicts = |link: &Link| {
            link.parent == Some(self.link.index)
                && link.kind.as_ref().is_some_and(|kind| kind.to_string() == K::CONFLICTING)
        };
        let all = links.links().unwrap_or_default();
        all.into_iter().filter(conflicts).map(|link| link.name).collect()
    }
}

fn not_found(error: rtnl::Error, name: &str) -> Error {
    if !error.is_not_found() {
        return error.into();
    }
    CniError::config(format!("failed to lookup master {name:?}: Link not found"))
        .with_details("master must be the name of a link of the node (`ip link`), not an alternative name")
        .into()
}
