//! What every plugin does alike: logging, finding its journals, reverting and collecting attachments.

use std::{fmt, path::PathBuf};

use cni::{
    AddRequest, AddResult, CallContext, CheckRequest, DelRequest, Error as CniError, GcRequest, Plugin,
    StatusRequest,
};
use identifiers::Attachment;
use journal::JournalContent;
use state::StateDir;

use crate::{
    Error, Node, RevertByJournal,
    attachment::{self, NodeChange},
    conf, delegate, log,
};

/// What is a plugin's own. [`Adapter`] makes a CNI plugin of it, which keeps a journal of each attachment.
pub trait JournaledPlugin: Sync {
    /// The name that a configuration's `type` gives it.
    const NAME: &'static str;
    /// Whether it says what it is when `CNI_COMMAND` is not set, as the Go plugin of this name does.
    const HAS_ABOUT: bool = false;
    /// What an ADD changes on the node, as it is written in the journal.
    type Change: NodeChange;

    /// Attaches a container, all or nothing.
    ///
    /// # Errors
    /// Whatever made it impossible; the node is then as before.
    fn add(&self, node: &Node, request: &AddRequest<'_>) -> Result<AddResult, CniError>;

    /// Releases an attachment that no journal, or no whole one, tells of: the Go plugin's, or one whose journal was lost.
    ///
    /// # Errors
    /// What is left.
    fn del_without_journal(&self, node: &Node, request: &DelRequest<'_>) -> Result<(), CniError>;

    /// Looks whether an attachment is as ADD left it.
    ///
    /// # Errors
    /// What differs.
    fn check(&self, node: &Node, request: &CheckRequest<'_>) -> Result<(), CniError>;

    /// Releases what is claimed by attachments that neither a journal nor the list of valid ones tells of.
    ///
    /// # Errors
    /// What is left.
    fn gc_without_journal(&self, node: &Node, valid: &[Attachment]) -> Result<(), Error> {
        let _ = (node, valid);
        Ok(())
    }

    /// Looks whether an ADD could succeed now.
    ///
    /// # Errors
    /// Why not.
    fn status(&self, node: &Node, request: &StatusRequest<'_>) -> Result<(), CniError>;
}

/// The CNI plugin of a [`JournaledPlugin`].
pub struct Adapter<P> {
    plugin: P,
    builtin_ipam: Option<&'static dyn Plugin>,
}

impl<P: JournaledPlugin> Adapter<P> {
    /// A plugin that delegates to an IPAM plugin; `builtin_ipam` is called in this process where a configuration means it.
    pub const fn with_ipam(plugin: P, builtin_ipam: &'static dyn Plugin) -> Self {
        Self { plugin, builtin_ipam: Some(builtin_ipam) }
    }

    /// A plugin that delegates to nobody.
    pub const fn without_ipam(plugin: P) -> Self {
        Self { plugin, builtin_ipam: None }
    }

    fn node(&self, common: &CallContext<'_>) -> Result<Node, CniError> {
        Ok(Node::new(conf::state_dir(common)?, common.cni_path.clone(), self.builtin_ipam))
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
        log::configure(&request.common, log::about(&request.attachment, Some(&request.netns)))?;
        self.plugin.add(&self.node(&request.common)?, request)
    }

    fn del(&self, request: &DelRequest<'_>) -> Result<(), CniError> {
        // A DEL never fails because of how it should log.
        let _ = log::configure(&request.common, log::about(&request.attachment, request.netns.as_deref()));
        let node = self.node(&request.common)?;
        if attachment::revert::<P::Change>(&node, P::NAME, &request.attachment)? {
            return Ok(());
        }
        self.plugin.del_without_journal(&node, request)
    }

    fn check(&self, request: &CheckRequest<'_>) -> Result<(), CniError> {
        log::configure(&request.common, log::about(&request.attachment, Some(&request.netns)))?;
        self.plugin.check(&self.node(&request.common)?, request)
    }

    fn gc(&self, request: &GcRequest<'_>) -> Result<(), CniError> {
        // Nor does a GC.
        let _ = log::configure(&request.common, String::new());
        let node = self.node(&request.common)?;
        let collected = self.collect(&node, request);
        if self.builtin_ipam.is_some() {
            let kept = attachment::of_network(&node, P::NAME, &request.common.conf.name)?;
            delegate::gc(request, &kept, &node)?;
        }
        Ok(collected?)
    }

    fn status(&self, request: &StatusRequest<'_>) -> Result<(), CniError> {
        log::configure(&request.common, String::new())?;
        self.plugin.status(&self.node(&request.common)?, request)
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
}

/// What a journal of a plugin says.
///
/// # Errors
/// What is wrong with it.
pub fn read_journal<P: JournaledPlugin>(bytes: &[u8]) -> Result<JournalContent<P::Change>, String> {
    JournalContent::parse(bytes)
}
