//! The policy of the node.

use crate::{Finding, FindingId, NodeFacts};

const BROKEN: FindingId =
    FindingId::new("policy-broken", "The policy of the node cannot be used: no pod gets a network");

pub(super) const IDS: &[FindingId] = &[BROKEN];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    if let Some((problem, remedy)) = &facts.policy.problem {
        let finding = BROKEN
            .error(&facts.policy.file, "the plugins cannot use it: they refuse every ADD")
            .because(problem);
        found.push(finding.fix(*remedy));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;

    #[test]
    fn a_policy_that_cannot_be_used_is_reported_with_its_remedy() {
        let found = with(|facts| {
            facts.policy.file = "/policy.yaml".into();
            facts.policy.problem = Some(("line 3: unknown key".into(), "correct it"));
        });
        assert_eq!(found, ["error policy-broken /policy.yaml"]);
    }
}
