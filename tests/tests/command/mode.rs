//! `silkrail mode` and `silkrail apply` on a tree of files that simulates a node in states that no test machine has. For a
//! real kernel with RDMA see `tests/tests/lab/cli.rs`.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use silkrail_tests::cli::{self, CommandOutput};

/// A node whose kernel has `ib_core` as a module that is not loaded.
struct ModeFixture(tempfile::TempDir);

impl ModeFixture {
    fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        node.put(&format!("{}/modules.dep", modules()), "kernel/drivers/infiniband/core/ib_core.ko.xz:\n");
        node.put("proc/cmdline", "quiet\n");
        for process in ["self", "1"] {
            fs::create_dir_all(node.path(&format!("proc/{process}/ns"))).unwrap();
            symlink("net:[4026531840]", node.path(&format!("proc/{process}/ns/net"))).unwrap();
        }
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

    fn setting(&self) -> Option<String> {
        let text = fs::read_to_string(self.path("etc/modprobe.d/ib_core.conf")).ok()?;
        Some(text.lines().filter(|line| !line.starts_with('#')).collect())
    }

    fn silkrail(&self, args: &str) -> CommandOutput {
        cli::silkrail(&format!("--root {} {args}", self.0.path().display()))
    }
}

fn modules() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    format!("lib/modules/{}", release.trim())
}

/// study case B10.
#[test]
fn the_kernels_command_line_takes_precedence_and_is_reported() {
    let node = ModeFixture::new();
    node.put("proc/cmdline", "quiet ib_core.netns_mode=1\n");
    let ran = node.silkrail("mode set exclusive --persist").ended(10);
    assert!(
        ran.stdout.contains("the kernel command line, ib_core.netns_mode overrides it with shared"),
        "{ran:?}"
    );
    assert_eq!(node.setting().as_deref(), Some("options ib_core netns_mode=0"));
}

/// study case B11.
#[test]
fn for_a_built_in_core_the_kernel_argument_is_reported_and_no_file_is_written() {
    let node = ModeFixture::new();
    node.put(&format!("{}/modules.builtin", modules()), "kernel/drivers/infiniband/core/ib_core.ko\n");
    let ran = node.silkrail("mode set exclusive --persist").ended(10);
    assert!(ran.stdout.contains("ib_core.netns_mode=0") && ran.stdout.contains("grubby"), "{ran:?}");
    assert_eq!(node.setting(), None, "a file would have no effect");
}

/// study case B12; modprobe reads the file when it loads the module.
#[test]
fn a_core_that_is_not_loaded_gets_its_mode_at_load() {
    let node = ModeFixture::new();
    let ran = node.silkrail("mode set exclusive --persist --json").ended(0).json();
    assert_eq!((&ran["outcome"], &ran["persisted"]["changed"]), (&json!("at-load"), &json!(true)));
    let without = node.silkrail("mode set exclusive").ended(4);
    assert!(without.stderr.contains("modprobe ib_core"), "{without:?}");
}

/// study case B13.
#[test]
fn a_node_without_rdma_is_an_error_and_nothing_is_changed() {
    let node = ModeFixture::new();
    node.put(&format!("{}/modules.dep", modules()), "kernel/fs/ext4.ko:\n");
    let ran = node.silkrail("mode set exclusive --persist").ended(4);
    assert!(ran.stderr.contains("RDMA not available"), "{ran:?}");
    assert!(!node.path("etc").exists());
}

/// study case B14.
#[test]
fn an_initramfs_that_may_have_the_old_setting_is_reported_with_the_command() {
    let node = ModeFixture::new();
    let release = modules().rsplit('/').next().unwrap().to_owned();
    node.put(&format!("boot/initrd.img-{release}"), "");
    node.put("usr/sbin/update-initramfs", "");
    let ran = node.silkrail("mode set exclusive --persist").ended(0);
    assert!(ran.stdout.contains("update-initramfs -u"), "{ran:?}");
}

/// study case B21.
#[test]
fn commands_are_refused_in_another_network_namespace() {
    let node = ModeFixture::new();
    fs::remove_file(node.path("proc/self/ns/net")).unwrap();
    symlink("net:[4026532999]", node.path("proc/self/ns/net")).unwrap();
    node.put("node.yaml", "rdmaMode: exclusive\n");
    let apply = format!("apply {}", node.path("node.yaml").display());
    for command in ["mode set exclusive --persist", &apply] {
        let ran = node.silkrail(command).ended(1);
        assert!(ran.stderr.contains("run it on the node, not in a container"), "{ran:?}");
    }
    assert_eq!(node.setting(), None);
}

/// study case B18: a mode that cannot be persisted is not set either.
#[test]
fn a_read_only_etc_is_reported() {
    let node = ModeFixture::new();
    fs::create_dir(node.path("etc")).unwrap();
    let etc = node.path("etc");
    let script = format!(
        "mount --bind -o ro {0} {0} && exec {1} --root {2} mode set exclusive --persist",
        etc.display(),
        cli::executable().display(),
        node.0.path().display()
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("etc/modprobe.d") && stderr.contains("Read-only file system"), "{stderr}");
}

/// study case B23.
#[test]
fn two_concurrent_calls_leave_one_complete_file() {
    let node = ModeFixture::new();
    std::thread::scope(|scope| {
        for mode in ["exclusive", "shared"] {
            let node = &node;
            scope.spawn(move || node.silkrail(&format!("mode set {mode} --persist")).ended(0));
        }
    });
    let setting = node.setting().unwrap();
    assert!(
        ["options ib_core netns_mode=0", "options ib_core netns_mode=1"].contains(&&*setting),
        "{setting}"
    );
    assert_eq!(fs::read_dir(node.path("etc/modprobe.d")).unwrap().count(), 1);
}

/// study case B20: no system call writes, creates or removes a file.
#[test]
fn a_dry_run_writes_nothing() {
    let node = ModeFixture::new();
    node.put("node.yaml", "rdmaMode: exclusive\n");
    let trace = node.path("trace");
    let output = Command::new("strace")
        .args([
            "-f",
            "-e",
            "trace=openat,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat",
        ])
        .arg("-o")
        .arg(&trace)
        .arg(cli::executable())
        .args(["--root", node.0.path().to_str().unwrap(), "apply", "--dry-run"])
        .arg(node.path("node.yaml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("would be set to exclusive"), "{output:?}");
    let calls = fs::read_to_string(&trace).unwrap();
    let writes = |line: &&str| {
        let opens = line.contains("openat(");
        !opens && !line.contains("+++")
            || line.contains("O_WRONLY")
            || line.contains("O_RDWR")
            || line.contains("O_CREAT")
    };
    let found: Vec<_> = calls.lines().filter(writes).collect();
    assert!(calls.contains("openat(") && found.is_empty(), "{found:?}");
    assert!(!Path::new(&node.path("etc")).exists());
}
