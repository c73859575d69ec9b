//! The node's pools of addresses.

use crate::{Facts, Finding, Id};

const BROKEN: Id = Id::new(
    "pools-broken",
    "A file of pools cannot be understood: plugins that use the directory refuse to start pods",
);
const IGNORED: Id = Id::new("pools-ignored", "A document in the directory of pools is no pool");

pub(super) const IDS: &[Id] = &[BROKEN, IGNORED];

pub(super) fn examine(facts: &Facts, found: &mut Vec<Finding>) {
    for (path, why) in &facts.pools.broken {
        let finding = BROKEN.error(
            path,
            "it cannot be understood: a pod whose addresses come from this directory will not start",
        );
        found.push(
            finding.because(why).fix("correct it; SpiderIPPool objects are read as Spiderpool writes them"),
        );
    }
    for ignored in &facts.pools.ignored {
        found.push(
            IGNORED
                .info(facts.pools.dir, "a document there is no pool, and is not looked at")
                .because(ignored),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;

    #[test]
    fn a_file_that_cannot_be_understood_is_an_error() {
        let found =
            with(|facts| facts.pools.broken.push(("/etc/silkrail/pools.d/a.yaml".into(), "subnet".into())));
        assert_eq!(found, ["pools-broken /etc/silkrail/pools.d/a.yaml"]);
    }

    #[test]
    fn a_document_of_another_kind_is_good_to_know() {
        let found = with(|facts| {
            facts.pools.dir = "/etc/silkrail/pools.d";
            facts.pools.ignored.push("ConfigMap".into());
        });
        assert_eq!(found, ["pools-ignored /etc/silkrail/pools.d"]);
    }
}
