//! The file for node_exporter's textfile collector.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use silkrail_tests::{
    daemon::{Daemon, executable, run},
    rxe::RxeProgram,
    scrape::Scrape,
};
use testkit::wait_until;

use crate::DaemonFixture;

/// A name that makes the file large: a reader would notice if it were written in place.
fn long_name() -> String {
    "n".repeat(100_000)
}

fn file(node: &DaemonFixture) -> PathBuf {
    node.0.path().join("rdma.prom")
}

/// silkraild, which writes the file a hundred times per second.
fn command(node: &DaemonFixture, before: &[&str]) -> Command {
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(executable()).args(node.options());
    command.args(["--kubernetes", "off", "--output.interval", "0.01", "--output.textfile"]).arg(file(node));
    command
}

/// Adds a long node name, and discards the log.
fn with_long_name(command: &mut Command) -> &mut Command {
    command
        .args(["--listen", "127.0.0.1:0", "--health.listen", "127.0.0.1:0", "--node-name", &long_name()])
        .stderr(Stdio::null())
}

/// Reads the file, which must be complete, and returns its inode number.
fn read(path: &Path) -> Option<u64> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{error}"),
    };
    let length = text.len();
    assert!(text.ends_with('\n'), "{length} bytes");
    let scrape = Scrape::parse(&text);
    assert_eq!(scrape.names(), ["rdma_exporter_build_info", "rdma_exporter_snapshot_timestamp_seconds"]);
    fs::metadata(path).ok().map(|meta| meta.ino())
}

#[test]
fn the_file_is_always_complete_and_readable_by_every_user() {
    let node = DaemonFixture::new();
    // Also with the strictest umask.
    let mut command = command(&node, &["sh", "-c", "umask 077 && exec \"$0\" \"$@\""]);
    let _daemon = RxeProgram::spawn(with_long_name(&mut command));
    let mut seen = BTreeSet::new();
    wait_until("the file was replaced", || {
        seen.extend(read(&file(&node)));
        seen.len() > 1
    });
    assert!((0..300).all(|_| read(&file(&node)).is_some()));
    assert_eq!(fs::metadata(file(&node)).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn the_file_is_replaced_by_rename_and_never_opened_for_writing() {
    let node = DaemonFixture::new();
    let trace = node.0.path().join("trace");
    let strace = ["strace", "-D", "-f", "-o", trace.to_str().unwrap(), "-e", "trace=/^(open|creat|rename)"];
    let daemon = Daemon::spawn(&mut command(&node, &strace));
    wait_until("the file exists", || file(&node).exists());
    drop(daemon);
    let calls = || fs::read_to_string(&trace).unwrap();
    wait_until("strace has recorded the exit", || calls().contains("+++ killed"));
    let calls = calls();
    let of_file: Vec<_> = calls.lines().filter(|line| line.contains("/rdma.prom\"")).collect();
    assert!(!of_file.is_empty(), "{calls}");
    assert!(of_file.iter().all(|line| line.contains(" rename")), "{of_file:?}");
}

/// A file system that hangs, like that of an unreachable file server: no process serves its FUSE requests.
const HANGS: &str = "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 hangs \"$0\" && \
                     exec \"$@\"";

/// Whether one of tokio's threads is in uninterruptible sleep (state D).
fn hangs(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut statuses = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    statuses.any(|status| status.starts_with("Name:\ttokio") && status.contains("State:\tD"))
}

#[test]
fn sigterm_ends_it_with_success_while_the_disk_hangs() {
    let node = DaemonFixture::new();
    let disk = node.0.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", HANGS]).arg(&disk).arg(executable()).args(node.options());
    command.args(["--kubernetes", "off", "--output.textfile"]).arg(disk.join("rdma.prom"));
    let mut daemon = Daemon::spawn(&mut command);
    wait_until("it writes", || hangs(daemon.writer()));
    assert!(Command::new("kill").arg(daemon.pid().to_string()).status().unwrap().success());
    wait_until("it has ended", || daemon.has_ended());
    assert_eq!(daemon.ended(), Some(0));
}

#[test]
fn killed_at_any_moment_it_leaves_a_complete_file_or_none() {
    let node = DaemonFixture::new();
    for moment in 0..30_u32 {
        let program = RxeProgram::spawn(with_long_name(&mut command(&node, &["env"])));
        if moment % 3 > 0 {
            wait_until("it writes", || fs::read_dir(node.root()).unwrap().count() > 0);
        }
        std::thread::sleep(std::time::Duration::from_millis(u64::from(moment / 2)));
        drop(program);
        read(&file(&node));
        let left = fs::read_dir(node.root()).unwrap().flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left.filter(|name| name.to_str().unwrap().ends_with(".prom")).collect();
        assert!(left.len() <= 1, "node_exporter reads every .prom file: {left:?}");
        if moment % 3 > 0 {
            let _ = fs::remove_file(file(&node));
        }
    }
}

#[test]
fn an_invalid_web_configuration_is_reported_in_the_file() {
    let node = DaemonFixture::new();
    let web = node.0.path().join("web.yaml");
    fs::write(
        &web,
        "basic_auth_users: {alice: $2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW}\n",
    )
    .unwrap();
    let _daemon = Daemon::spawn(command(&node, &["env"]).arg("--web.config.file").arg(&web));
    let is_reported = |value: &str| {
        let text = fs::read_to_string(file(&node)).unwrap_or_default();
        text.lines().any(|line| {
            line.starts_with("rdma_exporter_web_config_last_reload_successful{") && line.ends_with(value)
        })
    };
    wait_until("the configuration is valid", || is_reported(" 1"));
    fs::write(&web, "basic_auth_users: {alice: x}\n").unwrap();
    wait_until("the configuration is invalid", || is_reported(" 0"));
}

#[test]
fn a_missing_directory_is_an_error() {
    let node = DaemonFixture::new();
    let path = node.0.path().join("missing/rdma.prom");
    let listen = ["--listen", "127.0.0.1:0", "--health.listen", "127.0.0.1:0"];
    let options = [&listen[..], &["--kubernetes", "off", "--output.textfile"]].concat();
    let output = run(&[&node.options()[..], &options, &[path.to_str().unwrap()]].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for part in [path.to_str().unwrap(), "No such file or directory", "does the directory exist"] {
        assert!(stderr.contains(part), "{stderr}");
    }
}
