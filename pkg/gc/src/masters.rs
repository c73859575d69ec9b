//! The masters of ifacer that no pod uses.

use identifiers::Attachment;
use plugin_runtime::{RevertByJournal, UnusedMaster};

use crate::{
    evidence::GcEvidence,
    find_plugin::FindPlugin,
    finding::{FindingKind, FindingState, RevertTarget, StaleFinding},
    gc_node::GcNode,
};

/// Returns the plugin that creates masters.
pub(crate) fn owner(plugin: FindPlugin) -> Option<&'static dyn RevertByJournal> {
    plugin("ifacer")
}

/// Returns the masters without users. If they cannot be examined, for example because a call holds their lock for too long,
/// one finding has the reason: the other resources of the node do not depend on them.
pub(crate) fn find(node: &GcNode, plugin: FindPlugin, evidence: &GcEvidence<'_>) -> Vec<StaleFinding> {
    let Some(owner) = owner(plugin) else { return Vec::new() };
    match owner.unused_masters(node.state.clone()) {
        Ok(masters) => masters.into_iter().map(|master| judge(master, evidence)).collect(),
        Err(error) => {
            let directory = node.state.masters().display().to_string();
            let why = format!("its records cannot be examined: {error}");
            vec![StaleFinding::new(FindingState::Kept, FindingKind::Master, None, directory, why)]
        }
    }
}

/// Judges a master: stale unless something uses its link, or there is evidence that one of its users is running.
fn judge(master: UnusedMaster, evidence: &GcEvidence<'_>) -> StaleFinding {
    let UnusedMaster { name, users, evidence: unused, in_use } = master;
    let running = |user: &Attachment| {
        let why = evidence.witnesses.of(user, Ok(&evidence.living))?;
        Some(format!("one may be running: {user}: {why}"))
    };
    let (verdict, why) = match in_use.or_else(|| users.iter().find_map(running)) {
        Some(user) => (FindingState::Kept, format!("{unused}, but {user}")),
        None => (FindingState::Stale, unused),
    };
    StaleFinding::new(verdict, FindingKind::Master, None, name.to_string(), why)
        .with(RevertTarget::Master(name))
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Mutex};

    use cni::{AddRequest, AddResult, CheckRequest, DelRequest, GcRequest, Plugin, StatusRequest};
    use gc_record::GcRecord;
    use identifiers::LinkName;
    use plugin_runtime::Error;
    use state::StateDir;

    use super::*;
    use crate::{FindingState, clean_up, evidence::fixture::empty_node, record};

    fn master(name: &str, users: &[&str]) -> UnusedMaster {
        let users = users.iter().map(|user| user.parse().unwrap()).collect();
        UnusedMaster { name: name.parse().unwrap(), users, evidence: "no pod uses it".into(), in_use: None }
    }

    /// A pod map entry that cannot be parsed may be of a later version, and of a running pod.
    #[test]
    fn a_master_is_kept_while_any_of_its_users_may_be_running() {
        let (_root, node) = empty_node();
        let pods = node.state.podmap().dir().to_owned();
        fs::create_dir_all(&pods).unwrap();
        fs::write(pods.join("b@net1.json"), "{").unwrap();
        let evidence = GcEvidence::scan(&node).unwrap();
        let judged = |master| {
            let StaleFinding { verdict, evidence, .. } = judge(master, &evidence);
            (verdict, evidence)
        };
        for users in [&["a@net1", "b@net1"][..], &["b@net1", "c@net1"]] {
            let (verdict, why) = judged(master("eth0.100", users));
            assert_eq!(verdict, FindingState::Kept, "{users:?}");
            assert!(why.starts_with("no pod uses it, but one may be running: b@net1: "), "{why}");
        }
        for users in [&[][..], &["a@net1", "c@net1"]] {
            assert_eq!(judged(master("eth0.100", users)), (FindingState::Stale, "no pod uses it".into()));
        }
        let in_use = UnusedMaster { in_use: Some("it has the address".into()), ..master("eth0.100", &[]) };
        assert_eq!(judged(in_use), (FindingState::Kept, "no pod uses it, but it has the address".into()));
    }

    /// Has the masters `vlan`, `bond`, which is below it, `stuck`, which cannot be ended, and `undead`, which is there again at
    /// once; none if its records are damaged.
    struct FakeIfacer {
        ended: Mutex<Vec<String>>,
        is_damaged: bool,
    }

    impl Plugin for FakeIfacer {
        fn name(&self) -> &'static str {
            "ifacer"
        }

        fn add(&self, _: &AddRequest<'_>) -> Result<AddResult, cni::Error> {
            Ok(AddResult::default())
        }

        fn del(&self, _: &DelRequest<'_>) -> Result<(), cni::Error> {
            Ok(())
        }

        fn check(&self, _: &CheckRequest<'_>) -> Result<(), cni::Error> {
            Ok(())
        }

        fn gc(&self, _: &GcRequest<'_>) -> Result<(), cni::Error> {
            Ok(())
        }

        fn status(&self, _: &StatusRequest<'_>) -> Result<(), cni::Error> {
            Ok(())
        }
    }

    impl RevertByJournal for FakeIfacer {
        fn revert_attachment(
            &self,
            _: StateDir,
            _: Vec<std::path::PathBuf>,
            _: &Attachment,
            _: u64,
        ) -> Result<(), Error> {
            Ok(())
        }

        fn unused_masters(&self, _: StateDir) -> Result<Vec<UnusedMaster>, Error> {
            if self.is_damaged {
                return Err(cni::Error::config("the lock is held").into());
            }
            let ended = self.ended.lock().unwrap();
            let next = ["vlan", "bond"].iter().find(|name| !ended.iter().any(|ended| ended == **name));
            Ok(next.into_iter().chain(&["stuck", "undead"]).map(|name| master(name, &[])).collect())
        }

        fn end_unused_master(&self, _: StateDir, name: &LinkName) -> Result<(), Error> {
            if name.as_str() == "stuck" {
                return Err(cni::Error::config("EBUSY").into());
            }
            self.ended.lock().unwrap().push(name.to_string());
            Ok(())
        }
    }

    fn ifacer(name: &str) -> Option<&'static dyn RevertByJournal> {
        static IFACER: FakeIfacer = FakeIfacer { ended: Mutex::new(Vec::new()), is_damaged: false };
        (name == "ifacer").then_some(&IFACER)
    }

    fn damaged(name: &str) -> Option<&'static dyn RevertByJournal> {
        static DAMAGED: FakeIfacer = FakeIfacer { ended: Mutex::new(Vec::new()), is_damaged: true };
        (name == "ifacer").then_some(&DAMAGED)
    }

    #[test]
    fn what_becomes_stale_by_a_revert_is_reverted_too_and_what_fails_is_left() {
        let (_root, node) = empty_node();
        fs::create_dir(node.state.root()).unwrap();
        let found = clean_up(&node, ifacer).unwrap();
        let facts: Vec<_> = found.iter().map(|it| (it.object.as_str(), it.verdict)).collect();
        let expected = [
            ("vlan", FindingState::Reverted),
            ("bond", FindingState::Reverted),
            ("stuck", FindingState::Left),
            ("undead", FindingState::Left),
        ];
        assert_eq!(facts, expected);
        assert!(found[2].why_left.as_ref().unwrap().contains("EBUSY"), "{found:?}");
        assert!(found[3].why_left.as_ref().unwrap().contains("exists again or still"), "{found:?}");
        record(&node, &found).unwrap();
        let recorded = GcRecord::read(node.state.root()).unwrap().unwrap();
        assert_eq!((recorded.reverted["master"], recorded.left["master"]), (2, 2));
        assert_eq!((recorded.reverted["vf"], recorded.left["journal"]), (0, 0));
    }

    #[test]
    fn masters_that_cannot_be_examined_are_one_finding() {
        let (_root, node) = empty_node();
        let found = find(&node, damaged, &GcEvidence::scan(&node).unwrap());
        assert_eq!((found.len(), found[0].verdict), (1, FindingState::Kept));
        assert!(found[0].evidence.contains("the lock is held"), "{found:?}");
    }
}
