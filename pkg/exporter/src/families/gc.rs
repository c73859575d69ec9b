//! The runs of `silkrail gc --yes`.

use exposition::{Exposition, LabelSet};

use super::family_type::{counter, gauge};
use crate::NodeSnapshot;

pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    let Some(gc) = &report.gc else { return };
    let help = "End of the last run of silkrail gc --yes since the boot.";
    gauge(families, "rdma_gc_last_run_timestamp_seconds", help).add(node.clone(), gc.time);
    let help = "Resources of dead pods that silkrail gc has reverted since the boot.";
    for (kind, count) in &gc.reverted {
        counter(families, "rdma_gc_reverted_total", help).add(node.and("kind", kind), *count);
    }
    let help = "Resources of dead pods that the last run of silkrail gc could not revert.";
    for (kind, count) in &gc.left {
        gauge(families, "rdma_gc_left", help).add(node.and("kind", kind), *count);
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::families::tests::lines_with;

    #[test]
    fn what_was_reverted_and_what_is_left_are_counted_by_kind() {
        let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
        assert_eq!(lines_with(&report, "rdma_gc"), [""; 0]);
        let counts = |counts: &[(&str, u64)]| {
            counts.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
        };
        report.gc = Some(gc_record::GcRecord {
            time: 100,
            reverted: counts(&[("address", 3), ("vf", 2)]),
            left: counts(&[("vf", 1)]),
        });
        let expected = [
            r#"rdma_gc_last_run_timestamp_seconds 100"#,
            r#"rdma_gc_left{kind="vf"} 1"#,
            r#"rdma_gc_reverted_total{kind="address"} 3"#,
            r#"rdma_gc_reverted_total{kind="vf"} 2"#,
        ];
        assert_eq!(lines_with(&report, "rdma_gc"), expected);
    }
}
