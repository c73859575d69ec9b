//! What keeps a namespace alive, on a node of files in a temporary directory.

use std::os::{
    fd::{AsFd, AsRawFd},
    unix::fs::symlink,
};

use tempfile::TempDir;

use super::*;

const POD: NetNsId = NetNsId::new(4, 4026532999);

/// A root directory with one process, which is in the host's namespace.
fn node() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let proc = root.path().join("proc");
    for process in ["1", "self"] {
        fs::create_dir_all(proc.join(process).join("ns")).unwrap();
        fs::create_dir_all(proc.join(process).join("task/1/ns")).unwrap();
        fs::write(proc.join(process).join("mountinfo"), "1 0 0:4 mnt:[7] /x rw - nsfs nsfs rw\n").unwrap();
    }
    symlink(INIT_PID_NS, proc.join("self/ns/pid")).unwrap();
    symlink("net:[4026531840]", proc.join("1/task/1/ns/net")).unwrap();
    root
}

fn reason_dead(root: &TempDir, path: &str) -> Option<String> {
    LiveNetns::scan(root.path()).unwrap().reason_dead(Path::new(path), POD)
}

#[test]
fn a_namespace_that_nothing_holds_is_dead() {
    let root = node();
    let why = reason_dead(&root, "/run/netns/a").unwrap();
    assert!(why.contains("net:[4026532999] is dead") && why.contains("/run/netns/a is gone"), "{why}");
    fs::create_dir_all(root.path().join("run/netns")).unwrap();
    fs::write(root.path().join("run/netns/a"), "").unwrap();
    assert!(reason_dead(&root, "/run/netns/a").unwrap().contains("is no longer a namespace file"));
    fs::remove_file(root.path().join("run/netns/a")).unwrap();
    symlink("/proc/self/ns/net", root.path().join("run/netns/a")).unwrap();
    assert!(reason_dead(&root, "/run/netns/a").unwrap().contains("/run/netns/a now refers to net:["));
}

#[test]
fn a_path_a_process_or_a_mount_keeps_a_namespace_alive() {
    let root = node();
    let own = NetNs::current().unwrap().id();
    symlink("/proc/thread-self/ns/net", root.path().join("netns")).unwrap();
    assert_eq!(
        LiveNetns::scan(root.path()).unwrap().liveness(Path::new("/netns"), own),
        NetnsLiveness::Named
    );

    fs::create_dir_all(root.path().join("proc/77/task/77/ns")).unwrap();
    symlink("net:[4026532999]", root.path().join("proc/77/task/77/ns/net")).unwrap();
    assert_eq!(reason_dead(&root, "/gone"), None);
    let life = LiveNetns::scan(root.path()).unwrap().liveness(Path::new("/gone"), POD);
    assert!(matches!(&life, NetnsLiveness::Held(how) if how.contains("/gone is gone, but")), "{life:?}");
    fs::remove_dir_all(root.path().join("proc/77")).unwrap();
    assert!(reason_dead(&root, "/gone").is_some());

    // A process in another namespace that has this one open.
    fs::create_dir_all(root.path().join("proc/78/fd")).unwrap();
    symlink("socket:[4026532999]", root.path().join("proc/78/fd/3")).unwrap();
    assert!(reason_dead(&root, "/gone").is_some());
    symlink("net:[4026532999]", root.path().join("proc/78/fd/4")).unwrap();
    assert_eq!(reason_dead(&root, "/gone"), None);
    // Opened by the path of a mount: the link text does not contain the inode number.
    fs::remove_file(root.path().join("proc/78/fd/4")).unwrap();
    symlink("/run/netns/gone", root.path().join("proc/78/fd/5")).unwrap();
    fs::create_dir_all(root.path().join("proc/78/fdinfo")).unwrap();
    let fdinfo = |ino| fs::write(root.path().join("proc/78/fdinfo/5"), format!("pos:\t0\nino:\t{ino}\n"));
    fdinfo(4026532998_u64).unwrap();
    assert!(reason_dead(&root, "/gone").is_some());
    fdinfo(4026532999).unwrap();
    assert_eq!(reason_dead(&root, "/gone"), None);
    fs::remove_dir_all(root.path().join("proc/78")).unwrap();

    for process in ["1", "self"] {
        let root = node();
        let line =
            b"28 25 0:9 / /a\xff rw - tmpfs tmpfs rw\n29 25 0:4 net:[4026532999] /run/a rw - nsfs nsfs rw\n";
        fs::write(root.path().join("proc").join(process).join("mountinfo"), line).unwrap();
        assert_eq!(reason_dead(&root, "/gone"), None, "mounted for {process}");
    }
}

#[test]
fn a_process_that_has_exited_is_ignored() {
    let root = node();
    fs::create_dir_all(root.path().join("proc/78/task/78/ns")).unwrap();
    fs::create_dir_all(root.path().join("proc/80")).unwrap();
    assert!(reason_dead(&root, "/gone").is_some());
}

#[test]
fn a_thread_whose_main_thread_has_exited_keeps_a_namespace_alive() {
    let root = node();
    let process = root.path().join("proc/77");
    // The kernel does not show the namespaces of a zombie.
    fs::create_dir_all(process.join("ns")).unwrap();
    fs::create_dir_all(process.join("task/77/ns")).unwrap();
    fs::create_dir_all(process.join("task/78/ns")).unwrap();
    symlink("net:[4026532999]", process.join("task/78/ns/net")).unwrap();
    assert_eq!(reason_dead(&root, "/gone"), None);
}

#[test]
fn a_mount_that_only_a_runtime_sees_keeps_a_namespace_alive() {
    let root = node();
    let line = "29 25 0:4 net:[4026532999] /run/netns/a rw - nsfs nsfs rw\n";
    let processes =
        [("50", "mnt:[1]", "/", ""), ("51", "mnt:[1]", "/chroot", ""), ("52", "mnt:[2]", "/", line)];
    for (process, namespace, of, mounts) in processes {
        let process = root.path().join("proc").join(process);
        fs::create_dir_all(process.join("ns")).unwrap();
        symlink(namespace, process.join("ns/mnt")).unwrap();
        symlink(of, process.join("root")).unwrap();
        fs::write(process.join("mountinfo"), mounts).unwrap();
    }
    assert_eq!(reason_dead(&root, "/run/netns/a"), None);
    let chroot = root.path().join("proc/51/mountinfo");
    fs::rename(root.path().join("proc/52/mountinfo"), chroot).unwrap();
    assert_eq!(
        reason_dead(&root, "/run/netns/a"),
        None,
        "a process with another root directory may have other mounts"
    );
}

#[test]
fn without_visibility_of_all_processes_there_is_no_result() {
    let root = node();
    assert!(sees_every_process(root.path()).unwrap());
    let pid = root.path().join("proc/self/ns/pid");
    for is in ["pid:[4026532123]", ""] {
        fs::remove_file(&pid).unwrap();
        symlink(if is.is_empty() { "x" } else { is }, &pid).unwrap();
        assert!(!sees_every_process(root.path()).unwrap());
        let error = LiveNetns::scan(root.path()).unwrap_err();
        assert!(matches!(error, NotOnNode::NotOnTheNode { .. }), "{error}");
        assert!(error.to_string().contains("run it on the node, not in a container"), "{error}");
    }
    fs::remove_file(&pid).unwrap();
    assert!(LiveNetns::scan(root.path()).is_err(), "without /proc");
}

#[test]
fn a_namespace_that_cannot_be_opened_is_overlooked_only_if_it_is_gone() {
    let root = node();
    let ns = root.path().join("proc/77/task/77/ns");
    fs::create_dir_all(&ns).unwrap();
    symlink("net:[4026532999]", ns.join("net")).unwrap();
    let living = LiveNetns::scan(root.path()).unwrap();
    assert!(living.require_all().unwrap().is_empty());
    // It exists, but opening it fails with ELOOP.
    symlink("net:[4026532999]", ns.join("net:[4026532999]")).unwrap();
    assert!(living.open_all().unwrap().is_empty());
    assert!(matches!(living.require_all(), Err(NotOnNode::Unreadable { .. })));
}

#[test]
fn an_unreadable_file_is_an_error() {
    let root = node();
    fs::remove_file(root.path().join("proc/1/mountinfo")).unwrap();
    let error = LiveNetns::scan(root.path()).unwrap_err();
    assert!(error.to_string().contains("proc/1/mountinfo"), "{error}");
    let root = node();
    fs::create_dir_all(root.path().join("proc/79/task/79/ns/net")).unwrap();
    assert!(matches!(LiveNetns::scan(root.path()), Err(NotOnNode::Unreadable { .. })));
}

/// Another namespace than that of the host; `None` without the privilege to create or enter one.
fn made() -> Option<NetNs> {
    let made = NetNs::make().and_then(NetNs::identified);
    assert!(made.is_ok() || !nix::unistd::geteuid().is_root(), "{made:?}");
    made.ok()
}

/// A path to an open namespace.
fn path(netns: &NetNs) -> PathBuf {
    format!("/proc/self/fd/{}", netns.as_fd().as_raw_fd()).into()
}

/// Makes a thread of process 77 hold a namespace: the link that the kernel shows, and the file that it opens.
fn held_by_a_thread(root: &TempDir, netns: &NetNs) {
    let ns = root.path().join("proc/77/task/77/ns");
    fs::create_dir_all(&ns).unwrap();
    symlink(netns.id().to_string(), ns.join("net")).unwrap();
    symlink(path(netns), ns.join(netns.id().to_string())).unwrap();
}

/// Makes process 77 have a namespace open.
fn held_by_a_file(root: &TempDir, netns: &NetNs, fdinfo: &str) {
    for (file, link) in [("fd/3", true), ("fdinfo/3", false)] {
        let file = root.path().join("proc/77").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        if link { symlink(path(netns), file).unwrap() } else { fs::write(file, fdinfo).unwrap() }
    }
}

#[test]
fn a_newer_namespace_with_the_same_inode_number_keeps_the_former_one_not_alive() {
    let Some(netns) = made() else { return };
    let own = netns.id();
    let former = NetNsId { cookie: own.cookie.map(|cookie| cookie + 1), ..own };
    let root = node();
    symlink(path(&netns), root.path().join("netns")).unwrap();
    let liveness = |path: &str, id| LiveNetns::scan(root.path()).unwrap().liveness(Path::new(path), id);
    let is_dead = |life: NetnsLiveness, part: &str| {
        assert!(matches!(&life, NetnsLiveness::Dead(why) if why.contains(part)), "{life:?}");
    };
    let is_held = |life: NetnsLiveness, part: &str| {
        assert!(matches!(&life, NetnsLiveness::Held(why) if why.contains(part)), "{life:?}");
    };
    assert_eq!(liveness("/netns", own), NetnsLiveness::Named);
    is_dead(liveness("/netns", former), "/netns refers to a newer namespace with the same inode number");
    held_by_a_thread(&root, &netns);
    is_held(liveness("/gone", own), "/proc/77/task/77/ns/net holds it");
    is_dead(liveness("/gone", former), "/proc/77/task/77/ns/net holds a newer namespace");
    is_held(liveness("/gone", NetNsId { cookie: None, ..own }), "which may be the same or a newer one");
    let open = |id| NetNs::find_held(root.path(), id).unwrap().map(|netns| netns.id());
    assert_eq!(open(own), Some(own));
    assert_eq!((open(former), open(NetNsId { cookie: None, ..own })), (None, None));
    assert!(NetNs::is_known_gone(former) && !NetNs::is_known_gone(own));
    fs::remove_dir_all(root.path().join("proc/77")).unwrap();
    held_by_a_file(&root, &netns, &format!("pos:\t0\nino:\t{}\n", own.ino));
    assert_eq!(open(own), Some(own));
    fs::remove_dir_all(root.path().join("proc/77")).unwrap();
    assert_eq!(open(own), None);
}

#[test]
fn each_namespace_is_opened_once_by_a_path_that_can_be_opened() {
    let Some(netns) = made() else { return };
    let (root, id) = (node(), netns.id());
    held_by_a_thread(&root, &netns);
    // Other threads have ended, and a file of the same process holds it too.
    for thread in ["1", "78"] {
        let ns = root.path().join("proc/77/task").join(thread).join("ns");
        fs::create_dir_all(&ns).unwrap();
        symlink(id.to_string(), ns.join("net")).unwrap();
    }
    held_by_a_file(&root, &netns, &format!("pos:\t0\nino:\t{}\n", id.ino));
    let living = LiveNetns::scan(root.path()).unwrap();
    for opened in [living.open_all(), living.require_all()] {
        assert_eq!(opened.unwrap().iter().map(NetNs::id).collect::<Vec<_>>(), [id]);
    }
}

/// Opening a FIFO lets a process continue that waits to write to it; opening a watchdog starts it.
#[test]
fn a_path_that_leads_to_another_file_by_now_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut writer = std::process::Command::new("sh");
    let mut writer = writer.args(["-c", "exec > \"$0\"", fifo.to_str().unwrap()]).spawn().unwrap();
    for _ in 0..50 {
        assert!(matches!(NetNs::open_untrusted(&fifo), Err(Error::NotANamespace { .. })));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(writer.try_wait().unwrap().is_none(), "the FIFO was opened");
    writer.kill().and_then(|()| writer.wait()).unwrap();
    let own = NetNs::current().unwrap().id();
    assert_eq!(NetNs::open_untrusted(Path::new("/proc/thread-self/ns/net")).unwrap().id(), own);
}

/// A pod may start and end processes all the time.
#[test]
fn a_namespace_does_not_count_as_gone_because_what_held_it_has_ended_or_refuses_to_be_opened() {
    let Some(netns) = made() else { return };
    let (root, id) = (node(), netns.id());
    let thread = root.path().join("proc/77/task/77/ns/net");
    fs::create_dir_all(thread.parent().unwrap()).unwrap();
    symlink(id.to_string(), &thread).unwrap();
    assert!(matches!(NetNs::find_held(root.path(), id), Err(NotOnNode::Changing { .. })));
    // A link to itself refuses to be opened.
    symlink(id.to_string(), thread.with_file_name(id.to_string())).unwrap();
    assert!(matches!(NetNs::find_held(root.path(), id), Err(NotOnNode::Unreadable { .. })));
    assert!(!NetNs::is_known_gone(id));
}

/// Only one of the paths has to be openable.
#[test]
fn a_namespace_is_opened_although_another_path_of_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let [refused, gone, well] = ["refused", "gone", "well"].map(|name| dir.path().join(name));
    symlink("refused", &refused).unwrap();
    symlink("/proc/thread-self/ns/net", &well).unwrap();
    let opened =
        |paths: &[&PathBuf]| open_first(paths.iter().copied(), |_| true).map(|found| found.is_some());
    assert!(opened(&[&refused, &gone, &well]).unwrap());
    assert!(!opened(&[&gone, &gone]).unwrap());
    assert!(matches!(opened(&[&refused, &gone]), Err(NotOnNode::Unreadable { path, .. }) if path == refused));
}

/// A pod chooses a part of the text, such as the name of a TUN interface (`tun_chr_show_fdinfo` in drivers/net/tun.c).
#[test]
fn bytes_that_are_no_text_hide_no_open_namespace() {
    let Some(netns) = made() else { return };
    let root = node();
    held_by_a_file(&root, &netns, "");
    let mut bytes = b"pos:\t0\niff:\t\xff\n".to_vec();
    bytes.extend(format!("ino:\t{}\n", netns.id().ino).into_bytes());
    fs::write(root.path().join("proc/77/fdinfo/3"), bytes).unwrap();
    assert!(NetNs::find_held(root.path(), netns.id()).unwrap().is_some());
}

/// A file system whose server is gone would block stat(2), or fail the whole scan.
#[test]
fn a_file_of_another_file_system_is_not_examined_without_an_inode_number_in_fdinfo() {
    let Some(netns) = made() else { return };
    let (root, id) = (node(), netns.id());
    held_by_a_file(&root, &netns, "pos:\t0\nmnt_id:\t31\n");
    let process = root.path().join("proc/77");
    let mounted = |lines: &str| fs::write(process.join("mountinfo"), lines).unwrap();
    let held = || NetNs::find_held(root.path(), id).map(|held| held.is_some());
    mounted(&format!("30 25 0:9 / /mnt rw - nfs server:/ rw\n31 25 0:4 {id} /a rw - nsfs nsfs rw\n"));
    assert!(held().unwrap());
    mounted("31 25 0:9 / /mnt rw - nfs server:/ rw\n");
    fs::remove_file(process.join("fd/3")).unwrap();
    symlink("/dev/null/unreachable", process.join("fd/3")).unwrap();
    assert!(!held().unwrap());
}

/// Before Linux 5.14, fdinfo has no inode number.
#[test]
fn an_open_namespace_is_recognized_without_an_inode_number_in_fdinfo() {
    let Some(netns) = made() else { return };
    let root = node();
    held_by_a_file(&root, &netns, "pos:\t0\n");
    let is_dead =
        || LiveNetns::scan(root.path()).unwrap().reason_dead(Path::new("/gone"), netns.id()).is_some();
    assert!(!is_dead());
    fs::remove_file(root.path().join("proc/77/fdinfo/3")).unwrap();
    assert!(is_dead(), "it was closed between two readings");
}
