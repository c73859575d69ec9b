//! `silkrail-ipam`: addresses from `SpiderIPPool` pools, claimed on the node's own disk.
//!
//! It answers to `spiderpool` too and reads Spiderpool's keys. Read [`add`] first; what it changes on the
//! node is [`change::Change`].

#![forbid(unsafe_code)]

mod add;
mod change;
mod conf;
mod full;
mod note;
mod reclaim;
mod requested;
mod restart;
mod status;

use std::path::PathBuf;

use addr::Attachment;
use cni::{Add, AddResult, Check, Code, Del, Error, Gc, Plugin, Status};
use ipam::LocalStore;
use journal::Content;
use plugin::{
    Journaled, Node, State,
    attachment::{self, NodeChange},
    journals, log, lost,
};

use self::change::Change;

/// The IPAM plugin.
#[derive(Debug)]
pub struct SilkrailIpam;

/// It delegates to nobody.
static ITSELF: SilkrailIpam = SilkrailIpam;

const NAME: &str = "silkrail-ipam";

/// What a journal of this plugin says.
///
/// # Errors
/// What is wrong with it.
pub fn read_journal(bytes: &[u8]) -> Result<Content<impl NodeChange + use<>>, String> {
    Content::<Change>::parse(bytes)
}

impl Plugin for SilkrailIpam {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> Option<String> {
        Some(format!("CNI {NAME} plugin {} (silkrail)", env!("CARGO_PKG_VERSION")))
    }

    fn add(&self, request: &Add<'_>) -> Result<AddResult, Error> {
        log::configure(&request.common, log::about(&request.attachment, Some(&request.netns)))?;
        add::add(request)
    }

    fn del(&self, request: &Del<'_>) -> Result<(), Error> {
        // A DEL never fails because of how it should log.
        let _ = log::configure(&request.common, log::about(&request.attachment, request.netns.as_deref()));
        let node = Node::of(&request.common, &ITSELF)?;
        if !attachment::take_back::<Change>(&node, NAME, &request.attachment)? {
            release_unknown(&node, &request.attachment)?;
        }
        Ok(())
    }

    fn check(&self, request: &Check<'_>) -> Result<(), Error> {
        log::configure(&request.common, log::about(&request.attachment, Some(&request.netns)))?;
        let node = Node::of(&request.common, &ITSELF)?;
        let Some(journal) = attachment::find::<Change>(&node, NAME, &request.attachment)? else {
            let msg = format!("attachment {} has no address here", request.attachment);
            return Err(Error::new(Code::CHANGED, msg));
        };
        Ok(journal.verify(&node)?)
    }

    fn gc(&self, request: &Gc<'_>) -> Result<(), Error> {
        // Nor does a GC.
        let _ = log::configure(&request.common, String::new());
        let node = Node::of(&request.common, &ITSELF)?;
        let collected = attachment::collect::<Change>(&node, self, &request.common, &request.valid);
        let released = lost::collect_addresses(&node.state, &request.valid);
        Ok(collected.and(released)?)
    }

    fn status(&self, request: &Status<'_>) -> Result<(), Error> {
        log::configure(&request.common, String::new())?;
        status::status(request).map_err(|e| Error { code: Code::NOT_AVAILABLE, ..e.into() })
    }
}

impl Journaled for SilkrailIpam {
    fn take_back(
        &self,
        state: State,
        cni_path: Vec<PathBuf>,
        attachment: &Attachment,
        inode: u64,
    ) -> Result<(), plugin::Error> {
        let node = Node::new(state, cni_path, &ITSELF);
        attachment::take_back_judged::<Change>(&node, NAME, attachment, inode)
    }
}

/// Releases the addresses of an attachment whose journal was lost.
///
/// Only then every claim is looked at: runtimes repeat a DEL, and each would cost a look at each address in use. A
/// journal that is there no more was taken back whole, unless it was set aside, or all of them are gone. One that
/// somebody has removed among others is for GC, which finds claims without a journal.
fn release_unknown(node: &Node, attachment: &Attachment) -> Result<(), plugin::Error> {
    let Some(store) = LocalStore::open_existing(node.state.root(), journal::boot_id()?)? else {
        return Ok(());
    };
    if !journals::may_be_lost(&node.state, NAME, attachment)? {
        return Ok(());
    }
    for address in store.owned_by(attachment)? {
        store.release(None, address, attachment)?;
    }
    Ok(())
}
