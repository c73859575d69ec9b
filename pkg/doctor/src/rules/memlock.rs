//! How much memory programs may lock: RDMA locks what it registers.

use crate::{Finding, FindingId, NodeFacts};

const LIMITED: FindingId = FindingId::new(
    "memlock-limited",
    "The container runtime's limit of locked memory is not unlimited: pods have it too",
);
const OWN: FindingId = FindingId::new(
    "memlock-own",
    "No container runtime runs; the limit of locked memory of this process is not unlimited",
);

pub(super) const IDS: &[FindingId] = &[LIMITED, OWN];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for limit in &facts.limits {
        let Some(bytes) = limit.bytes else { continue };
        let (command, amount) = (&limit.command, amount(bytes));
        let Some(pid) = limit.pid else {
            let finding =
                OWN.info(command, format!("no container runtime runs here; this process may lock {amount}"));
            found.push(finding.because(format!("/proc/self/limits: {bytes} bytes")));
            continue;
        };
        let finding = LIMITED.warning(
            format!("{command} ({pid})"),
            format!("pods may lock {amount} of memory (unless they have IPC_LOCK): RDMA needs more"),
        );
        found.push(finding.because(format!("/proc/{pid}/limits: {bytes} bytes")).fix(format!(
            "LimitMEMLOCK=infinity in the unit of {command} (systemctl edit {command}), and restart it"
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
    use super::super::testing::{findings, with};

    #[test]
    fn a_runtime_with_a_limit_passes_it_on() {
        let found = findings(|facts| facts.limits[0].bytes = Some(65536));
        assert_eq!((found[0].id, found[0].object.as_str()), ("memlock-limited", "containerd (7)"));
        assert!(found[0].summary.contains("64 KiB"), "{found:?}");
    }

    #[test]
    fn without_a_runtime_the_own_limit_is_good_to_know() {
        let found = with(|facts| {
            let limit = &mut facts.limits[0];
            (limit.pid, limit.command, limit.bytes) = (None, "this process".into(), Some(8 << 20));
        });
        assert_eq!(found, ["memlock-own this process"]);
    }
}
