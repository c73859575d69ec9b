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

#[cfg(test)]
mod tests {
    use std::fs;

    use plugin::State;

    use super::*;

    /// study case V7. This thread's own namespace would count as none: the node's is no pod's.
    #[test]
    fn a_go_plugin_s_file_counts_while_its_namespace_lives() {
        let root = tempfile::tempdir().unwrap();
        let node = Node { root: root.path().to_owned(), state: State::at(root.path().join("run")) };
        let dir = root.path().join("var/lib/cni/sriov/pci");
        fs::create_dir_all(&dir).unwrap();
        let vf: PciAddress = "0000:af:00.2".parse().unwrap();
        let mut pod = std::process::Command::new("unshare").args(["--net", "sleep", "60"]).spawn().unwrap();
        let netns = format!("/proc/{}/ns/net", pod.id());
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        while fs::read_link(&netns).unwrap() == own {
            std::thread::yield_now();
        }
        fs::write(dir.join(vf.to_string()), &netns).unwrap();
        let users = || Claims::read(&node).unwrap().of(vf);
        assert_eq!(users(), [User::GoPlugin { netns: netns.clone().into() }]);
        pod.kill().unwrap();
        pod.wait().unwrap();
        assert!(users().is_empty(), "{netns} is gone");
    }
}
