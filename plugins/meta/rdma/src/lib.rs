//! `rdma`: the RDMA device of the chain's function into the pod, and back.
//!
//! It follows `sriov` in a chain, in exclusive RDMA mode. Read [`add`] first; what it changes on the node is
//! [`exclusive::Change`].

#![forbid(unsafe_code)]

mod add;
mod conf;
mod error;
mod legacy;

use addr::Attachment;
use cni::{Add, AddResult, Check, Del, Error, Status};
use exclusive::Change;
pub use legacy::Noted;
use plugin::{JournaledPlugin, Node, attachment, collect, not_available};
use state::claim::Part;

use self::error::RdmaError;

/// The rdma plugin.
#[derive(Debug)]
pub struct Rdma;

const NAME: &str = Rdma::NAME;

impl JournaledPlugin for Rdma {
    const NAME: &'static str = exclusive::PLUGIN;
    type Change = Change;

    fn add(&self, node: &Node, request: &Add<'_>) -> Result<AddResult, Error> {
        add::add(node, request)
    }

    fn del_without_journal(&self, node: &Node, request: &Del<'_>) -> Result<(), Error> {
        Ok(legacy::take_back(request, node)?)
    }

    fn check(&self, node: &Node, request: &Check<'_>) -> Result<(), Error> {
        let pod = plugin::netns_of(&request.netns, request.own_netns_allowed)?;
        let Some(journal) = attachment::find::<Change>(node, NAME, &request.attachment)? else {
            return Err(plugin::Error::from(RdmaError::NoAttachment(request.attachment.clone())).into());
        };
        journal.verify(node)?;
        journal.changes().iter().try_for_each(|change| change.is_in(&pod)).map_err(Into::into)
    }

    fn gc_without_journal(&self, node: &Node, valid: &[Attachment]) -> Result<(), plugin::Error> {
        collect::devices(node, Part::Rdma, valid)
    }

    fn status(&self, node: &Node, _: &Status<'_>) -> Result<(), Error> {
        exclusive::in_exclusive_mode(node).map(drop).map_err(not_available)
    }
}
