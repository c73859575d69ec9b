//! What a newcomer reads: each text says what is, what was expected, and what to do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use silkrail_tests::cli::{self, CommandOutput};

/// A node made of files: a virtual machine's network card, and whatever a test puts beside it.
struct TextsFixture(tempfile::TempDir);

const CARD: &str = "sys/bus/pci/devices/0000:00:03.0";

impl TextsFixture {
    fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        for process in ["self", "1"] {
            fs::create_dir_all(node.path(&format!("proc/{process}/ns"))).unwrap();
            symlink("net:[4026531840]", node.path(&format!("proc/{process}/ns/net"))).unwrap();
            node.put(&format!("proc/{process}/mountinfo"), "");
        }
        symlink("pid:[4026531836]", node.path("proc/self/ns/pid")).unwrap();
        node.put("proc/cmdline", "quiet\n");
        node.put(&format!("{CARD}/class"), "0x020000\n");
        symlink("../../drivers/virtio-pci", node.path(&format!("{CARD}/driver"))).unwrap();
        // A link of the machine that the test runs on: links are asked of the kernel.
        fs::create_dir_all(node.path(&format!("{CARD}/virtio2/net/lo"))).unwrap();
        node
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn silkrail(&self, args: &str) -> CommandOutput {
        cli::silkrail(&format!("--root {} {args}", self.0.path().display()))
    }

    /// What `apply` says of a node file.
    fn apply(&self, text: &str, more: &str) -> CommandOutput {
        self.put("node.yaml", text);
        self.silkrail(&format!(
            "apply {} --state-dir {} {more}",
            self.path("node.yaml").display(),
            self.path("run").display()
        ))
    }
}

fn says(ran: &CommandOutput, parts: &[&str]) {
    let text = format!("{}{}", ran.stdout, ran.stderr);
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

fn modules() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    format!("lib/modules/{}", release.trim())
}

#[test]
fn the_card_of_a_virtual_machine_has_its_link() {
    let node = TextsFixture::new();
    let listed = node.silkrail("vf list").ended(0);
    says(&listed, &["lo ", "virtio-pci"]);
    assert!(!listed.stdout.contains("another network namespace"), "{}", listed.stdout);
    let state = node.path("run");
    let made = node.silkrail(&format!("vf create lo 2 --state-dir {}", state.display())).ended(4);
    says(&made, &["lo (0000:00:03.0): refused", "a virtual machine's own card", "hand the machine"]);
    says(&node.silkrail("recover lo --force-pf").ended(0), &["lo"]);
}

#[test]
fn a_pf_that_is_not_there_is_named_with_those_that_are() {
    let node = TextsFixture::new();
    let ran = node.silkrail("vf create eth9 2").ended(2);
    says(&ran, &["there is no PF \"eth9\"", "the link, the PCI address or the RDMA device", "available: lo"]);
    fs::remove_dir_all(node.path(CARD)).unwrap();
    let ran = node.silkrail("vf create eth9 2").ended(2);
    says(&ran, &["there is no PF \"eth9\"", "this node has no PCI network card"]);
}

#[test]
fn a_node_file_that_is_not_there_says_how_to_get_one() {
    let node = TextsFixture::new();
    let ran = node.silkrail("apply /nonexistent/node.yaml").ended(1);
    says(
        &ran,
        &["there is no node file /nonexistent/node.yaml", "silkrail apply --help", "silkrail apply FILE"],
    );
    let ran = node.apply("guidFile: /nonexistent/guids\npfs: []\n", "").ended(1);
    says(&ran, &["there is no GUID file /nonexistent/guids", "guidFile"]);
    says(&node.silkrail("apply /").ended(1), &["read /: ", "expected a YAML file"]);
}

#[test]
fn a_node_file_of_another_shape_says_what_was_expected() {
    let node = TextsFixture::new();
    let pf = "pfs:\n  - match: {link: lo}\n    vfs: 1\n";
    for (text, parts) in [
        ("", ["the file is empty", "rdmaMode and pfs"]),
        ("pfs: []\n---\npfs: []\n", ["found 2", "remove what is behind the first ---"]),
        ("- a\n", ["expected keys like rdmaMode and pfs, found a list", "silkrail apply --help"]),
        ("exclusive\n", ["expected keys like rdmaMode and pfs, found a text", "silkrail apply --help"]),
        ("pfs:\n  - [a]\n", ["pfs[0]: expected", "found a list"]),
        ("pfs:\n  - match: [lo]\n    vfs: 1\n", ["pfs[0].match: expected", "found a list"]),
        (&format!("{pf}    vf: [stable]\n"), ["pfs[0].vf: expected", "found a list"]),
        ("rdmaMode: a\n", ["rdmaMode: \"a\" is no RDMA mode", "shared or exclusive"]),
        (
            "pfs:\n  - match: {device: 1021}\n    vfs: 1\n",
            ["pfs[0].match.device: 1021 is a number", "'1021'"],
        ),
        ("pfs:\n  - match: {link: lo}\n    vfs: many\n", ["pfs[0].vfs: ", "expected a number"]),
        ("pfs:\n  - match: {link: lo}\n", ["pfs[0]: vfs is missing", "how many VFs"]),
        ("pfs:\n  - vfs: 1\n", ["pfs[0]: match is missing", "which PFs"]),
        ("rdmamode: exclusive\n", ["unknown key `rdmamode`", "rdmaMode"]),
    ] {
        let ran = node.apply(text, "--dry-run").ended(2);
        says(&ran, &parts);
        assert!(
            !ran.stderr.contains("invalid type") && !ran.stderr.contains("missing field"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_dry_run_predicts_what_the_run_refuses() {
    let node = TextsFixture::new();
    let file = "rdmaMode: exclusive\n";
    // The kernel has no RDMA at all.
    for more in ["--dry-run", ""] {
        says(&node.apply(file, more).ended(4), &["RDMA not available", "install the kernel's RDMA modules"]);
    }
    node.put(&format!("{}/modules.dep", modules()), "kernel/drivers/infiniband/core/ib_core.ko:\n");
    says(&node.apply(file, "--dry-run").ended(0), &["would be set to exclusive"]);
    assert!(!node.path("etc/modprobe.d").exists(), "it was a dry run");
}

#[test]
fn what_changes_the_node_can_be_tried_without_changing_it() {
    let node = TextsFixture::new();
    node.put(&format!("{}/modules.dep", modules()), "kernel/drivers/infiniband/core/ib_core.ko:\n");
    let ran = node.silkrail("mode set exclusive --persist --dry-run").ended(0);
    says(
        &ran,
        &["exclusive as soon as ib_core is loaded", "ib_core.conf: would be written", "Nothing was done"],
    );
    assert!(!node.path("etc/modprobe.d").exists());
    assert_eq!(
        node.silkrail("mode set exclusive --persist --dry-run --json").ended(0).json()["dryRun"],
        true
    );
    says(
        &node.silkrail("mode set exclusive --dry-run").ended(4),
        &["ib_core is not loaded", "modprobe ib_core"],
    );
    for command in ["vf create lo 2", "vf delete lo"] {
        let ran = node.silkrail(&format!("{command} --dry-run --state-dir {}", node.path("run").display()));
        assert!([Some(0), Some(4)].contains(&ran.code), "{ran:?}");
    }
    assert!(!node.path("run").exists(), "nobody else was kept waiting");
}

#[test]
fn a_state_directory_that_is_not_there_is_said() {
    let node = TextsFixture::new();
    for command in ["gc", "gc --yes", "pods"] {
        let ran = node.silkrail(&format!("{command} --state-dir /nonexistent")).ended(0);
        says(&ran, &["there is no directory /nonexistent", "stateDir", "/run/silkrail"]);
    }
    let ran = node.silkrail("gc --json --state-dir /nonexistent").ended(0);
    assert_eq!(ran.json(), serde_json::json!([]));
}

#[test]
fn who_may_not_see_every_process_is_told_what_is_needed() {
    let node = TextsFixture::new();
    fs::remove_file(node.path("proc/1/mountinfo")).unwrap();
    fs::create_dir(node.path("proc/1/mountinfo")).unwrap();
    let ran = node.silkrail(&format!("gc --state-dir {}", node.0.path().display())).ended(1);
    says(&ran, &["which pods are running", "proc/1/mountinfo", "on the node itself", "CAP_SYS_PTRACE"]);
}

#[test]
fn a_mistyped_command_is_suggested() {
    for (typed, meant) in
        [("instal", "install"), ("mod get", "mode"), ("gc --yess", "--yes"), ("vf lst", "list")]
    {
        let ran = cli::silkrail(typed).ended(2);
        says(&ran, &["tip: ", "similar", &format!("'{meant}'")]);
    }
}
