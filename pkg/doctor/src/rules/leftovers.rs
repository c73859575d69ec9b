//! What died without a DEL.

use crate::{Finding, FindingId, NodeFacts, StaleResource};

const STALE: FindingId = FindingId::new("leftover-stale", "Something is held for a pod that is gone");
const KEPT: FindingId = FindingId::new(
    "leftover-kept",
    "Something may be held for a pod that is gone; the clean-up leaves it alone",
);

pub(super) const IDS: &[FindingId] = &[STALE, KEPT];

/// So many are listed of each kind.
const MAX_LISTED: usize = 20;

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let (stale, kept): (Vec<_>, Vec<_>) = facts.leftovers.iter().partition(|leftover| leftover.stale);
    for leftover in stale.iter().take(MAX_LISTED) {
        let finding = STALE.warning(object(leftover), "it is held for a pod that is gone");
        found.push(finding.because(&leftover.evidence).because_all(owner(leftover)).fix("silkrail gc --yes"));
    }
    if stale.len() > MAX_LISTED {
        let finding = STALE.warning(
            "state directory",
            format!("{} more are held for pods that are gone", stale.len() - MAX_LISTED),
        );
        found.push(finding.because("silkrail gc lists all of them").fix("silkrail gc --yes"));
    }
    for leftover in kept.iter().take(MAX_LISTED) {
        let finding =
            KEPT.info(object(leftover), "it may be held for a pod that is gone; silkrail gc leaves it alone");
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
    fn what_the_clean_up_would_take_back_is_told_of_and_the_rest_is_good_to_know() {
        assert_eq!(with(|facts| facts.leftovers = vec![leftover(true)]), ["leftover-stale VF 0000:af:00.1"]);
        assert_eq!(with(|facts| facts.leftovers = vec![leftover(false)]), ["leftover-kept VF 0000:af:00.1"]);
    }

    #[test]
    fn thousands_are_counted_and_not_listed() {
        let found = findings(|facts| facts.leftovers = vec![leftover(true); 1000]);
        assert_eq!(found.len(), 21);
        assert!(found[20].summary.starts_with("980 more"), "{:?}", found[20]);
    }
}
