//! The question of commands that change the node, on a terminal and without one.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::terminal::Terminal;

const QUESTION: &str = "Make these changes? [y/N] ";
const SETTING: &str = "proc/sys/kernel/numa_balancing";

/// A node on which `tune apply` changes one setting, and on which a file was installed.
fn node() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(SETTING, "1\n");
    // sha256sum of "installed".
    let sha256 = "a51a6c19a1ffc7416827e89adf20749d23ad42452c396cf7e627409f2896922c";
    let record = format!(
        r#"{{"format":1,"files":{{"/opt/cni/bin/macvlan":{{"sha256":["{sha256}"],"release":"0.1.0","origin":null}}}}}}"#
    );
    write("var/lib/silkrail/install/state.json", &record);
    root
}

fn setting(root: &Path) -> String {
    fs::read_to_string(root.join(SETTING)).unwrap().trim().to_owned()
}

fn is_recorded(root: &Path) -> bool {
    let record = fs::read_to_string(root.join("var/lib/silkrail/install/state.json")).unwrap_or_default();
    record.contains("macvlan")
}

fn without_terminal(root: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silkrail"));
    let output = command.arg("--root").arg(root).args(args).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains(QUESTION), "{output:?}");
    output
}

/// Answers the question, and returns what the terminal has shown.
fn answer(root: &Path, args: &[&str], answer: &str, last: &str) -> String {
    let mut terminal = Terminal::run(root, args);
    terminal.wait_for(QUESTION);
    terminal.press(answer);
    terminal.wait_for(last);
    assert_eq!(terminal.wait().code(), Some(0), "{}", terminal.seen);
    terminal.seen.clone()
}

#[test]
fn settings_are_changed_after_a_yes_only() {
    let node = node();
    let (root, apply) = (node.path(), ["tune", "apply"]);
    for no in ["\n", "n\n", "\x04"] {
        let seen = answer(root, &apply, no, "nothing was done");
        assert!(seen.contains("kernel.numa_balancing"), "{seen}");
        assert_eq!(setting(root), "1", "{no:?}");
    }
    answer(root, &apply, "y\n", "set");
    assert_eq!(setting(root), "0");
    answer(root, &["tune", "revert"], "yes\n", "set");
    assert_eq!(setting(root), "1");
}

#[test]
fn without_a_terminal_settings_need_yes() {
    let node = node();
    let root = node.path();
    for options in [&["tune", "apply"][..], &["tune", "apply", "--dry-run"], &["tune", "apply", "--json"]] {
        without_terminal(root, options);
        assert_eq!(setting(root), "1", "{options:?}");
    }
    let output = without_terminal(root, &["tune", "apply"]);
    let hint = "nothing was done: run the command again with --yes\n";
    assert!(String::from_utf8_lossy(&output.stdout).ends_with(hint), "{output:?}");
    without_terminal(root, &["tune", "apply", "--yes"]);
    assert_eq!(setting(root), "0");
}

#[test]
fn uninstall_asks_on_a_terminal_only() {
    let node = node();
    let root = node.path();
    answer(root, &["uninstall"], "n\n", "nothing was done");
    without_terminal(root, &["uninstall", "--dry-run"]);
    assert!(is_recorded(root));
    answer(root, &["uninstall"], "y\n", "next:");
    assert!(!is_recorded(root));
    // As in the Job of conf/deploy, and in scripts.
    let node = self::node();
    without_terminal(node.path(), &["uninstall"]);
    assert!(!is_recorded(node.path()));
}

#[test]
fn uninstall_needs_yes_on_a_terminal_on_which_it_cannot_ask() {
    let node = node();
    let run = |args: &[&str]| {
        let [out, complaints] = ["out", "complaints"].map(|name| node.path().join(name));
        let [stdout, stderr] = [&out, &complaints].map(|path| Stdio::from(fs::File::create(path).unwrap()));
        let status = Terminal::run_with(node.path(), args, Some(stdout), stderr).wait();
        assert_eq!(status.code(), Some(0));
        [out, complaints].map(|path| fs::read_to_string(path).unwrap())
    };
    for args in [&["uninstall"][..], &["uninstall", "--json"]] {
        let [out, complaints] = run(args);
        assert!(is_recorded(node.path()), "{args:?}");
        assert!(out.contains("/opt/cni/bin/macvlan"), "{out}");
        assert_eq!(complaints, "silkrail: nothing was done: run the command again with --yes\n");
    }
    let [_, complaints] = run(&["uninstall", "--json", "--yes"]);
    assert!(!is_recorded(node.path()) && complaints.is_empty(), "{complaints}");
    let other = self::node();
    without_terminal(other.path(), &["uninstall", "--json"]);
    assert!(!is_recorded(other.path()));
}

#[test]
fn nothing_to_do_is_no_question() {
    let node = node();
    fs::remove_dir_all(node.path().join("var")).unwrap();
    fs::write(node.path().join(SETTING), "0\n").unwrap();
    for args in [&["tune", "apply"][..], &["tune", "revert"], &["uninstall"]] {
        let mut terminal = Terminal::run(node.path(), args);
        terminal.wait_for("nothing to");
        assert_eq!(terminal.wait().code(), Some(0));
        assert!(!terminal.seen.contains(QUESTION), "{}", terminal.seen);
    }
}
