//! `silkrail top` on a terminal: it leaves the terminal as it was, however it ends.

use std::{
    fs,
    io::Read,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use rustix::termios::{LocalModes, tcgetattr};

use crate::terminal::Terminal;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// `silkrail top` on a terminal of its own.
struct Top {
    _root: tempfile::TempDir,
    terminal: Terminal,
}

/// A node that has an RDMA core without devices.
fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("sys/class/infiniband")).unwrap();
    fs::create_dir_all(root.path().join("proc")).unwrap();
    root
}

impl Top {
    fn start(args: &[&str]) -> Self {
        let root = root();
        let terminal = Terminal::run(root.path(), &[&["top"], args].concat());
        Self { _root: root, terminal }
    }

    fn wait_for(&mut self, text: &str) {
        self.terminal.wait_for(text);
    }

    fn press(&mut self, keys: &str) {
        self.terminal.press(keys);
    }

    fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.terminal.child.id()).unwrap())
    }

    fn is_cooked(&self) -> bool {
        tcgetattr(&self.terminal.end).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for the end, and asserts that the terminal is as before.
    fn end(mut self) -> ExitStatus {
        self.wait_for(LEAVE);
        let status = self.terminal.wait();
        assert!(self.terminal.seen.ends_with(LEAVE), "{:?}", self.terminal.seen);
        assert!(self.is_cooked());
        status
    }
}

#[test]
fn each_end_restores_the_terminal() {
    type End = (&'static str, fn(&mut Top));
    let ends: [End; 4] = [
        ("q", |top| top.press("q")),
        ("SIGINT", |top| top.signal(Signal::SIGINT)),
        ("SIGTERM", |top| top.signal(Signal::SIGTERM)),
        ("SIGHUP", |top| top.signal(Signal::SIGHUP)),
    ];
    for (name, end) in ends {
        let mut top = Top::start(&[]);
        top.wait_for(ENTER);
        top.wait_for("by bytes");
        assert!(!top.is_cooked(), "{name}");
        end(&mut top);
        assert_eq!(top.end().code(), Some(0), "{name}");
    }
}

#[test]
fn keys_sort_and_unknown_keys_are_ignored() {
    let mut top = Top::start(&["--interval", "60"]);
    top.wait_for("by bytes");
    top.press("e");
    top.wait_for("by errors");
    top.press("zn");
    top.wait_for("by name");
    top.press("q");
    assert!(top.end().success());
}

#[test]
fn the_terminal_is_usable_while_it_is_stopped() {
    let mut top = Top::start(&["--interval", "0.2"]);
    top.wait_for("by bytes");
    top.signal(Signal::SIGTSTP);
    let stopped = waitpid(top.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
    top.wait_for(LEAVE);
    assert!(top.is_cooked());
    top.signal(Signal::SIGCONT);
    top.wait_for(ENTER);
    top.wait_for("by bytes");
    top.press("q");
    assert!(top.end().success());
}

#[test]
fn without_a_terminal_tables_and_json_are_printed() {
    let root = root();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silkrail"));
        command.arg("--root").arg(root.path()).args(["top", "-i", "0.1"]).args(args);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let tables = run(&["-n", "2"]);
    assert_eq!(tables.matches("\nDEVICE  RX-B/S").count(), 2, "{tables}");
    assert!(!tables.contains('\x1b'), "{tables:?}");
    assert_eq!(run(&["--once"]).matches("\nPOD  RX-B/S").count(), 1);
    let json = run(&["-n", "3", "--json"]);
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["devices"], serde_json::json!([]));
}

#[test]
fn without_a_count_it_ends_by_a_signal() {
    let root = root();
    let mut command = Command::new(env!("CARGO_BIN_EXE_silkrail"));
    command.arg("--root").arg(root.path()).args(["top", "-i", "0.1", "--json"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it did not end");
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_node_without_rdma_is_not_supported() {
    let root = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_silkrail"));
    let output = command.arg("--root").arg(root.path()).args(["top", "--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("this node has no RDMA"), "{output:?}");
}
