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
        let why = evidence.witnesses.of(user, Some(&evidence.living))?;
        Some(format!("one may be running: {user}: {why}"))
    };
    let (verdict, why) = match in_use.or_else(|| users.iter().find_map(running)) {
        Some(user) => (FindingState::Kept, format!("{unused}, but {user}")),
        None => (FindingState::Stale, unused),
    };
    StaleFinding::new(verdict, FindingKind::Master, None, name.to_string(), why)
        .with(RevertTarget::Master(name))
}
