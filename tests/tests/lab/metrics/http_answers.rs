//! Large HTTP responses, and responses while a device hangs. Other tests of HTTP are in `tests/tests/daemon`.

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

/// Returns the text of a compressed body, by the program gzip.
fn unzipped(machine: &LabMachine, body: &[u8]) -> String {
    let file = machine.node.state_dir().with_file_name("response.gz");
    fs::write(&file, body).unwrap();
    let output = Command::new("gzip").arg("-dc").arg(&file).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_compressed_response_has_the_same_content_in_both_text_formats() {
    let machine = LabMachine::shared();
    let daemon = daemon(&machine, &[]);
    let whole = daemon.scrape();
    for (accept, last_line) in [("*/*", None), ("application/openmetrics-text;version=1.0.0", Some("# EOF"))]
    {
        let plain = daemon.request("GET /metrics", &[("Accept", accept)]);
        let zipped = daemon.request("GET /metrics", &[("Accept", accept), ("Accept-Encoding", "gzip")]);
        assert_eq!(zipped.headers["content-encoding"], "gzip");
        assert_eq!(zipped.headers["content-length"], zipped.body.len().to_string());
        assert!(zipped.body.len() * 5 < plain.body.len(), "{} bytes", zipped.body.len());
        let text = unzipped(&machine, &zipped.body);
        assert_eq!(text.lines().last().filter(|line| line.starts_with('#')), last_line);
        for text in [text, plain.text()] {
            assert_eq!(Scrape::parse(&text).names(), whole.names(), "{accept}");
        }
    }
    let head = daemon.request("HEAD /metrics", &[("Accept-Encoding", "gzip")]);
    assert_eq!((head.headers["content-encoding"].as_str(), head.body.len()), ("gzip", 0));
}

#[test]
fn during_a_hanging_first_collection_the_daemon_is_alive_but_not_ready() {
    let machine = LabMachine::shared();
    let hang = machine.simulate(&machine.vf("eth0", 0).pci, "slow_stats_ms", "60000");
    let daemon = daemon(&machine, &["--device-timeout", "60"]);
    assert_eq!(daemon.request("GET /healthz", &[]).status, 200);
    assert_eq!(daemon.request("GET /readyz", &[]).status, 503);
    let metrics = daemon.request("GET /metrics", &[("X-Prometheus-Scrape-Timeout-Seconds", "1")]);
    assert_eq!(metrics.status, 503);
    assert!(metrics.text().contains("not complete yet"), "{}", metrics.text());
    // The process cannot exit while one of its threads waits in the driver.
    drop(hang);
    wait_until("the daemon is ready", || daemon.request("GET /readyz", &[]).status == 200);
}
