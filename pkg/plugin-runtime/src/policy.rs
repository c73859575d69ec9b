//! The policy of the node: what an ADD takes is compared with it before anything is changed.

use std::path::Path;

use cni::{AddRequest, CallContext, Error as CniError, Plugin};
use node_policy::NodePolicy;
use rtnl::{Handle, Link, LinkKind};
use state::StateDir;

use crate::{
    Error, Node,
    delegate::{self, Delegate},
    log, not_available,
};

pub use node_policy::{Resource, ResourceUses};

/// A plugin that states what it takes. The IPAM plugin of an executable is one, so that the main plugin knows it before it changes
/// anything.
pub trait ResourceUser: Plugin {
    /// Returns what an ADD takes of the node, without its IPAM plugin: see [`crate::JournaledPlugin::uses`].
    ///
    /// # Errors
    /// As those of the ADD.
    fn uses(
        &self,
        node: &Node,
        common: &CallContext<'_>,
        request: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, CniError>;
}

/// The policy of the node for a call. It is not generic: the executable has the code once, and not for each plugin.
pub(crate) struct CallPolicy(Option<Box<NodePolicy>>);

impl CallPolicy {
    /// Reads the policy for an ADD, and checks its keys that every plugin has: the log file is not created before. There is none
    /// for a call that is part of another one, which was compared with it.
    ///
    /// # Errors
    /// If it cannot be read, or is not valid; what the pod may not use.
    pub(crate) fn of_add(common: &CallContext<'_>) -> Result<Self, CniError> {
        if log::is_configured() { Ok(Self(None)) } else { Self::read()?.requiring_of_every_plugin(common) }
    }

    /// As [`CallPolicy::of_add`], for a STATUS: runtimes do not ask it about a pod, but `silkrail doctor` does. Without a pod, the
    /// policy is only read.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn of_status(common: &CallContext<'_>) -> Result<Self, CniError> {
        if log::is_configured() {
            return Ok(Self(None));
        }
        let this = Self::read()?;
        if pod_namespace(common).is_none() { Ok(Self(None)) } else { this.requiring_of_every_plugin(common) }
    }

    fn read() -> Result<Self, Error> {
        Ok(Self(NodePolicy::read(Path::new("/"))?.map(Box::new)))
    }

    fn requiring_of_every_plugin(self, common: &CallContext<'_>) -> Result<Self, CniError> {
        if self.0.is_some() {
            self.require(common, &of_every_plugin(common)?)?;
        }
        Ok(self)
    }

    /// Checks that the pod of an ADD may use what a plugin and its IPAM plugin take.
    ///
    /// # Errors
    /// What it may not use; those of the plugins.
    pub(crate) fn require_of_add(
        &self,
        plugin: &dyn ResourceUser,
        ipam: Option<&'static dyn ResourceUser>,
        node: &Node,
        request: &AddRequest<'_>,
    ) -> Result<(), CniError> {
        self.require_uses(plugin, ipam, node, &request.common, Some(request))
    }

    /// As [`CallPolicy::require_of_add`], for a STATUS.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn require_of_status(
        &self,
        plugin: &dyn ResourceUser,
        ipam: Option<&'static dyn ResourceUser>,
        node: &Node,
        common: &CallContext<'_>,
    ) -> Result<(), CniError> {
        self.require_uses(plugin, ipam, node, common, None).map_err(not_available)
    }

    fn require_uses(
        &self,
        plugin: &dyn ResourceUser,
        ipam: Option<&'static dyn ResourceUser>,
        node: &Node,
        common: &CallContext<'_>,
        request: Option<&AddRequest<'_>>,
    ) -> Result<(), CniError> {
        if self.0.is_none() {
            return Ok(());
        }
        self.require(common, &plugin.uses(node, common, request)?)?;
        let Some(ipam) = ipam else { return Ok(()) };
        let uses = match delegate::find(common, node.builtin_ipam)? {
            Delegate::None => return Ok(()),
            Delegate::Builtin(_) => ipam.uses(node, common, request)?,
            Delegate::Executable(path) => of_delegate(&path),
        };
        self.require(common, &uses)
    }

    fn require(&self, common: &CallContext<'_>, uses: &ResourceUses) -> Result<(), CniError> {
        let Some(policy) = &self.0 else { return Ok(()) };
        policy.require(pod_namespace(common), uses).map_err(|error| Error::from(error).into())
    }
}

/// Returns the namespace of the pod. The runtime, or Multus, sets it; nothing in the configuration does.
fn pod_namespace<'a>(common: &'a CallContext<'_>) -> Option<&'a str> {
    common.args.get("K8S_POD_NAMESPACE")
}

/// Returns what the keys take that every plugin has.
///
/// # Errors
/// If a value is invalid.
fn of_every_plugin(common: &CallContext<'_>) -> Result<ResourceUses, CniError> {
    let fields = common.conf.fields();
    let mut uses = ResourceUses::default();
    uses.add_some(Resource::StateDir, fields.text("stateDir")?.filter(|dir| *dir != StateDir::DEFAULT));
    uses.add_some(Resource::LogFile, fields.text("logFile")?);
    Ok(uses)
}

fn of_delegate(path: &Path) -> ResourceUses {
    let mut uses = ResourceUses::default();
    // Another file of ours states what it takes itself.
    let name = path.file_name().filter(|name| *name != delegate::OWN_NAME);
    uses.add_some(Resource::Ipam, name.map(|name| name.display()));
    uses
}

/// Checks that the pod may use an IPAM plugin. Without a journal, as after an ADD that the policy refused, nothing else says so.
///
/// # Errors
/// As [`CallPolicy::of_add`].
pub(crate) fn require_delegate(common: &CallContext<'_>, path: &Path) -> Result<(), CniError> {
    CallPolicy::read()?.require(common, &of_delegate(path))
}

/// As [`require_delegate`], for the keys that every plugin has.
///
/// # Errors
/// As there.
pub(crate) fn require_keys_of_every_plugin(common: &CallContext<'_>) -> Result<(), CniError> {
    CallPolicy::read()?.requiring_of_every_plugin(common).map(drop)
}

/// Adds the use of a link of the node as a master. That of a VLAN link is the use of the link below it, too.
///
/// # Errors
/// If the kernel refuses a query.
pub fn add_master(uses: &mut ResourceUses, links: &Handle, link: &Link) -> Result<(), Error> {
    let mut names = Vec::new();
    let mut next = Some(link.clone());
    while let Some(link) = next.take() {
        names.push(link.name);
        names.extend(link.altnames);
        if let Some(LinkKind::Vlan(Some(id))) = link.kind {
            uses.add(Resource::Vlan, &id);
            // The index is that of another link if the one below is in another namespace.
            next = match link.parent.filter(|_| link.parent_netns.is_none()) {
                Some(parent) => links.find_link_by_index(parent)?,
                None => None,
            };
        }
    }
    uses.add_named(Resource::Master, names);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_link_is_used_by_its_id_and_the_links_below_it() {
        let links = Handle::open().unwrap();
        let uses = |link: &Link| {
            let mut uses = ResourceUses::default();
            add_master(&mut uses, &links, link).unwrap();
            uses
        };
        let lo = links.link_called("lo").unwrap();
        let mut names = vec![lo.name.clone()];
        names.extend(lo.altnames.clone());
        let mut expected = ResourceUses::default();
        expected.add_named(Resource::Master, names.clone());
        assert_eq!(uses(&lo), expected);
        let vlan = Link {
            name: "storage".into(),
            altnames: vec!["other".into()],
            kind: Some(LinkKind::Vlan(Some(150))),
            parent: Some(lo.index),
            parent_netns: None,
            ..lo
        };
        let mut expected = ResourceUses::default();
        expected.add(Resource::Vlan, &150);
        expected.add_named(Resource::Master, [vec!["storage".into(), "other".into()], names].concat());
        assert_eq!(uses(&vlan), expected);
        let of_other_netns = Link { parent_netns: Some(0), ..vlan };
        let mut expected = ResourceUses::default();
        expected.add(Resource::Vlan, &150);
        expected.add_named(Resource::Master, vec!["storage".into(), "other".into()]);
        assert_eq!(uses(&of_other_netns), expected);
    }
}
