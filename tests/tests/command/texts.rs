//! Error messages for new users: each has what was found, what was expected, and a remedy.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use silkrail_tests::cli::{self, CommandOutput};

/// A simulated node: files of a virtual machine's network card, and files that a test adds.
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
        // A link of the test machine, because silkrail requests links from the kernel.
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

    /// The output of `apply` for a node file.
    fn apply(&self, text: &str, more: &str) -> CommandOutput {
        self.put("node.yaml", text);
        self.silkrail(&format!(
            "apply {} --state-dir {} {more}",
            self.path("node.yaml").display(),
            self.path("run").display()
        ))
    }
}

fn assert_output(ran: &CommandOutput, parts: &[&str]) {
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
    assert_output(&listed, &["lo ", "virtio-pci"]);
    assert!(!listed.stdout.contains("another network namespace"), "{}", listed.stdout);
    let state = node.path("run");
    let created = node.silkrail(&format!("vf create lo 2 --state-dir {}", state.display())).ended(4);
    assert_output(&created, &["lo (0000:00:03.0): refused", "a virtual network card", "pass a PF or VFs"]);
    assert_output(&node.silkrail("recover lo --force-pf").ended(0), &["lo"]);
}

#[test]
fn the_error_of_a_missing_pf_lists_the_existing_pfs() {
    let node = TextsFixture::new();
    let ran = node.silkrail("vf create eth9 2").ended(2);
    assert_output(
        &ran,
        &["there is no PF \"eth9\"", "the link, the PCI address or the RDMA device", "available: lo"],
    );
    fs::remove_dir_all(node.path(CARD)).unwrap();
    let ran = node.silkrail("vf create eth9 2").ended(2);
    assert_output(&ran, &["there is no PF \"eth9\"", "this node has no PCI network card"]);
}

#[test]
fn the_error_of_a_missing_node_file_has_a_remedy() {
    let node = TextsFixture::new();
    let ran = node.silkrail("apply /nonexistent/node.yaml").ended(1);
    assert_output(
        &ran,
        &["there is no node file /nonexistent/node.yaml", "silkrail apply --help", "silkrail apply FILE"],
    );
    let ran = node.apply("guidFile: /nonexistent/guids\npfs: []\n", "").ended(1);
    assert_output(&ran, &["there is no GUID file /nonexistent/guids", "guidFile"]);
    assert_output(&node.silkrail("apply /").ended(1), &["read /: ", "expected a YAML file"]);
}

#[test]
fn the_error_of_an_invalid_node_file_has_the_expected_type() {
    let node = TextsFixture::new();
    let pf = "pfs:\n  - match: {link: lo}\n    vfs: 1\n";
    for (text, parts) in [
        ("", ["the file is empty", "rdmaMode and pfs"]),
        ("pfs: []\n---\npfs: []\n", ["found 2", "remove the others"]),
        ("- a\n", ["expected keys like rdmaMode and pfs, found a list", "silkrail apply --help"]),
        ("exclusive\n", ["expected keys like rdmaMode and pfs, found a string", "silkrail apply --help"]),
        ("pfs:\n  - [a]\n", ["pfs[0]: expected", "found a list"]),
        ("pfs:\n  - match: [lo]\n    vfs: 1\n", ["pfs[0].match: expected", "found a list"]),
        (&format!("{pf}    vf: [stable]\n"), ["pfs[0].vf: expected", "found a list"]),
        ("rdmaMode: a\n", ["rdmaMode: \"a\" is not an RDMA mode", "shared or exclusive"]),
        (
            "pfs:\n  - match: {device: 1021}\n    vfs: 1\n",
            ["pfs[0].match.device: expected a string", "'1021'"],
        ),
        ("pfs:\n  - match: {link: lo}\n    vfs: many\n", ["pfs[0].vfs: ", "expected a number"]),
        ("pfs:\n  - match: {link: lo}\n", ["pfs[0]: vfs is missing", "the number of VFs"]),
        ("pfs:\n  - vfs: 1\n", ["pfs[0]: match is missing", "the selection of PFs"]),
        ("rdmamode: exclusive\n", ["unknown key `rdmamode`", "rdmaMode"]),
    ] {
        let ran = node.apply(text, "--dry-run").ended(2);
        assert_output(&ran, &parts);
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
        assert_output(
            &node.apply(file, more).ended(4),
            &["RDMA not available", "install the kernel's RDMA modules"],
        );
    }
    node.put(&format!("{}/modules.dep", modules()), "kernel/drivers/infiniband/core/ib_core.ko:\n");
    assert_output(&node.apply(file, "--dry-run").ended(0), &["would be set to exclusive"]);
    assert!(!node.path("etc/modprobe.d").exists(), "it was a dry run");
}

#[test]
fn every_command_that_changes_the_node_has_a_dry_run() {
    let node = TextsFixture::new();
    node.put(&format!("{}/modules.dep", modules()), "kernel/drivers/infiniband/core/ib_core.ko:\n");
    let ran = node.silkrail("mode set exclusive --persist --dry-run").ended(0);
    assert_output(
        &ran,
        &["exclusive as soon as ib_core is loaded", "ib_core.conf: would be written", "Nothing was done"],
    );
    assert!(!node.path("etc/modprobe.d").exists());
    assert_eq!(
        node.silkrail("mode set exclusive --persist --dry-run --json").ended(0).json()["dryRun"],
        true
    );
    assert_output(
        &node.silkrail("mode set exclusive --dry-run").ended(4),
        &["ib_core is not loaded", "modprobe ib_core"],
    );
    for command in ["vf create lo 2", "vf delete lo"] {
        let ran = node.silkrail(&format!("{command} --dry-run --state-dir {}", node.path("run").display()));
        assert!([Some(0), Some(4)].contains(&ran.code), "{ran:?}");
    }
    assert!(!node.path("run").exists(), "no lock file was created");
}

#[test]
fn a_missing_state_directory_is_reported() {
    let node = TextsFixture::new();
    for command in ["gc", "gc --yes", "pods"] {
        let ran = node.silkrail(&format!("{command} --state-dir /nonexistent")).ended(0);
        assert_output(&ran, &["there is no directory /nonexistent", "stateDir", "/run/silkrail"]);
    }
    let ran = node.silkrail("gc --json --state-dir /nonexistent").ended(0);
    assert_eq!(ran.json(), serde_json::json!([]));
}

#[test]
fn the_error_without_access_to_every_process_has_the_remedy() {
    let node = TextsFixture::new();
    fs::remove_file(node.path("proc/1/mountinfo")).unwrap();
    fs::create_dir(node.path("proc/1/mountinfo")).unwrap();
    let ran = node.silkrail(&format!("gc --state-dir {}", node.0.path().display())).ended(1);
    assert_output(
        &ran,
        &["which pods are running", "proc/1/mountinfo", "on the node itself", "CAP_SYS_PTRACE"],
    );
}

#[test]
fn the_correct_command_is_suggested_for_a_mistyped_one() {
    for (mistyped, correct) in
        [("instal", "install"), ("mod get", "mode"), ("gc --yess", "--yes"), ("vf lst", "list")]
    {
        let ran = cli::silkrail(mistyped).ended(2);
        assert_output(&ran, &["tip: ", "similar", &format!("'{correct}'")]);
    }
}

#[test]
fn a_job_of_a_collective_test_has_rdma_devices_or_is_refused() {
    let job = "check nccl --workers 2 --image registry/nccl-tests:v2.13";
    let refused = cli::silkrail(&format!("{job} --kind mpijob")).ended(2);
    assert_output(&refused, &["--rdma-resource"]);
    for (kind, objects) in [("mpijob", 1), ("volcano", 1), ("pods", 4)] {
        let devices = "--rdma-resource spidernet.io/mellanoxrdma=2 --network kube-system/rail0";
        let printed =
            cli::silkrail(&format!("{job} --kind {kind} {devices} -- --mca btl_tcp_if_include eth0"))
                .ended(0);
        assert_eq!(yaml::documents(&printed.stdout).unwrap().len(), objects, "{printed:?}");
        let networks = "k8s.v1.cni.cncf.io/networks: kube-system/rail0";
        for part in
            ["spidernet.io/mellanoxrdma: 2", networks, "medium: Memory", "IPC_LOCK", "btl_tcp_if_include"]
        {
            assert!(printed.stdout.contains(part), "{part}: {}", printed.stdout);
        }
    }
    let refused = cli::silkrail("check nccl --hosts a,b -- $(reboot)").ended(2);
    assert_output(&refused, &["shell metacharacters"]);
}
