//! What the reader cannot do, with all capabilities of root, and what it can.

use std::{
    fs::{self, File},
    io::{self, IoSlice},
    os::unix::net::UnixStream,
    process::Command,
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    sys::{
        signal::{Signal, kill},
        stat::{Mode, SFlag, mknod},
        uio::{RemoteIoVec, process_vm_writev},
    },
    unistd::{Pid, chroot},
};
use sysfs::DetachedSysfs;

use super::*;

/// Denies the calling thread only: other tests run in the same process.
fn restrict() {
    seccomp::install(rules([1, 1]).unwrap(), FilteredThreads::Calling).unwrap();
}

fn opens(path: &str) -> io::Result<()> {
    File::options().write(true).open(path).map(drop)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the calls must fail")]
fn it_cannot_do_what_equals_root() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "text").unwrap();
    let [of_mounts, of_net] = ["mnt", "net"].map(|kind| File::open(format!("/proc/self/ns/{kind}")).unwrap());
    let init = Pid::from_raw(1);
    let errno = |result: nix::Result<()>| result.map_err(io::Error::from);
    let no_path = None::<&str>;
    let attempts = || {
        restrict();
        [
            ("write memory", opens("/proc/1/mem")),
            (
                "write memory by a call",
                errno(
                    process_vm_writev(init, &[IoSlice::new(b"x")], &[RemoteIoVec { base: 8, len: 1 }])
                        .map(drop),
                ),
            ),
            ("write a file of root", opens("/proc/1/root/etc/passwd")),
            ("set core_pattern", opens("/proc/sys/kernel/core_pattern")),
            ("bind a driver", opens("/sys/bus/pci/drivers_probe")),
            ("mount", errno(mount(Some("proc"), dir.path(), Some("proc"), MsFlags::empty(), no_path))),
            ("enter a mount namespace", errno(setns(&of_mounts, CloneFlags::CLONE_NEWNS))),
            ("enter any namespace", errno(setns(&of_net, CloneFlags::empty()))),
            ("make a namespace", errno(unshare(CloneFlags::CLONE_NEWNS))),
            ("make a device", errno(mknod(&dir.path().join("node"), SFlag::S_IFBLK, Mode::S_IRUSR, 0x700))),
            ("change the root directory", errno(chroot(dir.path()))),
            ("run a program", Command::new("/bin/true").spawn().map(drop)),
            ("send a signal", errno(kill(Pid::this(), Signal::SIGCONT))),
            ("connect to a socket of root", UnixStream::connect("/run/systemd/private").map(drop)),
            ("create a file", File::create(dir.path().join("new")).map(drop)),
            ("remove a file", fs::remove_file(&file)),
        ]
    };
    for (what, result) in thread::scope(|scope| scope.spawn(attempts).join().unwrap()) {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EPERM), "{what}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it returns by the end of the thread")]
fn it_can_enter_network_namespaces_and_mounts_their_sysfs_read_only() {
    let read = || {
        restrict();
        setns(File::open("/proc/self/ns/net").unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
        let mounted = DetachedSysfs::mount().unwrap();
        let read = fs::read_dir(mounted.sysfs().root().join("class/net")).unwrap().count();
        let probe = mounted.sysfs().root().join("bus/pci/drivers_probe");
        (read, File::options().write(true).open(probe).unwrap_err().raw_os_error())
    };
    let (links, written) = thread::scope(|scope| scope.spawn(read).join().unwrap());
    assert!(links > 0);
    assert_eq!(written, Some(libc::EPERM));
}
