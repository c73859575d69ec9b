//! Attribution for pods that share a device: by packet sequence numbers, and by counters that the kernel binds to processes.

use std::process::Command;

use silkrail_tests::{
    daemon::Daemon,
    kube_pod::KubePod,
    rxe::{DEVICE, Rxe, RxeProgram},
    scrape::Scrape,
};
use testkit::{Observe, wait_until};

use super::shared::{pingpong_on, with};

const A: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";
const B: &str = "77777777-7b1f-4f0e-9d75-1f4f2bb1a2c3";
const RECREATED: &str = "11111111-7b1f-4f0e-9d75-1f4f2bb1a2c3";
const BY_PSN: (&str, &str) = ("attribution", "psn");

fn daemon(rxe: &Rxe, more: &[&str]) -> Daemon {
    let state_dir = rxe.machine.node.state_dir().to_str().unwrap().to_owned();
    Daemon::start(&[&["--state-dir", &state_dir, "--enable=psn", "--psn-interval=0.5"], more].concat())
}

/// Sends a signal such as `-STOP` or `-CONT` to programs. The kernel still completes their posted work requests.
fn signal(name: &str, programs: &[RxeProgram]) {
    for program in programs {
        assert!(Command::new("kill").args([name, &program.pid().to_string()]).status().unwrap().success());
    }
}

/// Returns the packets sent and received by a pod, counted by packet sequence number; `None` until they are exported.
fn packets(scrape: &Scrape, pod: &KubePod) -> Option<[f64; 2]> {
    let labels = with(pod, &[("device", DEVICE), ("port", "1"), BY_PSN]);
    let names = ["rdma_pod_transmit_packets_total", "rdma_pod_receive_packets_total"];
    names
        .iter()
        .all(|name| !scrape.of(name, &labels).is_empty())
        .then(|| names.map(|name| scrape.number(name, &labels)))
}

fn port_sent(scrape: &Scrape) -> f64 {
    scrape.number("rdma_port_transmit_packets_total", &[("device", DEVICE)])
}

/// Returns the metrics after traffic has ended and all of it has been sampled.
fn scrape_at_rest(daemon: &Daemon, pods: &[&KubePod]) -> Scrape {
    let numbers = |scrape: &Scrape| {
        (port_sent(scrape), pods.iter().map(|pod| packets(scrape, pod)).collect::<Vec<_>>())
    };
    // Only since the last collection: of three samples, the last one began after this call.
    let is_sampled = |scrape: &Scrape| {
        scrape.number("rdma_scrape_collector_duration_seconds", &[("collector", "psn")]) > 0.0
    };
    let (mut last, mut samples) = (daemon.scrape(), 0);
    wait_until("the counters are constant", || {
        let now = daemon.scrape();
        if numbers(&now) != numbers(&last) || numbers(&now).1.contains(&None) {
            samples = 0;
        } else if is_sampled(&now) {
            samples += 1;
        }
        last = now;
        samples == 3
    });
    last
}

fn wait_until_sent(daemon: &Daemon, pod: &KubePod, from: f64, count: f64) {
    wait_until("there was traffic", || {
        packets(&daemon.scrape(), pod).is_some_and(|[sent, _]| sent >= from + count)
    });
}

#[test]
fn packets_counted_by_psn_equal_those_sent_by_the_device_without_acks() {
    let rxe = Rxe::new();
    let a = KubePod::new("train", "a", A);
    let daemon = daemon(&rxe, &[]);
    let pair = pingpong_on(&rxe, &a, &a, "18515");
    signal("-STOP", &pair);
    let before = scrape_at_rest(&daemon, &[&a]);
    signal("-CONT", &pair);
    let [from, _] = packets(&before, &a).unwrap();
    wait_until_sent(&daemon, &a, from, 1000.0);
    signal("-STOP", &pair);
    let after = scrape_at_rest(&daemon, &[&a]);
    let ([sent, received], [sent_before, received_before]) =
        (packets(&after, &a).unwrap(), packets(&before, &a).unwrap());
    let (sent, received) = (sent - sent_before, received - received_before);
    // A message of 4096 bytes consists of four packets of 1024 bytes, and one ACK.
    let expected = (port_sent(&after) - port_sent(&before)) * 4.0 / 5.0;
    assert!((sent / expected - 1.0).abs() < 0.01, "sent {sent}, received {received}, expected {expected}");
    assert_eq!(sent, received, "both ends belong to the pod, and no packet was lost");
}

#[test]
fn pods_on_one_device_are_distinguished_by_packet_sequence_numbers() {
    let rxe = Rxe::new();
    let (a, b) = (KubePod::new("train", "a", A), KubePod::new("train", "b", B));
    let daemon = daemon(&rxe, &[]);
    let first = pingpong_on(&rxe, &a, &b, "18515");
    signal("-STOP", &first);
    let before = scrape_at_rest(&daemon, &[&a, &b]);
    signal("-CONT", &first);
    let second = pingpong_on(&rxe, &b, &b, "18600");
    let [from, _] = packets(&before, &a).unwrap();
    wait_until_sent(&daemon, &a, from, 200.0);
    signal("-STOP", &second);
    signal("-STOP", &first);
    let after = scrape_at_rest(&daemon, &[&a, &b]);
    let since = |pod| {
        let (now, then) = (packets(&after, pod).unwrap(), packets(&before, pod).unwrap());
        [now[0] - then[0], now[1] - then[1]]
    };
    let (of_a, of_b) = (since(&a), since(&b));
    assert!(of_a[0] >= 200.0 && of_b[0] > of_a[1], "{of_a:?} {of_b:?}");
    assert!(of_b[1] > of_a[0], "the packets of pod a, and its own");
    assert!(of_a[0] + of_b[0] <= port_sent(&after) - port_sent(&before));
    let by_device = [("device", DEVICE), ("attribution", "sole-user")];
    assert!(after.of("rdma_pod_transmit_packets_total", &by_device).is_empty(), "no pod is the sole user");
}

#[test]
fn a_recreated_pod_starts_with_zero_packets() {
    let rxe = Rxe::new();
    let daemon = daemon(&rxe, &[]);
    let pod = KubePod::new("train", "a", A);
    let pair = pingpong_on(&rxe, &pod, &pod, "18515");
    wait_until_sent(&daemon, &pod, 0.0, 500.0);
    drop(pair);
    drop(pod);
    wait_until("the pod is gone", || {
        daemon.scrape().of("rdma_pod_transmit_packets_total", &[("device", DEVICE)]).is_empty()
    });
    let pod = KubePod::new("train", "a", RECREATED);
    let pair = pingpong_on(&rxe, &pod, &pod, "18515");
    signal("-STOP", &pair);
    let first = scrape_at_rest(&daemon, &[&pod]);
    let own = first.of("rdma_pod_transmit_packets_total", &[("device", DEVICE), BY_PSN]);
    assert_eq!(own.len(), 1);
    check_still_counting(&daemon, &pair, &pod);
}

/// Continues the programs, and waits until their packets are counted.
fn check_still_counting(daemon: &Daemon, pair: &[RxeProgram], pod: &KubePod) {
    let [from, _] = packets(&daemon.scrape(), pod).unwrap();
    signal("-CONT", pair);
    wait_until_sent(daemon, pod, from, 100.0);
}

#[test]
fn packet_sequence_numbers_of_an_unverified_driver_are_not_counted() {
    let rxe = Rxe::new();
    let machine = &rxe.machine;
    let a = KubePod::new("train", "a", A);
    let _user = super::shared::open(&a, "mlx5_0");
    super::shared::wait_for_context(machine, "mlx5_0", 1);
    let daemon = daemon(&rxe, &[]);
    wait_until("the daemon logs the driver", || {
        let text = daemon.log();
        text.contains("packet numbers of RDMA device mlx5_0") && text.contains("--psn-driver")
    });
    let of_psn = [("collector", "psn")];
    assert_eq!(
        daemon.scrape().value("rdma_scrape_collector_success", &of_psn),
        "1",
        "an unverified driver is not a failure"
    );
    assert!(daemon.scrape().of("rdma_pod_transmit_packets_total", &[BY_PSN]).is_empty());
}

#[test]
fn a_driver_that_accepts_automatic_counters_but_binds_none_is_reported() {
    let rxe = Rxe::new();
    let a = KubePod::new("train", "a", A);
    let auto = |mode: &str| {
        let link = format!("{DEVICE}/1");
        let words = format!("statistic qp set link {link} auto {mode}");
        rxe.machine.node.run("rdma", &words.split(' ').collect::<Vec<_>>());
    };
    let unsupported = [("collector", "pid_counters"), ("reason", "unsupported")];
    let daemon = daemon(&rxe, &["--enable=pid_counters"]);
    let first = pingpong_on(&rxe, &a, &a, "18515");
    let before = daemon.scrape();
    assert!(before.of("rdma_scrape_errors_total", &unsupported).is_empty(), "automatic counters are off");
    drop(first);
    auto("pid on");
    let _second = pingpong_on(&rxe, &a, &a, "18516");
    let mut after = before;
    // A collection that was still running may have listed the objects between the two.
    wait_until("the queue pairs without a counter set are reported", || {
        after = daemon.scrape();
        !after.of("rdma_scrape_errors_total", &unsupported).is_empty()
    });
    assert_eq!(after.value("rdma_scrape_collector_success", &[("collector", "pid_counters")]), "1");
    let log = daemon.log();
    assert!(log.contains("rxe0, port 1") && log.contains("the driver does not bind"), "{log}");
    assert!(after.of("rdma_pod_transmit_packets_total", &[("attribution", "pid-counter")]).is_empty());
    auto("off");
}
