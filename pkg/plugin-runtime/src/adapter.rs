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
    call_log::CallLog,
    conf, delegate, log,
};

/// The part that differs between plugins. [`Adapter`] turns it into a CNI plugin, which keeps a journal of each attachment.
pub trait JournaledPlugin: Sync {
    /// The `type` of a configuration that selects this plugin, such as `macvlan`.
    const NAME: &'static str;
    /// Whether it prints its name and version if `CNI_COMMAND` is not set, as the Go plugin of this name does.
    const HAS_ABOUT: bool = false;
    /// A change that an ADD makes on the node, as the journal records it.
    type Change: NodeChange;

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

/// The CNI plugin of a [`JournaledPlugin`].
pub struct Adapter<P> {
    plugin: P,
    builtin_ipam: Option<&'static dyn Plugin>,
}

impl<P: JournaledPlugin> Adapter<P> {
    /// A plugin that delegates to an IPAM plugin. `builtin_ipam` is called in this process if a configuration selects it.
    pub const fn with_ipam(plugin: P, builtin_ipam: &'static dyn Plugin) -> Self {
        Self { plugin, builtin_ipam: Some(builtin_ipam) }
    }

    /// A plugin without an IPAM plugin.
    pub const fn without_ipam(plugin: P) -> Self {
        Self { plugin, builtin_ipam: None }
    }

    fn node(&self, common: &CallContext<'_>) -> Result<Node, CniError> {
        Ok(Node::new(conf::state_dir(common)?, common.cni_path.clone(), self.builtin_ipam))
    }

    /// Makes a call and logs it, unless it is part of another call, as that of the IPAM plugin is.
    fn logged<T>(
        &self,
        verb: &'static str,
        is_outer: bool,
        common: &CallContext<'_>,
        call: impl FnOnce(&Node) -> Result<T, CniError>,
    ) -> Result<T, CniError> {
        let node = self.node(common)?;
        if !is_outer {
            return call(&node);
        }
        let log = CallLog::begin(verb, common);
        log.end(&node, call(&node))
    }

    fn collect(&self, node: &Node, request: &GcRequest<'_>) -> Result<(), Error> {
        let network = &request.common.conf.name;
        let collected = attachment::gc::<P::Change>(node, P::NAME, network, &request.valid);
        collected.and(self.plugin.gc_without_journal(node, &request.valid))
    }
}

impl<P: JournaledPlugin> fmt::Debug for Adapter<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Adapter").field(&P::NAME).finish()
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
        let about = log::about(&request.common, &request.attachment, Some(&request.netns));
        let is_outer = log::configure(&request.common, about)?;
        self.logged("ADD", is_outer, &request.common, |node| self.plugin.add(node, request))
    }

    fn del(&self, request: &DelRequest<'_>) -> Result<(), CniError> {
        // A DEL does not fail because of the logging configuration.
        let about = log::about(&request.common, &request.attachment, request.netns.as_deref());
        let is_outer = log::configure(&request.common, about).unwrap_or(true);
        self.logged("DEL", is_outer, &request.common, |node| {
            if attachment::revert::<P::Change>(node, P::NAME, &request.attachment)? {
                return Ok(());
            }
            self.plugin.del_without_journal(node, request)
        })
    }

    fn check(&self, request: &CheckRequest<'_>) -> Result<(), CniError> {
        let about = log::about(&request.common, &request.attachment, Some(&request.netns));
        let is_outer = log::configure(&request.common, about)?;
        self.logged("CHECK", is_outer, &request.common, |node| self.plugin.check(node, request))
    }

    fn gc(&self, request: &GcRequest<'_>) -> Result<(), CniError> {
        // As in DEL.
        let is_outer = log::configure(&request.common, String::new()).unwrap_or(true);
        self.logged("GC", is_outer, &request.common, |node| {
            let collected = self.collect(node, request);
            if self.builtin_ipam.is_some() {
                let kept = attachment::of_network(node, P::NAME, &request.common.conf.name)?;
                delegate::gc(request, &kept, node)?;
            }
            Ok(collected?)
        })
    }

    fn status(&self, request: &StatusRequest<'_>) -> Result<(), CniError> {
        let is_outer = log::configure(&request.common, String::new())?;
        self.logged("STATUS", is_outer, &request.common, |node| self.plugin.status(node, request))
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
        let node = Node::new(state, cni_path, self.builtin_ipam);
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
