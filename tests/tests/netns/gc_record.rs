//! The record of `silkrail gc`, as silkraild exposes it.

use std::time::{SystemTime, UNIX_EPOCH};

use silkrail_tests::daemon;

use crate::gc::stale_node;

#[test]
fn what_gc_reverted_since_the_boot_is_in_the_metrics() {
    let (node, _switch, evidence) = stale_node();
    let state = node.state_dir();
    let metrics = || {
        let state = state.to_str().unwrap();
        let output =
            daemon::run(&["--once", "--node-name", "n1", "--kubernetes", "off", "--state-dir", state]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| line.starts_with("rdma_gc_")).map(str::to_owned).collect::<Vec<_>>()
    };
    evidence.gc("").ended(0);
    assert_eq!(metrics(), [""; 0], "a dry run is no run");
    evidence.gc("--yes").ended(0);
    evidence.gc("--yes").ended(0);
    let lines = metrics();
    for line in [
        "rdma_gc_reverted_total{node=\"n1\",kind=\"journal\"} 2",
        "rdma_gc_reverted_total{node=\"n1\",kind=\"vf\"} 0",
        "rdma_gc_left{node=\"n1\",kind=\"journal\"} 0",
    ] {
        assert!(lines.iter().any(|has| has == line), "{line} is not in {lines:#?}");
    }
    let last =
        lines.iter().find_map(|line| line.strip_prefix("rdma_gc_last_run_timestamp_seconds{node=\"n1\"} "));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((0.0..60.0).contains(&(now - last.unwrap().parse::<f64>().unwrap())), "{lines:#?}");
}
