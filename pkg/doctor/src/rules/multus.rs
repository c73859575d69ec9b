//! The daemon of Multus.

use crate::{Finding, FindingId, NodeFacts};

const NO_CHROOT: FindingId = FindingId::new(
    "multus-without-chroot",
    "Multus' daemon calls plugins in its container: Silkrail's plugins refuse to attach pods there",
);

pub(super) const IDS: &[FindingId] = &[NO_CHROOT];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for daemon in &facts.multus {
        let Some(state_dir) = &daemon.own_state_dir else { continue };
        let what = format!(
            "it calls plugins in its container, where {state_dir} is not that of the node: Silkrail's plugins refuse that"
        );
        let finding = NO_CHROOT.warning(format!("multus-daemon (pid {})", daemon.pid), what);
        found.push(
            finding.because(format!("daemon-config.json has no chrootDir, and {state_dir} is not mounted")).fix(
                "set \"chrootDir\": \"/hostroot\" in the ConfigMap multus-daemon-config, and mount the node's root directory there, as \
                 Multus' own manifest does",
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::facts::multus::MultusDaemon;

    #[test]
    fn a_daemon_that_calls_plugins_in_its_container_is_a_warning() {
        let daemon = |own: Option<&str>| MultusDaemon { pid: 7, own_state_dir: own.map(str::to_owned) };
        let found = with(|facts| facts.multus = vec![daemon(None), daemon(Some("/run/silkrail"))]);
        assert_eq!(found, ["warning multus-without-chroot multus-daemon (pid 7)"]);
    }
}
