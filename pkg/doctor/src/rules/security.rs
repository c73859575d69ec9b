//! Restrictions of the kernel: lockdown, SELinux.

use crate::{Finding, FindingId, Known, NodeFacts};

const LOCKDOWN: FindingId = FindingId::new(
    "kernel-lockdown",
    "The kernel is locked down (secure boot): firmware settings cannot be changed",
);
const SELINUX: FindingId = FindingId::new(
    "selinux-enforcing",
    "SELinux is enforcing: pods need labels and a policy for RDMA devices",
);

pub(super) const IDS: &[FindingId] = &[LOCKDOWN, SELINUX];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let lockdown = facts.kernel.lockdown.get().and_then(|text| text.split(['[', ']']).nth(1));
    if let Some(level) = lockdown.filter(|level| *level != "none") {
        let finding = LOCKDOWN.info(
            "kernel",
            format!("the kernel is locked down ({level}): mstconfig cannot change firmware settings"),
        );
        found.push(
            finding
                .because("/sys/kernel/security/lockdown")
                .fix("change them with secure boot disabled, or in the BIOS"),
        );
    }
    if facts.kernel.selinux == Known::Value(1) {
        let finding =
            SELINUX.info("SELinux", "SELinux is enforcing: its policy may deny pods access to RDMA devices");
        found.push(
            finding.because("/sys/fs/selinux/enforce: 1").fix("ausearch -m avc -ts recent shows denials"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::Known;

    #[test]
    fn a_kernel_that_is_locked_down_is_info() {
        let level = |text: &'static str| with(move |facts| facts.kernel.lockdown = Known::Value(text.into()));
        assert_eq!(level("none [integrity] confidentiality"), ["info kernel-lockdown kernel"]);
        assert!(level("[none] integrity confidentiality").is_empty());
    }

    #[test]
    fn enforcing_selinux_is_info() {
        assert_eq!(with(|facts| facts.kernel.selinux = Known::Value(1)), ["info selinux-enforcing SELinux"]);
        assert!(with(|facts| facts.kernel.selinux = Known::Value(0)).is_empty());
    }
}
