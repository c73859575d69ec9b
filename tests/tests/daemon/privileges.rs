//! Three processes: the reader has privileges, no network socket, and changes nothing; the frontend has network sockets, the writer
//! writes files, and both have no privileges.

use std::{
    collections::BTreeSet,
    fs,
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use silkrail_tests::daemon::{self, Daemon};
use testkit::wait_until;

use crate::DaemonFixture;

fn status_of(pid: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).unwrap();
    line.to_owned()
}

/// The sockets that a process has open, by inode.
fn sockets(pid: u32) -> BTreeSet<String> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets =
        open.filter_map(|entry| fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok());
    targets
        .filter_map(|target| Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect()
}

/// All TCP sockets of this machine, by inode.
fn tcp_sockets() -> BTreeSet<String> {
    let tables =
        ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    lines.filter_map(|line| line.split_whitespace().nth(9)).map(str::to_owned).collect()
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Returns the status of each thread of a process.
fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok()).collect()
}

#[test]
fn the_reader_has_a_filter_of_system_calls_and_the_writer_has_no_capability() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    assert_eq!(daemon.request("GET /metrics", &[]).status, 200);
    // Also those that were started before the filter was installed.
    for thread in threads(daemon.pid()) {
        assert!(thread.contains("Seccomp:\t2\n") && thread.contains("NoNewPrivs:\t1\n"), "{thread}");
    }
    for thread in threads(daemon.writer()) {
        assert!(
            thread.contains("CapPrm:\t0000000000000000") && thread.contains("NoNewPrivs:\t1\n"),
            "{thread}"
        );
    }
    assert_eq!(status_of(daemon.writer(), "Name"), "silkraild-write");
    let writer = daemon.writer();
    signal("-KILL", writer);
    daemon.wait_for_log("the writer has exited: signal: 9");
}

#[test]
fn the_frontend_has_no_capability_and_can_get_none() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    let (reader, frontend) = (daemon.pid(), daemon.frontend());
    assert_ne!(status_of(reader, "CapEff"), "0000000000000000", "these tests run as root");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status_of(frontend, set), "0000000000000000", "{set}");
    }
    assert_eq!(status_of(frontend, "NoNewPrivs"), "1", "root gets capabilities by execve otherwise");
    assert_eq!(status_of(frontend, "Seccomp"), "2", "a filter of system calls");
    assert_eq!(status_of(frontend, "Name"), "silkraild-http");
    for status in threads(frontend) {
        assert!(status.contains("CapPrm:\t0000000000000000"), "{status}");
        assert!(status.contains("Seccomp:\t2\n"), "{status}");
    }
    let _client = TcpStream::connect(daemon.address()).unwrap();
    assert_eq!(daemon.request("GET /metrics", &[]).status, 200);
    let tcp = tcp_sockets();
    assert!(sockets(frontend).intersection(&tcp).count() >= 2, "both ports");
    assert_eq!(sockets(reader).intersection(&tcp).count(), 0);
}

#[test]
fn each_process_ends_if_the_other_is_killed() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    signal("-KILL", daemon.frontend());
    daemon.wait_for_log("the HTTP frontend has exited: signal: 9");

    let daemon = node.serve(&[]);
    let (address, frontend) = (daemon.address(), daemon.frontend());
    signal("-KILL", daemon.pid());
    wait_until("the port is free", || TcpStream::connect(address).is_err());
    wait_until("the frontend is gone", || !fs::exists(format!("/proc/{frontend}")).unwrap());
}

#[test]
fn a_frontend_that_hangs_ends_if_its_reader_is_killed() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    let (address, frontend) = (daemon.address(), daemon.frontend());
    signal("-STOP", frontend);
    signal("-KILL", daemon.pid());
    wait_until("the port is free", || TcpListener::bind(address).is_ok());
    wait_until("the frontend is gone", || !fs::exists(format!("/proc/{frontend}")).unwrap());
}

#[test]
fn a_frontend_that_hangs_ends_if_its_reader_is_terminated() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    let frontend = daemon.frontend();
    signal("-STOP", frontend);
    assert_eq!(Daemon::terminate(daemon).0, Some(0));
    assert!(!fs::exists(format!("/proc/{frontend}")).unwrap());
}

#[test]
fn sigterm_or_sigint_to_all_processes_ends_it_with_success() {
    for (round, signals) in (0..30).zip(["-TERM", "-INT"].iter().cycle()) {
        let node = DaemonFixture::new();
        let daemon = node.serve(&[]);
        for pid in [daemon.frontend(), daemon.writer(), daemon.pid()] {
            signal(signals, pid);
            thread::sleep(Duration::from_millis(round / 5));
        }
        let log = daemon.log();
        assert_eq!(daemon.ended(), Some(0), "{signals}: {log}");
    }
}

#[test]
fn the_latest_collection_is_served_while_the_reader_hangs() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    let former = daemon.request("GET /metrics", &[]);
    signal("-STOP", daemon.pid());
    for round in 0..3 {
        let answer = daemon.request("GET /metrics", &[("X-Prometheus-Scrape-Timeout-Seconds", "1")]);
        assert_eq!((answer.status, answer.text() == former.text()), (200, true), "round {round}");
    }
    signal("-CONT", daemon.pid());
    wait_until("a later collection is served", || {
        daemon.request("GET /metrics", &[]).text() != former.text()
    });
}

#[test]
fn scrapes_end_within_their_timeout_while_the_reader_hangs() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    let former = daemon.request("GET /metrics", &[]);
    signal("-STOP", daemon.pid());
    let scrape = || {
        let began = Instant::now();
        let answer = daemon.request("GET /metrics", &[("X-Prometheus-Scrape-Timeout-Seconds", "3")]);
        let took = began.elapsed();
        assert_eq!((answer.status, answer.text() == former.text()), (200, true));
        // For clients that send no timeout it is 10 s.
        assert!(took < Duration::from_secs(6), "{took:?}");
        took
    };
    thread::scope(|scope| [(); 2].map(|()| scope.spawn(scrape)).map(|one| one.join().unwrap()));
    wait_until("the frontend does not wait for it any more", || scrape() < Duration::from_millis(500));
    signal("-CONT", daemon.pid());
    wait_until("a later collection is served", || {
        daemon.request("GET /metrics", &[]).text() != former.text()
    });
}

#[test]
fn the_frontend_has_the_name_and_the_arguments_of_the_daemon() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    let command = fs::read(format!("/proc/{}/cmdline", daemon.frontend())).unwrap();
    assert!(command.starts_with(b"silkraild\0--frontend\0--root\0"), "{}", String::from_utf8_lossy(&command));
}

#[test]
fn the_frontend_and_the_writer_refuse_to_run_alone() {
    for option in ["--frontend", "--writer"] {
        let output = Command::new(daemon::executable()).arg(option).stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("{option} is internal to silkraild")), "{stderr}");
    }
    let help = String::from_utf8(daemon::run(&["--help"]).stdout).unwrap();
    assert!(
        help.contains("--listen") && !help.contains("--frontend") && !help.contains("--writer"),
        "{help}"
    );
}
