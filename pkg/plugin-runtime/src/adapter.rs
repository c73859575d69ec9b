//! The part that is common to all plugins: logging, finding journals, reverting and collecting attachments.

use std::{fmt, path::PathBuf};

use cni::{
    AddRequest, AddResult, CallContext, CheckRequest, DelRequest, Error as CniError, GcRequest, Plugin,
    StatusRequest,
};
use identifiers::{Attachment, LinkName};
use journal::JournalContent;
use state::StateDir;

use crate::{
    Error, Node, RevertByJournal, UnusedMaster,
    attachment::{self, NodeChange},
    attachment_gc,
    call_log::CallLog,
    conf, delegate, log, not_available,
    policy::{self, CallPolicy, ResourceUser, ResourceUses},
};

/// The part that differs between plugins. [`Adapter`] turns it into a CNI plugin, which keeps a journal of each attachment.
pub trait JournaledPlugin: Sync {
    /// The `type` of a configuration that selects this plugin, such as `macvlan`.
    const NAME: &'static str;
    /// Whether it prints its name and version if `CNI_COMMAND` is not set, as the Go plugin of this name does.
    const HAS_ABOUT: bool = false;
    /// A change that an ADD makes on the node, as the journal records it.
    type Change: NodeChange;

    /// Returns what an ADD takes of the node, which the policy of the node must allow. Nothing is changed. It is called only if
    /// the node has a policy, by ADD before anything else, and by STATUS with `None` as the request. Every key that names
    /// something of the node counts; `tests/tests/netns/policy.rs` has the list.
    ///
    /// # Errors
    /// As those of the ADD, such as an invalid value.
    fn uses(
        &self,
        node: &Node,
        common: &CallContext<'_>,
        request: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, CniError>;

    /// Attaches a container, all or nothing.
    ///
    /// # Errors
    /// The failure; all changes were then reverted.
    fn add(&self, node: &Node, request: &AddRequest<'_>) -> Result<AddResult, CniError>;

    /// Releases an attachment without a complete journal: one of the Go plugin, or one whose journal was lost.
    ///
    /// # Errors
    /// What could not be released.
    fn del_without_journal(&self, node: &Node, request: &DelRequest<'_>) -> Result<(), CniError>;

    /// Checks that an attachment is in the state that ADD left.
    ///
    /// # Errors
    /// The first difference.
    fn check(&self, node: &Node, request: &CheckRequest<'_>) -> Result<(), CniError>;

    /// Releases the claims of attachments that have no journal and are not listed as valid.
    ///
    /// # Errors
    /// The claims that could not be released.
    fn gc_without_journal(&self, node: &Node, valid: &[Attachment]) -> Result<(), Error> {
        let _ = (node, valid);
        Ok(())
    }

    /// Returns the masters that the plugin recorded and no attachment uses. Nothing is changed. Only a plugin that creates
    /// masters has any.
    ///
    /// # Errors
    /// If they cannot be determined.
    fn unused_masters(&self, node: &Node) -> Result<Vec<UnusedMaster>, Error> {
        let _ = node;
        Ok(Vec::new())
    }

    /// Ends a master that [`JournaledPlugin::unused_masters`] returned, unless it is in use by now.
    ///
    /// # Errors
    /// What could not be reverted.
    fn end_unused_master(&self, node: &Node, name: &LinkName) -> Result<(), Error> {
        let _ = (node, name);
        Ok(())
    }

    /// Checks whether an ADD could succeed now.
    ///
    /// # Errors
    /// The reason why an ADD would fail.
    fn status(&self, node: &Node, request: &StatusRequest<'_>) -> Result<(), CniError>;
}

const DEL: &str = "DEL";

/// The CNI plugin of a [`JournaledPlugin`].
pub struct Adapter<P> {
    plugin: P,
    builtin_ipam: Option<&'static dyn ResourceUser>,
}

impl<P: JournaledPlugin> Adapter<P> {
    /// A plugin that delegates to an IPAM plugin. `builtin_ipam` is called in this process if a configuration selects it.
    pub const fn with_ipam(plugin: P, builtin_ipam: &'static dyn ResourceUser) -> Self {
        Self { plugin, builtin_ipam: Some(builtin_ipam) }
    }

    /// A plugin without an IPAM plugin.
    pub const fn without_ipam(plugin: P) -> Self {
        Self { plugin, builtin_ipam: None }
    }

    fn builtin_plugin(&self) -> Option<&'static dyn Plugin> {
        self.builtin_ipam.map(|ipam| ipam as &dyn Plugin)
    }

    fn logged(
        &self,
        verb: &'static str,
        is_outer: bool,
        common: &CallContext<'_>,
        call: &mut dyn FnMut(&Node) -> Result<(), CniError>,
    ) -> Result<(), CniError> {
        logged(verb, self.builtin_plugin(), is_outer, common, call)
    }

    /// Configures logging for a DEL or a CHECK. That of an ADD which the policy refused does not write its `logFile` either.
    fn configure_log(
        &self,
        common: &CallContext<'_>,
        attachment: &Attachment,
        about: String,
    ) -> Result<bool, CniError> {
        let has_journal =
            || conf::state_dir(common).is_ok_and(|state| state.journal(attachment, P::NAME).exists());
        if log::is_configured() || !common.conf.fields().has("logFile") || has_journal() {
            return log::configure(common, about);
        }
        match policy::require_keys_of_every_plugin(common) {
            Ok(()) => log::configure(common, about),
            Err(error) => Ok(log::configure_without_file(common, about, &error)),
        }
    }

    fn collect(&self, node: &Node, request: &GcRequest<'_>) -> Result<(), Error> {
        let network = &request.common.conf.name;
        let collected = attachment_gc::gc::<P::Change>(node, P::NAME, network, &request.valid);
        collected.and(self.plugin.gc_without_journal(node, &request.valid))
    }
}

/// Makes a call and logs it, unless it is part of another call, as that of the IPAM plugin is. That one has checked the state
/// directory. It is not generic: the executable has the code once, and not for each plugin.
fn logged(
    verb: &'static str,
    builtin_ipam: Option<&'static dyn Plugin>,
    is_outer: bool,
    common: &CallContext<'_>,
    call: &mut dyn FnMut(&Node) -> Result<(), CniError>,
) -> Result<(), CniError> {
    let state = if verb == DEL { conf::state_dir_of_del(common) } else { conf::state_dir(common)? };
    let node = Node::new(state, common.cni_path.clone(), builtin_ipam);
    if !is_outer {
        return call(&node);
    }
    node.state.require_own().map_err(Error::from)?;
    let log = CallLog::begin(verb, common);
    log.end(&node, call(&node))
}

impl<P: JournaledPlugin> fmt::Debug for Adapter<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Adapter").field(&P::NAME).finish()
    }
}

impl<P: JournaledPlugin> ResourceUser for Adapter<P> {
    fn uses(
        &self,
        node: &Node,
        common: &CallContext<'_>,
        request: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, CniError> {
        self.plugin.uses(node, common, request)
    }
}

impl<P: JournaledPlugin> Plugin for Adapter<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn about(&self) -> Option<String> {
        P::HAS_ABOUT.then(|| format!("CNI {} plugin {} (silkrail)", P::NAME, env!("CARGO_PKG_VERSION")))
    }

    fn add(&self, request: &AddRequest<'_>) -> Result<AddResult, CniError> {
        let policy = CallPolicy::of_add(&request.common)?;
        let about = log::about(&request.common, &request.attachment, Some(&request.netns));
        let is_outer = log::configure(&request.common, about)?;
        let mut result = AddResult::default();
        self.logged("ADD", is_outer, &request.common, &mut |node| {
            if is_outer {
                node.state.require_of_node(Some(&request.netns)).map_err(Error::from)?;
            }
            policy.require_of_add(self, self.builtin_ipam, node, request)?;
            result = self.plugin.add(node, request)?;
            Ok(())
        })?;
        Ok(result)
    }

    fn del(&self, request: &DelRequest<'_>) -> Result<(), CniError> {
        // A DEL does not fail because of the logging configuration.
        let about = log::about(&request.common, &request.attachment, request.netns.as_deref());
        let is_outer = self.configure_log(&request.common, &request.attachment, about).unwrap_or(true);
        self.logged(DEL, is_outer, &request.common, &mut |node| {
            if attachment::revert::<P::Change>(node, P::NAME, &request.attachment)? {
                return Ok(());
            }
            self.plugin.del_without_journal(node, request)
        })
    }

    fn check(&self, request: &CheckRequest<'_>) -> Result<(), CniError> {
        let about = log::about(&request.common, &request.attachment, Some(&request.netns));
        let is_outer = self.configure_log(&request.common, &request.attachment, about)?;
        self.logged("CHECK", is_outer, &request.common, &mut |node| self.plugin.check(node, request))
    }

    fn gc(&self, request: &GcRequest<'_>) -> Result<(), CniError> {
        // As in DEL.
        let is_outer = log::configure(&request.common, String::new()).unwrap_or(true);
        self.logged("GC", is_outer, &request.common, &mut |node| {
            let collected = self.collect(node, request);
            if self.builtin_ipam.is_some() {
                let kept = attachment::of_network(node, P::NAME, &request.common.conf.name)?;
                delegate::gc(request, &kept, node)?;
            }
            Ok(collected?)
        })
    }

    fn status(&self, request: &StatusRequest<'_>) -> Result<(), CniError> {
        let policy = CallPolicy::of_status(&request.common).map_err(not_available)?;
        let is_outer = log::configure(&request.common, String::new())?;
        self.logged("STATUS", is_outer, &request.common, &mut |node| {
            node.state.require_of_node(None).map_err(|error| not_available(Error::from(error)))?;
            policy.require_of_status(self, self.builtin_ipam, node, &request.common)?;
            self.plugin.status(node, request)
        })
    }
}

impl<P: JournaledPlugin> RevertByJournal for Adapter<P> {
    fn revert_attachment(
        &self,
        state: StateDir,
        cni_path: Vec<PathBuf>,
        attachment: &Attachment,
        inode: u64,
    ) -> Result<(), Error> {
        let node = Node::new(state, cni_path, self.builtin_plugin());
        attachment::revert_if_inode::<P::Change>(&node, P::NAME, attachment, inode)
    }

    fn unused_masters(&self, state: StateDir) -> Result<Vec<UnusedMaster>, Error> {
        self.plugin.unused_masters(&Node::new(state, Vec::new(), None))
    }

    fn end_unused_master(&self, state: StateDir, name: &LinkName) -> Result<(), Error> {
        self.plugin.end_unused_master(&Node::new(state, Vec::new(), None), name)
    }
}

/// Parses a journal of a plugin.
///
/// # Errors
/// Why it is malformed.
pub fn read_journal<P: JournaledPlugin>(bytes: &[u8]) -> Result<JournalContent<P::Change>, String> {
    JournalContent::parse(bytes)
}
