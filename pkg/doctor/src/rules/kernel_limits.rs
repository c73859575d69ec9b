//! Limits of the kernel that the pods of a node share.

use crate::{Finding, FindingId, NodeFacts, facts::kernel_limits::KernelLimit};

const NEAR: FindingId =
    FindingId::new("kernel-limit-near", "More than nine tenths of a limit that all pods share is used");
const REACHED: FindingId = FindingId::new("kernel-limit-reached", "A limit that all pods share is reached");

pub(super) const IDS: &[FindingId] = &[REACHED, NEAR];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for KernelLimit { sysctl, what, consequence, used, limit } in &facts.kernel_limits {
        let finding = if used >= limit {
            REACHED.error(sysctl, format!("its limit is reached: {consequence}"))
        } else if used.saturating_mul(10) > limit.saturating_mul(9) {
            NEAR.warning(sysctl, format!("its limit is nearly reached; then {consequence}"))
        } else {
            continue;
        };
        let finding = finding.because(format!("{used} {what} of {limit}"));
        found.push(
            finding.fix(format!("sysctl -w {sysctl}=N, and a file of /etc/sysctl.d for the next boot")),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::facts::kernel_limits::KernelLimit;

    #[test]
    fn a_limit_is_reported_before_it_is_reached() {
        let used = |used| {
            with(|facts| {
                facts.kernel_limits.push(KernelLimit {
                    sysctl: "fs.file-max",
                    what: "files",
                    consequence: "",
                    used,
                    limit: 1000,
                });
            })
        };
        assert!(used(900).is_empty());
        assert_eq!(used(901), ["warning kernel-limit-near fs.file-max"]);
        assert_eq!(used(1000), ["error kernel-limit-reached fs.file-max"]);
    }
}
