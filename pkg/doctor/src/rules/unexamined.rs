//! What could not be examined: the absence of a finding does not mean that it is healthy.

use crate::{Finding, FindingId, NodeFacts};

const UNEXAMINED: FindingId =
    FindingId::new("not-examined", "A part of the node could not be examined: it may be faulty");
const ELSEWHERE: FindingId = FindingId::new(
    "not-the-nodes-namespace",
    "This process is not in the host's network namespace: it does not see all devices",
);
const NOT_ROOT: FindingId =
    FindingId::new("not-root", "This process does not run as root: it cannot examine everything");

pub(super) const IDS: &[FindingId] = &[UNEXAMINED, ELSEWHERE, NOT_ROOT];

/// The number of unexamined objects that are listed individually.
const MAX_LISTED: usize = 30;

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    if facts.look.nodes_netns == Some(false) {
        let finding = ELSEWHERE.warning(
            "network namespace",
            "this process is not in the host's network namespace: not all devices and links were examined",
        );
        found.push(
            finding
                .because("/proc/1/ns/net is a different network namespace")
                .fix("run the command on the node, or in a pod with hostNetwork and hostPID"),
        );
    }
    if !facts.look.superuser {
        found.push(
            NOT_ROOT
                .info("uid", "this process does not run as root: what it could not examine is listed")
                .fix("run the command as root"),
        );
    }
    for gap in facts.unexamined.iter().take(MAX_LISTED) {
        found.push(UNEXAMINED.info(&gap.what, "it could not be examined").because(&gap.why));
    }
    if facts.unexamined.len() > MAX_LISTED {
        let more = format!("{} more could not be examined", facts.unexamined.len() - MAX_LISTED);
        found.push(UNEXAMINED.info("others", more));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::host_root::Unexamined;

    #[test]
    fn an_unexamined_object_is_reported() {
        let gap = Unexamined { what: "/sys/x".into(), why: "permission denied".into() };
        let gaps = |number| vec![gap.clone(); number];
        assert_eq!(with(|facts| facts.unexamined = gaps(1)), ["info not-examined /sys/x"]);
        assert_eq!(with(|facts| facts.unexamined = gaps(30)).len(), 30);
        let more = with(|facts| facts.unexamined = gaps(31));
        assert_eq!((more.len(), &*more[30]), (31, "info not-examined others"));
    }

    #[test]
    fn another_namespace_or_user_is_reported() {
        let found = with(|facts| facts.look.nodes_netns = Some(false));
        assert_eq!(found, ["warning not-the-nodes-namespace network namespace"]);
        assert_eq!(with(|facts| facts.look.superuser = false), ["info not-root uid"]);
    }
}
