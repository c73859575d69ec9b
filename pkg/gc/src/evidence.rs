//! What is alive on the node, at one time.

use netns::LiveNetns;
use state::orphans::LivenessEvidence;

use crate::{error::Error, gc_node::GcNode};

/// The evidence for verdicts. A namespace that it shows as dead stays dead, so old evidence remains valid for those.
pub(crate) struct GcEvidence<'a> {
    pub(crate) living: LiveNetns,
    pub(crate) witnesses: LivenessEvidence<'a>,
}

impl<'a> GcEvidence<'a> {
    pub(crate) fn scan(node: &'a GcNode) -> Result<Self, Error> {
        Ok(Self { living: LiveNetns::scan(&node.root)?, witnesses: LivenessEvidence::look(&node.state)? })
    }
}
