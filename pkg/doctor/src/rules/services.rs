//! The services of Silkrail.

use crate::{Finding, FindingId, NodeFacts};

const NODE: FindingId = FindingId::new(
    "node-file-not-at-boot",
    "The node file is not applied at the next boot: VFs and RDMA mode are lost",
);
const DAEMON: FindingId = FindingId::new(
    "silkraild-not-running",
    "silkraild is enabled and does not run: this node has no metrics",
);

pub(super) const IDS: &[FindingId] = &[NODE, DAEMON];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let services = &facts.services;
    let sets_something = facts.wanted.as_ref().filter(|wanted| wanted.problem.is_none());
    if let Some(wanted) = sets_something.filter(|_| services.systemd && !services.node_enabled) {
        let finding = NODE
            .warning(&wanted.file, "it is not applied at the next boot: the VFs and the RDMA mode are lost");
        let because = "silkrail-node.service is not enabled: no link to it is in /etc/systemd/system/*.wants";
        found.push(finding.because(because).fix("systemctl enable silkrail-node.service (conf/node)"));
    }
    if services.silkraild_enabled && !services.silkraild_runs {
        let finding = DAEMON.warning(
            "silkraild.service",
            "it is enabled, and no process silkraild runs: this node has no metrics",
        );
        let because = "a link to it is in /etc/systemd/system/*.wants";
        found.push(
            finding
                .because(because)
                .fix("systemctl status silkraild shows why; silkraild refuses an invalid file with its line"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::DesiredState;

    #[test]
    fn a_node_file_needs_the_service_of_the_boot() {
        let enabled = |systemd, enabled| {
            with(|facts| {
                facts.wanted = Some(DesiredState { file: "/node.yaml".into(), ..DesiredState::default() });
                (facts.services.systemd, facts.services.node_enabled) = (systemd, enabled);
            })
        };
        assert_eq!(enabled(true, false), ["warning node-file-not-at-boot /node.yaml"]);
        assert!(enabled(true, true).is_empty() && enabled(false, false).is_empty());
        let broken = with(|facts| {
            let (file, problem) = ("/node.yaml".into(), Some("pfs[0]".into()));
            facts.wanted = Some(DesiredState { file, problem, ..DesiredState::default() });
            facts.services.systemd = true;
        });
        assert_eq!(broken, ["error node-file-broken /node.yaml"]);
        assert!(with(|facts| facts.services.systemd = true).is_empty(), "there is no file");
    }

    #[test]
    fn an_enabled_daemon_runs() {
        let runs = |runs| {
            with(|facts| (facts.services.silkraild_enabled, facts.services.silkraild_runs) = (true, runs))
        };
        assert_eq!(runs(false), ["warning silkraild-not-running silkraild.service"]);
        assert!(runs(true).is_empty());
    }
}
