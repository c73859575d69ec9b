//! Queue pairs: on some cards, each that is listed costs a firmware command.

use std::fs;

use silkrail_tests::{daemon::Daemon, infiniband::InfinibandMachine, kube_pod::KubePod};
use testkit::wait_until;

use super::shared::{open, wait_for_context};

const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";
const OTHER_UID: &str = "77777777-7b1f-4f0e-9d75-1f4f2bb1a2c3";

#[test]
fn a_long_list_of_queue_pairs_delays_no_scrape_and_is_not_hung_firmware() {
    let lab = InfinibandMachine::shared();
    let vf = lab.vf(0);
    let pod = KubePod::new("train", "job-0", UID);
    let mut programs = vec![open(&pod, &vf.rdma)];
    wait_for_context(&lab.machine, &vf.rdma, 1);
    let count = fs::read_dir("/sys/class/infiniband").unwrap().count();
    let state = lab.machine.node.state_dir();
    let daemon = Daemon::start(&["--state-dir", state.to_str().unwrap(), "--device-timeout", "10"]);
    let device = [("device", vf.rdma.as_str())];
    let contexts = [("device", vf.rdma.as_str()), ("resource", "ctx")];
    let of_pod = |scrape: &silkrail_tests::scrape::Scrape| scrape.of("rdma_pod_resources", &contexts).len();
    assert_eq!(of_pod(&daemon.scrape()), 1);
    // One queue pair takes longer than the device timeout, and all of them less than a minute, after which they count as hung.
    let slow = lab.machine.simulate(&vf.pci, "slow_qp_ms", "15000");
    for round in 0..3 {
        // Another number of objects is listed at once.
        programs.push(open(&pod, &vf.rdma));
        wait_for_context(&lab.machine, &vf.rdma, round + 2);
        let scrape = daemon.scrape();
        assert!(
            scrape.of("rdma_scrape_errors_total", &[("reason", "timeout")]).is_empty(),
            "{}",
            daemon.log()
        );
        assert_eq!(scrape.of("rdma_device_info", &device).len(), 1);
        assert_eq!(scrape.of("rdma_device_info", &[]).len(), count);
        // By the former list.
        assert_eq!(of_pod(&scrape), 1, "round {round}");
    }
    drop(slow);
    let labels = [&pod.labels()[..], &contexts].concat();
    wait_until("the list is read again", || daemon.scrape().number("rdma_pod_resources", &labels) == 4.0);
}

/// Lists whose numbers do not change are used for a minute: another process is known by its user context.
#[test]
fn as_many_objects_of_another_process_are_its_at_the_next_scrape() {
    let lab = InfinibandMachine::shared();
    let vf = lab.vf(0);
    let [a, b] = [("a", UID), ("b", OTHER_UID)].map(|(name, uid)| KubePod::new("train", name, uid));
    let state = lab.machine.node.state_dir();
    let daemon = Daemon::start(&["--state-dir", state.to_str().unwrap()]);
    let contexts = |pod: &KubePod| {
        let labels = [&pod.labels()[..], &[("device", vf.rdma.as_str()), ("resource", "ctx")]].concat();
        daemon.scrape().of("rdma_pod_resources", &labels).len()
    };
    let program = open(&a, &vf.rdma);
    wait_for_context(&lab.machine, &vf.rdma, 1);
    assert_eq!((contexts(&a), contexts(&b)), (1, 0));
    drop(program);
    let _other = open(&b, &vf.rdma);
    wait_for_context(&lab.machine, &vf.rdma, 1);
    assert_eq!((contexts(&a), contexts(&b)), (0, 1));
}
