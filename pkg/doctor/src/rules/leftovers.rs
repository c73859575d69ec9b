//! Stale resources: those of attachments whose pods are gone.

use crate::{Finding, FindingId, NodeFacts, StaleResource};

const STALE: FindingId =
    FindingId::new("leftover-stale", "A resource is still allocated to a pod that is gone");
const KEPT: FindingId = FindingId::new(
    "leftover-kept",
    "A resource might be allocated to a pod that is gone; silkrail gc does not release it",
);

pub(super) const IDS: &[FindingId] = &[STALE, KEPT];

/// The number of resources of each kind that are listed individually.
const MAX_LISTED: usize = 20;

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let (stale, kept): (Vec<_>, Vec<_>) = facts.leftovers.iter().partition(|leftover| leftover.stale);
    for leftover in stale.iter().take(MAX_LISTED) {
        let finding = STALE.warning(object(leftover), "it is still allocated to a pod that is gone");
        found.push(
            finding.because(&leftover.evidence).because_all(owner(leftover)).fix("run: silkrail gc --yes"),
        );
    }
    if stale.len() > MAX_LISTED {
        let finding = STALE.warning(
            "state directory",
            format!("{} more resources are still allocated to pods that are gone", stale.len() - MAX_LISTED),
        );
        found.push(finding.because("silkrail gc lists all stale resources").fix("run: silkrail gc --yes"));
    }
    for leftover in kept.iter().take(MAX_LISTED) {
        let finding = KEPT.info(
            object(leftover),
            "it might be allocated to a pod that is gone; silkrail gc does not release it",
        );
        found.push(finding.because(&leftover.evidence).because_all(owner(leftover)));
    }
}

fn object(leftover: &StaleResource) -> String {
    format!("{} {}", leftover.what, leftover.object)
}

fn owner(leftover: &StaleResource) -> Option<String> {
    Some(format!("attachment: {}", leftover.attachment.as_ref()?))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, with};
    use crate::StaleResource;

    fn leftover(stale: bool) -> StaleResource {
        StaleResource { what: "VF".into(), object: "0000:af:00.1".into(), stale, ..StaleResource::default() }
    }

    #[test]
    fn stale_resources_are_warnings_and_uncertain_ones_are_info() {
        assert_eq!(
            with(|facts| facts.leftovers = vec![leftover(true)]),
            ["warning leftover-stale VF 0000:af:00.1"]
        );
        assert_eq!(
            with(|facts| facts.leftovers = vec![leftover(false)]),
            ["info leftover-kept VF 0000:af:00.1"]
        );
    }

    #[test]
    fn only_the_first_resources_are_listed() {
        let found = findings(|facts| facts.leftovers = vec![leftover(true); 1000]);
        assert_eq!(found.len(), 21);
        assert!(found[20].summary.starts_with("980 more"), "{:?}", found[20]);
    }
}
