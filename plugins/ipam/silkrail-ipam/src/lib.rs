//! `silkrail-ipam`: addresses from `SpiderIPPool` pools, claimed on the node's own disk.
//!
//! It answers to `spiderpool` too and reads Spiderpool's keys. Read [`add`] first; what it changes on the
//! node is [`change::Change`].

#![forbid(unsafe_code)]

mod add;
mod change;
mod conf;
mod note;
mod restart;

use cni::{Add, AddResult, Check, Code, Del, Error, Gc, Plugin, Status};
use ipam::LocalStore;
use plugin::{Node, attachment};

use self::{change::Change, conf::Conf};

/// The IPAM plugin.
#[derive(Debug)]
pub struct SilkrailIpam;

/// It delegates to nobody.
static ITSELF: SilkrailIpam = SilkrailIpam;

const NAME: &str = "silkrail-ipam";

impl Plugin for SilkrailIpam {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> Option<String> {
        Some(format!("CNI {NAME} plugin {} (silkrail)", env!("CARGO_PKG_VERSION")))
    }

    fn add(&self, request: &Add<'_>) -> Result<AddResult, Error> {
        add::add(request)
    }

    fn del(&self, request: &Del<'_>) -> Result<(), Error> {
        let node = Node::of(&request.common, &ITSELF)?;
        if !attachment::take_back::<Change>(&node, NAME, &request.attachment)? {
            release_unknown(&node, request)?;
        }
        Ok(())
    }

    fn check(&self, request: &Check<'_>) -> Result<(), Error> {
        let node = Node::of(&request.common, &ITSELF)?;
        let Some(journal) = attachment::find::<Change>(&node, NAME, &request.attachment)? else {
            let msg = format!("attachment {} has no address here", request.attachment);
            return Err(Error::new(Code::CHANGED, msg));
        };
        Ok(journal.verify(&node)?)
    }

    fn gc(&self, request: &Gc<'_>) -> Result<(), Error> {
        let node = Node::of(&request.common, &ITSELF)?;
        Ok(attachment::collect::<Change>(&node, self, &request.common, &request.valid)?)
    }

    fn status(&self, request: &Status<'_>) -> Result<(), Error> {
        let unavailable = |e: plugin::Error| Error { code: Code::NOT_AVAILABLE, ..e.into() };
        let conf = Conf::of(&request.common).map_err(unavailable)?;
        conf.select(&request.common, "").map(drop).map_err(unavailable)
    }
}

/// Releases the addresses of an attachment that no journal tells of.
fn release_unknown(node: &Node, request: &Del<'_>) -> Result<(), plugin::Error> {
    let Some(store) = LocalStore::open_existing(node.state.root(), journal::boot_id()?)? else {
        return Ok(());
    };
    for address in store.owned_by(&request.attachment)? {
        store.release(None, address, &request.attachment)?;
    }
    Ok(())
}
