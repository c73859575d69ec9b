//! Probes of another node with perftest over a software RDMA device.

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use silkrail_tests::{
    cli::{self, silkrail},
    pair::{DEVICE, HERE, THERE},
    rxe::RxeProgram,
    scrape::Scrape,
};

use crate::agent::{RemoteAgent, TOKEN, UNKNOWN_CLOCK_RATE, check, no_perftest_is_left};

/// An address that no machine has.
const UNREACHABLE: &str = "192.0.2.9";

#[test]
fn each_message_of_a_probe_is_in_the_histogram_and_failures_are_counted() {
    let _agent = RemoteAgent::start();
    // This node is in the list of all nodes, too.
    let hosts = format!("{HERE} {THERE} {UNREACHABLE}");
    let once = check(&format!("probe {HERE} {THERE} --once --messages 100 --json")).ended(0).json();
    assert_eq!(once.as_array().unwrap().len(), 1, "{once}");
    assert_eq!([&once[0]["peer"], &once[0]["device"], &once[0]["peerDevice"]], [THERE, DEVICE, DEVICE]);
    let (median, longest) = (once[0]["medianUs"].as_f64().unwrap(), once[0]["maxUs"].as_f64().unwrap());
    assert!(median > 2.0 && longest >= median, "{once}");
    check(&format!("probe {UNREACHABLE} --once")).ended(1);
    assert!(silkrail(&format!("check probe {HERE} --once")).ended(2).stderr.contains("no other node"));
    let too_many = check(&format!("probe {hosts} --messages 10000 --interval 5")).ended(2);
    assert!(too_many.stderr.contains("use fewer --peers"), "{too_many:?}");

    let file = "/run/silkrail-probe-test/probe.prom";
    let mut arguments = vec!["check", "probe", "--token-file", TOKEN, "--messages", "100", "--interval", "5"];
    arguments.extend(["--output", file]);
    arguments.extend(hosts.split(' '));
    let log = tempfile::NamedTempFile::new().unwrap();
    let prober =
        RxeProgram::spawn(Command::new(cli::executable()).args(arguments).stderr(log.reopen().unwrap()));
    let read = || Scrape::parse(&fs::read_to_string(file).unwrap_or_default());
    let pair = [("node", "lab"), ("device", DEVICE), ("peer", THERE), ("peer_device", DEVICE)];
    let probes = |scrape: &Scrape| {
        let found = scrape.of("silkrail_probes_total", &pair);
        found.first().map_or(0, |sample| sample.value.parse::<u64>().unwrap())
    };
    let said = || fs::read_to_string(log.path()).unwrap();
    // The interval is five seconds, the first round begins within one, and a node that does not exist costs time.
    let deadline = Instant::now() + Duration::from_secs(300);
    while probes(&read()) < 2 {
        assert!(
            Instant::now() < deadline,
            "two probes of a node: {:?}\n{}",
            fs::read_to_string(file),
            said()
        );
        thread::sleep(Duration::from_millis(200));
    }
    drop(prober);
    let scrape = read();
    // perftest has the times between messages, in some runs without the last two.
    let expected = scrape.value("silkrail_probe_round_trip_seconds_count", &pair);
    let messages = 97 * probes(&scrape)..=99 * probes(&scrape);
    assert!(messages.contains(&expected.parse().unwrap()), "{expected}, expected {messages:?}");
    let all = [&pair[..], &[("le", "+Inf")]].concat();
    assert_eq!(scrape.value("silkrail_probe_round_trip_seconds_bucket", &all), expected);
    let failures = said().matches(UNKNOWN_CLOCK_RATE).count();
    assert_eq!(scrape.value("silkrail_probe_failures_total", &pair), failures.to_string(), "{}", said());
    let not_made = [("peer", UNREACHABLE), ("reason", "agent")];
    assert!(scrape.number("silkrail_probes_not_made_total", &not_made) >= 1.0);
    no_perftest_is_left();
    fs::remove_dir_all("/run/silkrail-probe-test").unwrap();
}
