use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use tempfile::TempDir;

use super::{GoStateDir, GoStateFile, boot::BootClock};

struct Dir {
    dir: TempDir,
    state: GoStateDir,
}

fn dir() -> Dir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("sriov/pci")).unwrap();
    let boot = SystemTime::now() - 365 * Duration::from_secs(24 * 3600);
    let seconds = boot.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for (file, content) in [("proc/stat", format!("btime {seconds}\n")), ("sys/kernel", String::new())] {
        let path = dir.path().join("node").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    File::open(dir.path().join("node/sys")).unwrap().set_modified(boot).unwrap();
    let clock = BootClock::below(&dir.path().join("node"));
    let state = GoStateDir { root: dir.path().to_owned(), clock };
    Dir { dir, state }
}

impl Dir {
    /// Writes a file that is `age` older than now.
    fn write(&self, name: &str, content: &str, age: Duration) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
        path
    }
}

/// A short deadline: no other process holds a lock.
fn soon() -> Instant {
    Instant::now()
}

const NOW: Duration = Duration::ZERO;
const AGES: Duration = Duration::from_secs(50 * 365 * 24 * 3600);

#[test]
fn a_file_is_read_and_removed() {
    let dir = dir();
    let path =
        dir.write("sriov/c-net1", r#"{"deviceID": "0000:af:00.2", "OrigVfState": {"MTU": 1500}}"#, NOW);
    let file = dir.state.find("sriov", "c-net1", soon()).unwrap().unwrap();
    assert_eq!(file.fields().object("origvfstate").unwrap().unwrap().integer("mtu").unwrap(), Some(1500));
    let waiting = File::open(&path).unwrap();
    file.remove().unwrap();
    assert!(!path.exists());
    let read = GoStateFile::read(path, waiting).unwrap();
    assert!(read.is_none(), "another operation has removed it during the wait for its lock");
    assert!(dir.state.find("sriov", "c-net1", soon()).unwrap().is_none());
}

#[test]
fn a_file_that_cannot_be_parsed_is_kept() {
    let dir = dir();
    for (name, content) in
        [("empty", ""), ("list", "[]"), ("torn", "{\"deviceID\": \"0000"), ("bytes", "\0\x01")]
    {
        let path = dir.write(&format!("sriov/{name}"), content, NOW);
        assert!(dir.state.find("sriov", name, soon()).unwrap().is_none());
        assert_eq!(fs::read_to_string(path).unwrap(), content);
    }
    assert!(dir.state.find("sriov", "pci", soon()).unwrap().is_none(), "a directory is not a file");
    assert!(
        dir.state.find("rdma", &"x".repeat(300), soon()).unwrap().is_none(),
        "nor is a name too long for one"
    );
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let dir = dir();
    let target = dir.write("elsewhere", r#"{"deviceID": "0000:af:00.2"}"#, NOW);
    symlink(&target, dir.dir.path().join("sriov/c-net1")).unwrap();
    symlink(&target, dir.dir.path().join("sriov/pci/0000:af:00.2")).unwrap();
    assert!(dir.state.find("sriov", "c-net1", soon()).unwrap().is_none());
    assert!(dir.state.allocation("0000:af:00.2".parse().unwrap()).is_none());
    assert!(target.exists());
}

#[test]
fn a_file_from_before_the_boot_is_removed_unread() {
    let dir = dir();
    let path = dir.write("sriov/c-net1", r#"{"deviceID": "0000:af:00.2"}"#, AGES);
    assert!(dir.state.find("sriov", "c-net1", soon()).unwrap().is_none());
    assert!(!path.exists());
}

#[test]
fn the_newest_file_of_a_device_takes_effect() {
    let dir = dir();
    let minute = Duration::from_secs(60);
    dir.write("sriov/old-net1", r#"{"deviceID": "0000:af:00.2"}"#, 2 * minute);
    dir.write("sriov/other-net1", r#"{"deviceID": "0000:af:00.3"}"#, NOW);
    for age in 3..9 {
        dir.write(&format!("sriov/older-{age}"), r#"{"deviceID": "0000:af:00.2"}"#, age * minute);
    }
    let old = dir.state.find("sriov", "old-net1", soon()).unwrap().unwrap();
    assert!(!old.is_outdated());
    dir.write("sriov/new-net1", r#"{"DeviceID": "0000:AF:00.2"}"#, minute);
    assert!(old.is_outdated());
    let newest = dir.state.newest_about("sriov", "0000:af:00.2", soon()).unwrap().unwrap();
    assert!(newest.path.ends_with("new-net1") && !newest.is_outdated());
    assert!(dir.state.newest_about("sriov", "0000:af:00.4", soon()).unwrap().is_none());
    // The time of a file may be that of the other: then neither is known to be the newer one.
    let written = fs::metadata(&old.path).unwrap().modified().unwrap();
    File::options().append(true).open(&newest.path).unwrap().set_modified(written).unwrap();
    assert!(old.is_outdated());
}

#[test]
fn only_a_later_file_of_a_device_means_that_it_was_attached_since() {
    let dir = dir();
    let (minute, now) = (Duration::from_secs(60), SystemTime::now());
    fs::create_dir(dir.dir.path().join("ib-sriov")).unwrap();
    dir.write("sriov/other-net1", r#"{"deviceID": "0000:af:00.3"}"#, NOW);
    dir.write("ib-sriov/c-net1", r#"{"deviceID": "0000:AF:00.2"}"#, minute);
    let since = |age: Duration| dir.state.is_attached_since("0000:af:00.2", now.checked_sub(age).unwrap());
    assert!(since(2 * minute) && !since(minute / 2));
    for plugin in ["sriov", "ib-sriov", "rdma"] {
        let dir = self::dir();
        fs::create_dir_all(dir.dir.path().join(plugin)).unwrap();
        let path = dir.write(&format!("{plugin}/c-net1"), r#"{"deviceID": "0000:af:00.2"}"#, minute);
        let is_since = |since| dir.state.is_attached_since("0000:af:00.2", since);
        let written = fs::metadata(path).unwrap().modified().unwrap();
        assert!(is_since(written - minute) && !is_since(written), "{plugin}");
    }
}

#[test]
fn an_allocation_is_valid_while_its_namespace_exists() {
    let dir = dir();
    let vf = "0000:af:00.2".parse().unwrap();
    assert!(dir.state.allocation(vf).is_none());
    for dead in ["/nonexistent/ns", "", "/proc/self/status", "/proc/self/ns/net"] {
        dir.write("sriov/pci/0000:af:00.2", dead, NOW);
        assert!(!dir.state.allocation(vf).unwrap().is_alive(), "{dead:?}");
    }
    let mut pod = Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let netns = format!("/proc/{}/ns/net", pod.id());
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    while fs::read_link(&netns).unwrap() == own {
        std::thread::yield_now();
    }
    for (age, expected) in [(NOW, true), (AGES, false)] {
        dir.write("sriov/pci/0000:af:00.2", &format!("{netns}\n"), age);
        let allocation = dir.state.allocation(vf).unwrap();
        assert_eq!((allocation.is_alive(), allocation.netns()), (expected, Path::new(&netns)));
    }
    let relative = format!("{}{netns}", "../".repeat(20));
    assert!(fs::metadata(&relative).is_ok());
    dir.write("sriov/pci/0000:af:00.2", &relative, NOW);
    assert!(!dir.state.allocation(vf).unwrap().is_alive(), "it depends on the directory of the process");
    drop(pod.stdin.take());
    pod.wait().unwrap();
    dir.state.allocation(vf).unwrap().remove().unwrap();
    assert!(dir.state.allocation(vf).is_none());
}
