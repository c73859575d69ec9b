//! Pods that CNI plugins gave a VF: ours, and the Go plugins of before.

use std::collections::BTreeMap;

use addr::{Attachment, PciAddress};
use netns::Living;
use plugin::{
    claim::{self, Part},
    upgrade::GoState,
};

use super::User;
use crate::{Error, Node};

/// Who has claimed which VF.
pub(crate) struct Claims {
    ours: BTreeMap<PciAddress, Attachment>,
    go: GoState,
}

impl Claims {
    /// Those whose owner lives, or may. What is dead for certain waits for `silkrail gc`, and is no use.
    pub(crate) fn read(node: &Node) -> Result<Self, Error> {
        let (claims, _) = claim::list(&node.state, Part::Vf)?;
        // Nobody can be judged dead from inside a container: then everybody lives.
        let living = if claims.is_empty() { None } else { Living::look(&node.root).ok() };
        let claims = claims.iter().filter(|claim| claim.death(living.as_ref()).is_none());
        let ours = claims.filter_map(|claim| Some((claim.device().1.pci()?, claim.owner().clone())));
        Ok(Self { ours: ours.collect(), go: GoState::below(&node.root) })
    }

    pub(crate) fn of(&self, vf: PciAddress) -> Vec<User> {
        let ours = self.ours.get(&vf).map(|attachment| User::Attachment { attachment: attachment.clone() });
        let theirs = self.go.allocation(vf).filter(|allocation| allocation.lives());
        let theirs = theirs.map(|allocation| User::GoPlugin { netns: allocation.netns().to_owned() });
        ours.into_iter().chain(theirs).collect()
    }
}
