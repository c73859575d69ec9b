//! Limits of locked memory: RDMA locks the memory that it registers.

use crate::{Finding, FindingId, NodeFacts};

const LIMITED: FindingId = FindingId::new(
    "memlock-limited",
    "The container runtime has a limit of locked memory, which pods inherit",
);
const OWN: FindingId = FindingId::new(
    "memlock-own",
    "No container runtime is running, and this process has a limit of locked memory",
);

pub(super) const IDS: &[FindingId] = &[LIMITED, OWN];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for limit in &facts.limits {
        let Some(bytes) = limit.bytes else { continue };
        let (command, amount) = (&limit.command, amount(bytes));
        let Some(pid) = limit.pid else {
            let finding = OWN.info(
                command,
                format!("no container runtime is running; this process can lock at most {amount} of memory"),
            );
            found.push(finding.because(format!("/proc/self/limits: {bytes} bytes")));
            continue;
        };
        let finding = LIMITED.warning(
            format!("{command} ({pid})"),
            format!(
                "pods can lock at most {amount} of memory, except processes of root with IPC_LOCK: RDMA needs more"
            ),
        );
        // The runtime adds capabilities to no ambient set, so execve(2) drops them for other users.
        let of_other_users = "IPC_LOCK has no effect for users other than root (kubernetes/kubernetes#56374)";
        let evidence = [format!("/proc/{pid}/limits: {bytes} bytes"), of_other_users.to_owned()];
        found.push(finding.because_all(evidence).fix(format!(
            "set LimitMEMLOCK=infinity in the unit of {command} (systemctl edit {command}), and restart it"
        )));
    }
}

fn amount(bytes: u64) -> String {
    match bytes {
        ..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::facts::limits::MemlockLimit;

    #[test]
    fn a_runtime_with_a_limit_passes_it_on() {
        let found = with(|facts| facts.limits[0].bytes = Some(65536));
        assert_eq!(found, ["warning memlock-limited containerd (7)"]);
        let second = with(|facts| {
            let limited = MemlockLimit { pid: Some(8), bytes: Some(8 << 20), ..facts.limits[0].clone() };
            facts.limits.push(limited);
        });
        assert_eq!(second, ["warning memlock-limited containerd (8)"]);
    }

    #[test]
    fn without_a_runtime_the_own_limit_is_info() {
        let found = with(|facts| {
            let limit = &mut facts.limits[0];
            (limit.pid, limit.command, limit.bytes) = (None, "this process".into(), Some(8 << 20));
        });
        assert_eq!(found, ["info memlock-own this process"]);
    }
}
