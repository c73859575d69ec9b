//! Answers that are large, and answers while something hangs. The others are in `tests/tests/daemon`.

use std::{
    fs,
    process::{Command, Stdio},
};

use silkrail_tests::{daemon::Daemon, machine::LabMachine, scrape::Scrape};
use testkit::wait_until;

fn daemon(machine: &LabMachine, more: &[&str]) -> Daemon {
    let state = machine.node.state_dir();
    Daemon::start(&[&["--state-dir", state.to_str().unwrap()], more].concat())
}

/// By gzip's own account.
fn unzipped(machine: &LabMachine, body: &[u8]) -> String {
    let file = machine.node.state_dir().with_file_name("answer.gz");
    fs::write(&file, body).unwrap();
    let output = Command::new("gzip").arg("-dc").arg(&file).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_answer_comes_compressed_and_in_either_text_and_says_the_same() {
    let machine = LabMachine::shared();
    let daemon = daemon(&machine, &[]);
    let whole = daemon.scrape();
    for (accept, last_line) in [("*/*", None), ("application/openmetrics-text;version=1.0.0", Some("# EOF"))]
    {
        let plain = daemon.ask("GET /metrics", &[("Accept", accept)]);
        let zipped = daemon.ask("GET /metrics", &[("Accept", accept), ("Accept-Encoding", "gzip")]);
        assert_eq!(zipped.headers["content-encoding"], "gzip");
        assert_eq!(zipped.headers["content-length"], zipped.body.len().to_string());
        assert!(zipped.body.len() * 5 < plain.body.len(), "{} bytes", zipped.body.len());
        let text = unzipped(&machine, &zipped.body);
        assert_eq!(text.lines().last().filter(|line| line.starts_with('#')), last_line);
        for text in [text, plain.text()] {
            assert_eq!(Scrape::parse(&text).names(), whole.names(), "{accept}");
        }
    }
    let head = daemon.ask("HEAD /metrics", &[("Accept-Encoding", "gzip")]);
    assert_eq!((head.headers["content-encoding"].as_str(), head.body.len()), ("gzip", 0));
}

#[test]
fn a_first_collection_that_hangs_is_alive_and_not_ready_and_says_so_in_time() {
    let machine = LabMachine::shared();
    let hang = machine.simulate(&machine.vf("eth0", 0).pci, "slow_stats_ms", "60000");
    let daemon = daemon(&machine, &["--device-timeout", "60"]);
    assert_eq!(daemon.ask("GET /healthz", &[]).status, 200);
    assert_eq!(daemon.ask("GET /readyz", &[]).status, 503);
    let metrics = daemon.ask("GET /metrics", &[("X-Prometheus-Scrape-Timeout-Seconds", "1")]);
    assert_eq!(metrics.status, 503);
    assert!(metrics.text().contains("not done yet"), "{}", metrics.text());
    // No process ends while a thread of it is in a driver that waits.
    drop(hang);
    wait_until("it is ready", || daemon.ask("GET /readyz", &[]).status == 200);
}
