//! `silkrail install` and `silkrail uninstall`, with the built plugins in directories of this machine.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};
use silkrail_tests::{cli, rail::RailNode};
use testkit::{Observe, Share, TestNode};

use crate::install_fixture::{InstallFixture, write_program};

const NAMES: [&str; 9] =
    ["ib-sriov", "ifacer", "ipoib", "ipvlan", "macvlan", "rdma", "silkrail-ipam", "spiderpool", "sriov"];
const GO: &str = "#!/bin/sh\necho a Go plugin\n";

/// Calls VERSION as a runtime does.
fn version(plugin: &Path) -> std::io::Result<bool> {
    let mut child = Command::new(plugin)
        .env_clear()
        .env("CNI_COMMAND", "VERSION")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(child.wait()?.success())
}

#[test]
fn plugins_are_installed_once_and_a_second_run_touches_nothing() {
    let node = InstallFixture::new();
    node.install("--dry-run").ended(0);
    assert!(node.files().is_empty());
    let report = node.install("--json").ended(0).json();
    assert_eq!(report["files"].as_array().unwrap().len(), NAMES.len());
    assert!(report["files"].as_array().unwrap().iter().all(|file| file["action"] == "install"), "{report}");
    assert!(report["next"].to_string().contains("silkrail apply"), "{report}");
    assert_eq!(node.names(), NAMES);
    let inodes: Vec<_> = NAMES.map(|name| fs::metadata(node.bin(name)).unwrap().ino()).into();
    assert!(
        inodes.iter().all(|inode| *inode == inodes[0]),
        "the IPAM plugin would need a process of its own"
    );
    assert!(version(&node.bin("macvlan")).unwrap());
    let before = node.files();
    let again = node.install("").ended(0);
    let nothing = format!("nothing to do: all {} files are up to date", NAMES.len());
    assert!(again.stdout.contains(&nothing), "{again:?}");
    assert_eq!(node.files(), before);
}

/// Stops the callers when it is dropped.
struct CallerGuard<'a>(&'a AtomicBool);

impl Drop for CallerGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_call_fails_while_its_plugin_is_replaced() {
    let installations = if share().is_all() { 25 } else { 8 };
    let node = InstallFixture::new();
    node.install("").ended(0);
    let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _ends = CallerGuard(&stop); // also when an installation fails
        let callers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        assert!(version(&node.bin("macvlan")).unwrap());
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for _ in 0..installations {
            let before = fs::metadata(node.bin("macvlan")).unwrap().ino();
            let calls_before = calls.load(Ordering::Relaxed);
            node.rebuild();
            let report = node.install("--json").ended(0).json();
            assert!(
                report["files"].as_array().unwrap().iter().all(|file| file["action"] == "upgrade"),
                "{report}"
            );
            assert_ne!(fs::metadata(node.bin("macvlan")).unwrap().ino(), before);
            while calls.load(Ordering::Relaxed) == calls_before && !callers.iter().any(|c| c.is_finished()) {
                thread::yield_now();
            }
        }
    });
    assert!(calls.into_inner() >= installations);
}

/// The system calls that change the file system, and fsync.
const CHANGES: [&str; 8] = [
    "?mkdir,?mkdirat",
    "write",
    "?chmod,?fchmod,?fchmodat",
    "fsync",
    "?link,?linkat",
    "?rename,?renameat",
    "?unlink,?unlinkat",
    "?symlink,?symlinkat",
];

fn share() -> Share {
    Share::of_tests_of(&["pkg/installer", "tests/tests/netns"])
}

/// Kills a command at a share of these system calls in turn, each time on a node that `make` prepares; the last run of
/// each is not killed. `after` is called after each kill.
fn killed_at_each_change(node: &InstallFixture, command: &str, make: impl Fn(), after: impl Fn(&str)) {
    let mut rounds = 0;
    for call in CHANGES {
        for nth in share().steps(&format!("{} {call}", command.split(" ").next().unwrap())) {
            make();
            let inject = format!("--inject={call}:signal=KILL:when={nth}");
            let trace = format!("--trace={call}");
            let output = Command::new("strace")
                .args(["-qq", "--output=/dev/null", &trace, &inject])
                .arg(cli::executable())
                .args(node.args(command).split_whitespace())
                .output()
                .unwrap();
            match output.status.code() {
                Some(0) => break,
                Some(other) => panic!("{call} {nth}: {other}: {}", String::from_utf8_lossy(&output.stderr)),
                None => after(&format!("{command}: killed at {call} {nth}")),
            }
            rounds += 1;
        }
    }
    let least = if share().is_all() { 20 } else { 3 };
    assert!(rounds > least, "only {rounds} rounds");
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}

/// A node with a Go plugin macvlan, an earlier build of ipvlan, a symbolic link sriov, and no rdma; then a new build.
fn partially_installed() -> InstallFixture {
    let node = InstallFixture::new();
    node.install("--names ipvlan").ended(0);
    write_program(&node.bin("macvlan"), GO);
    symlink("multicall", node.bin("sriov")).unwrap();
    node.rebuild();
    copy(&node.path("root"), &node.path("template"));
    node
}

const CHOSEN: &str = "--names macvlan,ipvlan,sriov,rdma";

#[test]
fn an_installation_that_is_killed_at_any_point_leaves_complete_files_and_is_finished_by_the_next() {
    let node = partially_installed();
    let (old, new) = (fs::read(node.bin("ipvlan")).unwrap(), fs::read(node.source()).unwrap());
    let command = format!("install --from {} {CHOSEN}", node.path("from").display());
    let make = || copy(&node.path("template"), &node.path("root"));
    killed_at_each_change(&node, &command, make, |when| {
        println!("{when}");
        for name in node.names().iter().filter(|name| !name.starts_with('.')) {
            let Ok(content) = fs::read(node.bin(name)) else { continue }; // a dangling symbolic link
            assert!(
                [GO.as_bytes(), &old, &new].contains(&content.as_slice()),
                "{when}: {name} is incomplete"
            );
        }
        node.install(CHOSEN).ended(0);
        assert_eq!(node.names(), ["ipvlan", "macvlan", "rdma", "sriov"], "{when}");
        for name in node.names() {
            assert!(fs::read(node.bin(&name)).unwrap() == new, "{when}: {name}");
        }
        node.uninstall("").ended(0);
        assert_eq!(node.names(), ["macvlan", "sriov"], "{when}");
        assert_eq!(fs::read_to_string(node.bin("macvlan")).unwrap(), GO, "{when}");
        assert_eq!(fs::read_link(node.bin("sriov")).unwrap(), Path::new("multicall"), "{when}");
    });
}

#[test]
fn a_removal_that_is_killed_at_any_point_leaves_complete_files_and_is_finished_by_the_next() {
    let node = partially_installed();
    node.install(CHOSEN).ended(0);
    copy(&node.path("root"), &node.path("template"));
    let new = fs::read(node.source()).unwrap();
    let make = || copy(&node.path("template"), &node.path("root"));
    killed_at_each_change(&node, "uninstall", make, |when| {
        println!("{when}");
        if let Ok(content) = fs::read(node.bin("macvlan")) {
            assert!(content == new || content == GO.as_bytes(), "{when}");
        } else {
            panic!("{when}: macvlan does not exist");
        }
        node.uninstall("").ended(0);
        assert_eq!(node.names(), ["macvlan", "sriov"], "{when}");
        assert_eq!(fs::read_to_string(node.bin("macvlan")).unwrap(), GO, "{when}");
        assert!(!node.path("root/var/lib/silkrail").exists(), "{when}");
    });
}

/// Checks that it fails with status 1 and this text, and that the directory is unchanged.
fn refused(node: &InstallFixture, options: &str, says: &[&str]) {
    let before = node.files();
    let ran = node.install(options).ended(1);
    assert!(says.iter().all(|text| ran.stderr.contains(text)), "{ran:?}");
    let bin = |files: Vec<(PathBuf, u64, u32, u64, i64)>| -> Vec<_> {
        files.into_iter().filter(|(path, ..)| path.starts_with(node.bin(""))).collect()
    };
    assert_eq!(bin(node.files()), bin(before));
    assert!(!node.path("root/etc").exists(), "no configuration is written");
}

#[test]
fn the_error_of_an_unusable_destination_has_a_remedy() {
    let machine = TestNode::new(); // in its own mount namespace
    let node = InstallFixture::new();
    refused(&node, "--to /opt/missing", &["/opt/missing", "does not exist: create it"]);
    symlink("bin", node.path("root/opt/cni/link")).unwrap();
    refused(&node, "--to /opt/cni/link/", &["is a symbolic link to bin"]);
    let bin = node.bin("");
    let mount = |options: &str| {
        machine.run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", bin.to_str().unwrap()]);
    };
    mount("ro");
    refused(&node, "", &["is on a read-only file system", "specify a writable directory"]);
    refused(&node, "--dry-run", &["is on a read-only file system"]);
    machine.run("umount", &[&bin]);
    mount("noexec");
    refused(&node, "", &["does not run", "noexec"]);
    machine.run("umount", &[&bin]);
    mount("size=1m");
    refused(&node, "", &["No space left on device"]);
    machine.run("umount", &[&bin]);
    node.install("").ended(0);
}

#[test]
fn a_source_that_does_not_run_here_replaces_nothing() {
    let node = InstallFixture::new();
    write_program(&node.bin("macvlan"), GO);
    let mut content = fs::read(node.source()).unwrap();
    fs::remove_file(node.source()).unwrap();
    refused(&node, "", &["no silkrail-cni in", "--from target/dist"]);
    content[18..20].copy_from_slice(&22_u16.to_le_bytes());
    fs::write(node.source(), &content).unwrap();
    refused(&node, "", &["is for s390x, and this node is"]);
    fs::write(node.source(), &content[..64]).unwrap();
    refused(&node, "", &["this node is"]);
    write_program(&node.source(), "#!/bin/sh\nkill -9 $$\n");
    refused(&node, "", &["does not run correctly on this node", "signal: 9"]);
    assert_eq!(fs::read_to_string(node.bin("macvlan")).unwrap(), GO);
}

#[test]
fn plugins_can_be_installed_beside_those_of_the_same_name() {
    let node = InstallFixture::new();
    write_program(&node.bin("macvlan"), GO);
    node.install("--names prefixed-only").ended(0);
    assert_eq!(fs::read_to_string(node.bin("macvlan")).unwrap(), GO);
    assert_eq!(node.names().len(), 1 + NAMES.len());
    assert!(node.names().iter().all(|name| name == "macvlan" || name.starts_with("silkrail-")));
    assert!(version(&node.bin("silkrail-macvlan")).unwrap());
    node.install("--names macvlan,bridge").ended(2);
}

#[test]
fn a_newer_release_is_replaced_by_force_only() {
    let node = InstallFixture::new();
    write_program(&node.bin("macvlan"), "#!/bin/sh\necho silkrail-cni 99.0.0\n");
    let ran = node.install("").ended(3);
    assert!(ran.stderr.contains("has release 99.0.0") && ran.stderr.contains("--force"), "{ran:?}");
    assert_eq!(node.names(), ["macvlan"]);
    node.install("--force").ended(0);
    assert!(version(&node.bin("macvlan")).unwrap());
}

/// As in an init container that drops all capabilities.
#[test]
fn root_needs_no_capability() {
    let node = InstallFixture::new();
    write_program(&node.bin("macvlan"), GO);
    let run = |command: &str| {
        let output = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"])
            .arg(cli::executable())
            .args(node.args(command).split_whitespace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&format!("install --from {}", node.path("from").display()));
    assert_eq!(node.names(), NAMES);
    run("uninstall");
    assert_eq!(node.names(), ["macvlan"]);
}

#[test]
fn plugins_are_not_removed_while_an_attachment_exists() {
    let rail = RailNode::new();
    let node = InstallFixture::new();
    node.install("").ended(0);
    fs::create_dir(node.path("root/run")).unwrap();
    symlink(rail.node.state_dir(), node.path("root/run/silkrail")).unwrap();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let before = node.files();
    let ran = node.uninstall("").ended(3);
    assert!(ran.stderr.contains("1 attachment(s)") && ran.stderr.contains("@net1"), "{ran:?}");
    assert_eq!(node.files(), before);
    call.del().done();
    let report: Value = node.uninstall("--json").ended(0).json();
    assert!(report["files"].as_array().unwrap().iter().all(|file| file["outcome"] == "removed"), "{report}");
    assert!(node.names().is_empty());
    let ran = node.uninstall("").ended(0);
    assert!(ran.stdout.contains("nothing to remove"), "{ran:?}");
}

#[test]
fn a_file_changed_since_the_installation_is_kept_and_reported() {
    let node = InstallFixture::new();
    node.install("").ended(0);
    fs::remove_file(node.bin("macvlan")).unwrap();
    write_program(&node.bin("macvlan"), GO);
    let ran = node.uninstall("").ended(3);
    assert!(ran.stdout.contains("it was changed after the installation"), "{ran:?}");
    assert_eq!(node.names(), ["macvlan"]);
}

#[test]
fn the_executable_of_spiderpool_is_replaced_on_request_only() {
    let node = InstallFixture::new();
    fs::write(node.bin("spiderpool"), GO).unwrap();
    fs::write(node.bin("macvlan"), GO).unwrap();
    let first = format!("{} of {} files installed", NAMES.len() - 1, NAMES.len());
    for expected in [first.as_str(), "nothing to do: all other files are up to date"] {
        let ran = node.install("").ended(0);
        assert!(ran.stdout.contains(expected) && ran.stdout.contains("left alone"), "{}", ran.stdout);
        assert!(ran.stdout.contains("--replace spiderpool"), "{}", ran.stdout);
        assert_eq!(fs::read_to_string(node.bin("spiderpool")).unwrap(), GO);
        assert_ne!(fs::read(node.bin("macvlan")).unwrap(), GO.as_bytes());
    }
    node.install("--replace spiderpool").ended(0);
    assert_ne!(fs::read(node.bin("spiderpool")).unwrap(), GO.as_bytes());
    // An upgrade of Silkrail's own executable does not need the option.
    node.rebuild();
    let ran = node.install("").ended(0);
    let all = format!("{0} of {0} files installed", NAMES.len());
    assert!(ran.stdout.contains(&all), "{}", ran.stdout);
    node.uninstall("").ended(0);
    assert_eq!(fs::read_to_string(node.bin("spiderpool")).unwrap(), GO);
}

#[test]
fn uninstall_does_not_change_files_that_install_kept() {
    let node = InstallFixture::new();
    fs::write(node.bin("spiderpool"), GO).unwrap();
    node.install("").ended(0);
    node.uninstall("").ended(0);
    assert_eq!(node.names(), ["spiderpool"]);
    assert_eq!(fs::read_to_string(node.bin("spiderpool")).unwrap(), GO);
}
