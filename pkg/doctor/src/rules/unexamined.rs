//! What could not be looked at: no finding about it does not mean that it is well.

use crate::{Finding, FindingId, NodeFacts};

const UNEXAMINED: FindingId =
    FindingId::new("not-examined", "Something could not be looked at: it may or may not be well");
const ELSEWHERE: FindingId = FindingId::new(
    "not-the-nodes-namespace",
    "This process is not in the node's network namespace: it does not see the node's devices",
);
const NOT_ROOT: FindingId =
    FindingId::new("not-root", "This process is not root's: it does not see everything");

pub(super) const IDS: &[FindingId] = &[UNEXAMINED, ELSEWHERE, NOT_ROOT];

/// So many are listed.
const MAX_LISTED: usize = 30;

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    if facts.look.nodes_netns == Some(false) {
        let finding = ELSEWHERE.warning(
            "network namespace",
            "this process is not in the node's network namespace: devices and links were not all seen",
        );
        found.push(
            finding
                .because("/proc/1/ns/net is another one")
                .fix("run it on the node, or in a pod with hostNetwork and hostPID"),
        );
    }
    if !facts.look.superuser {
        found.push(
            NOT_ROOT
                .info("uid", "this process is not root's: what it could not see is told of")
                .fix("run it as root"),
        );
    }
    for gap in facts.unexamined.iter().take(MAX_LISTED) {
        found.push(UNEXAMINED.info(&gap.what, "it could not be looked at").because(&gap.why));
    }
    if facts.unexamined.len() > MAX_LISTED {
        let more = format!("{} more could not be looked at", facts.unexamined.len() - MAX_LISTED);
        found.push(UNEXAMINED.info("others", more));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::host_root::Unexamined;

    #[test]
    fn what_was_not_seen_is_told_of() {
        let gap = Unexamined { what: "/sys/x".into(), why: "permission denied".into() };
        assert_eq!(with(|facts| facts.unexamined.push(gap)), ["not-examined /sys/x"]);
    }

    #[test]
    fn who_is_elsewhere_or_not_root_is_told() {
        let found = with(|facts| facts.look.nodes_netns = Some(false));
        assert_eq!(found, ["not-the-nodes-namespace network namespace"]);
        assert_eq!(with(|facts| facts.look.superuser = false), ["not-root uid"]);
    }
}
