//! Counters of a known number of messages.

use std::fs;

use silkrail_tests::{
    daemon::Daemon,
    rxe::{DEVICE, Rxe, RxeProgram, listens},
};
use testkit::{Observe, wait_until};

/// Returns the value of a hardware counter in sysfs.
fn in_sysfs(counter: &str) -> String {
    let path = format!("/sys/class/infiniband/{DEVICE}/ports/1/hw_counters/{counter}");
    fs::read_to_string(path).unwrap().trim().to_owned()
}

#[test]
fn sent_messages_are_counted_as_by_the_kernel() {
    const MESSAGES: f64 = 200.0;
    let rxe = Rxe::new();
    let daemon = Daemon::start(&["--state-dir", rxe.machine.node.state_dir().to_str().unwrap()]);
    let before = daemon.scrape();
    let gid = rxe.gid().unwrap().to_string();
    let arguments = ["-d", DEVICE, "-g", &gid, "-n", "200"];
    let _server = RxeProgram::start("ibv_rc_pingpong", &arguments);
    wait_until("the server listens", || listens(18515));
    rxe.machine.node.run("ibv_rc_pingpong", &[&arguments[..], &["127.0.0.1"]].concat());
    wait_until("both ends have ended", || rxe.printed("qp").len() == 1);

    let after = daemon.scrape();
    for counter in ["sent_pkts", "rcvd_pkts", "rdma_sends", "rdma_recvs"] {
        let (name, device) = (format!("rdma_{counter}_total"), [("device", DEVICE), ("port", "1")]);
        assert_eq!(after.value(&name, &device), in_sysfs(counter), "{name}");
        let more = after.number(&name, &device) - before.number(&name, &device);
        assert!(more >= 2.0 * MESSAGES, "{name}: {more}, and each end has sent {MESSAGES}");
    }
}
