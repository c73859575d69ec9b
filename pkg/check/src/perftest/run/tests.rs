//! Tests of `run`.

use std::fs;

use super::*;
use crate::simulated_node::write_program;

fn program<'a>(launcher: &'a Launcher) -> PerftestProgram<'a> {
    PerftestProgram { launcher, name: "ib_write_bw", path: "/bin/sh".into() }
}

fn shell(launcher: &Launcher, script: &str) -> RunningProgram {
    program(launcher).spawn(Command::new("/bin/sh").args(["-c", script])).unwrap()
}

fn launcher(path: &str) -> Launcher {
    Launcher { path: path.into(), wrapper: Vec::new(), versions: Default::default() }
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher(dir.path().to_str().unwrap());
    let missing = launcher.find(TestKind::Bandwidth, RdmaOperation::Read).unwrap_err().to_string();
    assert!(missing.starts_with("ib_read_bw: not found in PATH; install the package perftest"), "{missing}");
    // A directory and a file that is not executable are not programs.
    fs::write(dir.path().join("ib_read_bw"), "").unwrap();
    fs::create_dir(dir.path().join("ib_send_lat")).unwrap();
    assert!(launcher.find(TestKind::Bandwidth, RdmaOperation::Read).is_err());
    assert!(launcher.find(TestKind::Latency, RdmaOperation::Send).is_err());
}

/// Returns the version printed by this shell script, started with this wrapper, and how long that took.
fn version(script: &str, wrapper: &[&str]) -> (Option<String>, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ib_write_bw");
    write_program(&path, &format!("#!/bin/sh\n{script}\n"));
    let mut launcher = launcher(dir.path().to_str().unwrap());
    launcher.wrapper = wrapper.iter().map(OsString::from).collect();
    let began = Instant::now();
    let version = launcher.find(TestKind::Bandwidth, RdmaOperation::Write).unwrap().version();
    (version, began.elapsed())
}

#[test]
fn the_version_is_read_by_a_program_started_as_for_a_test() {
    let script = "[ \"$1\" = --version ] && echo && echo ' Version: 6.06'; echo >&2; exit 1";
    assert_eq!(version(script, &[]).0.as_deref(), Some("6.06"));
    // The wrapper is used for `--version` too.
    let wrapper = ["/usr/bin/env", "WRAPPED=6.07"];
    assert_eq!(version("echo Version: $WRAPPED", &wrapper).0.as_deref(), Some("6.07"));
    assert_eq!(version("echo unknown option", &[]).0, None);
}

#[test]
fn a_program_that_does_not_print_its_version_times_out() {
    let (version, took) = version("exec sleep 600", &[]);
    assert_eq!(version, None);
    assert!(took < VERSION_TIMEOUT * 12, "{took:?}");
}

/// The script is limited to two minutes of CPU time, in case it is not killed.
#[test]
fn a_program_that_prints_its_version_endlessly_times_out() {
    let (version, took) = version("ulimit -t 120; while :; do echo Version: 1; done", &[]);
    assert_eq!(version, None);
    assert!(took < VERSION_TIMEOUT * 12, "{took:?}");
}

#[test]
fn a_process_is_killed_when_its_value_is_dropped() {
    let launcher = launcher("");
    let running = shell(&launcher, "exec sleep 1000");
    let process = format!("/proc/{}", running.pid());
    assert!(Path::new(&process).exists());
    drop(running);
    assert!(!Path::new(&process).exists());
}

#[test]
fn long_output_is_read_and_its_end_kept() {
    let launcher = launcher("");
    let mut running =
        shell(&launcher, "yes 0123456789 | head -c 10000000; echo; echo end; echo complaint >&2; exit 3");
    while !running.has_ended().unwrap() {
        thread::yield_now();
    }
    let output = running.end().unwrap();
    assert!(output.printed.len() <= MAX_KEPT_OUTPUT && output.printed.ends_with("end\n"));
    assert!(output.printed.lines().all(|line| "0123456789".starts_with(line) || line == "end"));
    assert!(!output.is_success());
    assert_eq!(output.failure().to_string(), "ib_write_bw failed (exit status: 3): complaint");
}

#[test]
fn a_failure_has_the_last_lines_of_the_complaints_or_else_of_the_output() {
    let launcher = launcher("");
    let output = |script: &str| {
        let mut running = shell(&launcher, script);
        while !running.has_ended().unwrap() {
            thread::yield_now();
        }
        running.end().unwrap()
    };
    let many = output("echo printed; for i in 1 2 3 4 5 6 7; do echo $i; echo; echo ----; done >&2; exit 1");
    assert_eq!(many.output(), "2; 3; 4; 5; 6; 7");
    assert_eq!(output("echo printed; echo >&2; exit 1").output(), "printed");
    // Only a program that failed may lack an option.
    let unknown = "echo \"unrecognized option '--out_json'\" >&2; exit ";
    let knows = |status| !output(&format!("{unknown}{status}")).does_not_know("out_json");
    assert_eq!([knows(0), knows(1)], [true, false]);
    assert!(!output(&format!("{unknown}1")).does_not_know("bind_source_ip"));
}

#[test]
fn unacknowledged_packets_are_explained() {
    let launcher = launcher("");
    let mut running = shell(&launcher, "echo 'Failed status 12: wr_id 0 syndrom 0x81' >&2; exit 1");
    while !running.has_ended().unwrap() {
        thread::yield_now();
    }
    let failure = running.end().unwrap().failure().to_string();
    assert!(failure.contains("is UDP port 4791 (RoCE v2) open"), "{failure}");
}

#[test]
fn a_descendant_that_holds_the_pipe_open_does_not_block() {
    let launcher = launcher("");
    let mut running = shell(&launcher, "sleep 5 & echo done");
    while !running.has_ended().unwrap() {
        thread::yield_now();
    }
    assert_eq!(running.end().unwrap().printed, "done\n");
}

/// No thread has so large a stack.
const TOO_LARGE_STACK: &str = "1000000000000000";

/// The test starts itself in a process that can create no thread.
#[test]
fn without_threads_a_program_is_an_error_and_does_not_stay() {
    if env::var("RUST_MIN_STACK").is_ok_and(|size| size == TOO_LARGE_STACK) {
        let launcher = launcher("");
        let error =
            program(&launcher).spawn(Command::new("/bin/sh").args(["-c", "exec sleep 60"])).unwrap_err();
        assert!(error.to_string().starts_with("read the output of /bin/sh: "), "{error}");
        let children = fs::read_to_string("/proc/thread-self/children").unwrap();
        assert_eq!(children, "", "the program was reaped");
        return;
    }
    let name = "perftest::run::tests::without_threads_a_program_is_an_error_and_does_not_stay";
    let mut tests = Command::new(env::current_exe().unwrap());
    tests.args(["--exact", name, "--test-threads=1"]).env("RUST_MIN_STACK", TOO_LARGE_STACK);
    let output = tests.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}
