//! Processes, names of pods and cgroups, read from files of a node.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

use kubepods::{Error, PodCgroup, PodName, PodNames, PodUid, ProcessOwner, Processes, RdmaLimit, RdmaUsage};
use tempfile::TempDir;

const UID: &str = "8a2f0c3e-1b4d-4e5f-9a6b-7c8d9e0f1a2b";
const OTHER: &str = "11111111-2222-3333-4444-555555555555";
const HASH: &str = "0b1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f";

fn node() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn write(root: &TempDir, path: &str, text: &str) {
    let path = root.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn uid(text: &str) -> PodUid {
    text.parse().unwrap()
}

fn name(namespace: &str, name: &str) -> PodName {
    PodName { namespace: namespace.into(), name: name.into() }
}

mod processes {
    use super::*;

    #[test]
    fn a_process_belongs_to_a_pod_or_the_node_or_has_ended() {
        let root = node();
        write(&root, "proc/7/cgroup", &format!("0::/kubepods/burstable/pod{UID}/x\n"));
        write(&root, "proc/8/cgroup", "0::/system.slice/sshd.service\n");
        write(&root, "proc/9/cgroup", "0::/kubepods/\u{1}\n");
        let processes = Processes::at(root.path());
        let Some(ProcessOwner::Pod(found)) = processes.owner(7).unwrap() else { panic!("not in a pod") };
        assert_eq!(found.pod, uid(UID));
        assert_eq!(processes.membership(7).unwrap(), Some(found));
        assert_eq!(processes.owner(8).unwrap(), Some(ProcessOwner::Node));
        assert_eq!(processes.owner(9).unwrap(), Some(ProcessOwner::Node));
        assert_eq!(processes.owner(10).unwrap(), None);
        for pid in [8, 10] {
            assert_eq!(processes.membership(pid).unwrap(), None);
        }
        write(&root, "proc/8/comm", "sshd: a\n");
        assert_eq!((processes.command(8).as_deref(), processes.command(10)), (Some("sshd: a"), None));
    }

    #[test]
    fn a_name_of_any_bytes_is_read() {
        let root = node();
        write(&root, "proc/7/cgroup", "");
        let text = [format!("0::/kubepods/pod{UID}/").as_bytes(), b"\xff\xfe\n"].concat();
        fs::write(root.path().join("proc/7/cgroup"), text).unwrap();
        assert_eq!(Processes::at(root.path()).membership(7).unwrap().unwrap().pod, uid(UID));
    }

    #[test]
    fn an_unreadable_process_is_an_error_and_has_not_ended() {
        let root = node();
        fs::create_dir_all(root.path().join("proc/7/cgroup")).unwrap();
        let error = Processes::at(root.path()).owner(7).unwrap_err();
        assert!(
            matches!(&error, Error::Unreadable { path, .. } if path.ends_with("proc/7/cgroup")),
            "{error}"
        );
    }

    #[test]
    fn a_thread_is_read_as_its_process_until_it_ends() {
        let processes = Processes::at(Path::new("/"));
        let ((started_tx, started), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
        let thread = thread::spawn(move || {
            started_tx.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
            let _ = ended.recv();
        });
        let tid = started.recv().unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert_ne!(tid, std::process::id());
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        assert_eq!(processes.cgroup(tid).unwrap(), Some(own));
        drop(end);
        thread.join().unwrap();
        // The kernel removes the thread from /proc shortly after join returns.
        while processes.cgroup(tid).unwrap().is_some() {
            thread::yield_now();
        }
        assert_eq!(processes.owner(tid).unwrap(), None);
    }

    #[test]
    fn a_process_that_was_waited_for_has_ended() {
        let processes = Processes::at(Path::new("/"));
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(processes.owner(cat.id()).unwrap().is_some());
        drop(cat.stdin.take());
        cat.wait().unwrap();
        assert_eq!(processes.owner(cat.id()).unwrap(), None);
    }

    #[test]
    fn all_processes_are_visible_only_in_the_nodes_pid_namespace() {
        for (namespace, sees) in [("pid:[4026531836]", true), ("pid:[4026532123]", false)] {
            let root = node();
            fs::create_dir_all(root.path().join("proc/self/ns")).unwrap();
            symlink(namespace, root.path().join("proc/self/ns/pid")).unwrap();
            assert_eq!(Processes::at(root.path()).sees_every_process().unwrap(), sees, "{namespace}");
        }
        assert!(!Processes::at(node().path()).sees_every_process().unwrap(), "a /proc without this process");
        let root = node();
        write(&root, "proc/self/ns/pid", "not a symlink");
        let error = Processes::at(root.path()).sees_every_process().unwrap_err();
        assert!(error.to_string().starts_with("cannot read /"), "{error}");
    }
}

mod names {
    use super::*;

    fn read(root: &TempDir) -> PodNames {
        let mut names = PodNames::at(root.path());
        names.read().unwrap();
        names
    }

    fn log_dir(root: &TempDir, name: &str) {
        fs::create_dir_all(root.path().join("var/log/pods").join(name)).unwrap();
    }

    #[test]
    fn a_pods_log_directory_contains_its_name() {
        let root = node();
        log_dir(&root, &format!("default_trainer-0.a_{UID}"));
        log_dir(&root, &format!("kube-system_kube-apiserver-node1_{HASH}"));
        let names = read(&root);
        assert_eq!(names.get(&uid(UID)), Some(&name("default", "trainer-0.a")));
        assert_eq!(names.get(&uid(HASH)), Some(&name("kube-system", "kube-apiserver-node1")), "a static pod");
        assert_eq!(names.get(&uid(OTHER)), None);
    }

    #[test]
    fn other_entries_are_ignored() {
        let root = node();
        let bad = [
            "lost+found".to_owned(),
            format!("default_{UID}"),
            format!("default_a_b_{UID}"),
            format!("default_a_{UID}_"),
            format!("_a_{UID}"),
            format!("default__{UID}"),
            format!("Default_a_{UID}"),
            format!("default_-a_{UID}"),
            format!("default_a._{UID}"),
            format!("default_\"\n_{UID}"),
            format!("default_a b_{UID}"),
            "default_a_123".to_owned(),
        ];
        for dir in &bad {
            log_dir(&root, dir);
        }
        let bytes: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"default_\xff_x");
        fs::create_dir_all(root.path().join("var/log/pods").join(bytes)).unwrap();
        assert_eq!(read(&root).iter().count(), 0);
        log_dir(&root, &format!("default_a_{UID}"));
        assert_eq!(read(&root).iter().count(), 1);
    }

    #[test]
    fn a_pod_of_the_same_name_is_another_one() {
        let root = node();
        log_dir(&root, &format!("default_a_{UID}"));
        let mut names = read(&root);
        log_dir(&root, &format!("default_a_{OTHER}"));
        assert_eq!(names.get(&uid(OTHER)), None, "not read again automatically");
        names.read().unwrap();
        assert_eq!(names.get(&uid(OTHER)), names.get(&uid(UID)));
        fs::remove_dir(root.path().join(format!("var/log/pods/default_a_{UID}"))).unwrap();
        names.read().unwrap();
        assert_eq!(names.get(&uid(UID)), None);
        assert_eq!(names.get(&uid(OTHER)), Some(&name("default", "a")));
    }

    #[test]
    fn an_inserted_pod_is_known_until_the_next_read() {
        let mut names = read(&node());
        names.insert(uid(UID), name("default", "a"));
        assert_eq!(names.iter().collect::<Vec<_>>(), [(&uid(UID), &name("default", "a"))]);
        names.read().unwrap();
        assert_eq!(names.get(&uid(UID)), None);
    }

    #[test]
    fn a_missing_directory_means_no_pods_and_an_unreadable_one_keeps_the_former_pods() {
        let root = node();
        let mut names = read(&root);
        assert_eq!(names.iter().count(), 0);
        names.insert(uid(UID), name("default", "a"));
        write(&root, "var/log/pods", "a file");
        assert!(
            matches!(names.read(), Err(Error::Unreadable { path, .. }) if path.ends_with("var/log/pods"))
        );
        assert_eq!(names.iter().count(), 1);
    }
}

mod cgroup {
    use super::*;

    /// Returns the pod's cgroup directory, relative to `sys/fs/cgroup`.
    fn found(root: &TempDir, text: &str) -> Option<String> {
        let cgroup = PodCgroup::find(root.path(), text)?;
        let below = cgroup.dir().strip_prefix(root.path().join("sys/fs/cgroup")).unwrap();
        Some(below.to_str().unwrap().to_owned())
    }

    fn slice() -> String {
        format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"))
    }

    #[test]
    fn a_pods_cgroup_is_the_parent_of_its_containers() {
        let (slice, root) = (slice(), node());
        let systemd = format!("kubepods.slice/kubepods-burstable.slice/{slice}");
        let cgroupfs = format!("kubepods/besteffort/pod{OTHER}");
        for dir in [&systemd, &cgroupfs] {
            fs::create_dir_all(root.path().join("sys/fs/cgroup").join(dir).join("x")).unwrap();
        }
        let cases = [
            (format!("0::/{systemd}/cri-containerd-x.scope\n"), &systemd),
            (format!("0::/../../{slice}/cri-containerd-x.scope\n"), &systemd),
            (format!("0::/../../../../{systemd}/x\n"), &systemd),
            (format!("0::/{cgroupfs}/x\n"), &cgroupfs),
            (format!("0::/../../../../{cgroupfs}/x\n"), &cgroupfs),
            (format!("0::/../../../besteffort/pod{OTHER}/x\n"), &cgroupfs),
            (format!("0::/../../pod{OTHER}/x\n"), &cgroupfs),
            (format!("4:memory:/other\n0::/{cgroupfs}\n"), &cgroupfs),
        ];
        for (text, dir) in cases {
            assert_eq!(found(&root, &text).as_ref(), Some(dir), "{text}");
        }
        let none = [
            "0::/\n".to_owned(),
            "0::/system.slice/sshd.service\n".to_owned(),
            format!("0::/kubepods/pod{OTHER}/x\n"),
            format!("4:memory:/{cgroupfs}/x\n"),
            format!("0::/system.slice/containerd.service/{slice}:cri-containerd:x\n"),
        ];
        for text in none {
            assert_eq!(found(&root, &text), None, "{text}");
        }
        assert_eq!(PodCgroup::find(root.path(), &format!("0::/{cgroupfs}/x")).unwrap().pod(), &uid(OTHER));
    }

    #[test]
    fn the_hierarchy_is_that_of_the_rdma_controller() {
        let root = node();
        let pod = format!("kubepods/pod{UID}");
        for mount in ["rdma", "unified"] {
            fs::create_dir_all(root.path().join("sys/fs/cgroup").join(mount).join(&pod)).unwrap();
        }
        for controllers in ["rdma", "rdma,misc", "misc,rdma"] {
            let text = format!("9:{controllers}:/{pod}/x\n5:cpu,cpuacct:/{pod}/x\n0::/{pod}/x\n");
            assert_eq!(found(&root, &text), Some(format!("rdma/{pod}")), "{controllers}");
        }
        let text = format!("5:cpu,cpuacct:/{pod}/x\n0::/{pod}/x\n");
        assert_eq!(found(&root, &text), Some(format!("unified/{pod}")));
    }

    #[test]
    fn usage_and_limits_are_read_where_the_controller_is_enabled() {
        let root = node();
        let pod = format!("sys/fs/cgroup/kubepods/pod{UID}");
        write(&root, &format!("{pod}/cgroup.procs"), "");
        let cgroup = PodCgroup::find(root.path(), &format!("0::/kubepods/pod{UID}/x\n")).unwrap();
        assert_eq!(cgroup.rdma_usage().unwrap(), None);
        assert_eq!(cgroup.rdma_limits().unwrap(), None);

        write(&root, &format!("{pod}/rdma.current"), "rxe0 hca_handle=1 hca_object=4 \n");
        write(&root, &format!("{pod}/rdma.max"), "rxe0 hca_handle=max hca_object=100 \n");
        let device = || "rxe0".to_owned();
        let usage = RdmaUsage { device: device(), handles: 1, objects: 4 };
        let limit = RdmaLimit { device: device(), handles: None, objects: Some(100) };
        assert_eq!(cgroup.rdma_usage().unwrap(), Some(vec![usage]));
        assert_eq!(cgroup.rdma_limits().unwrap(), Some(vec![limit]));

        fs::remove_file(root.path().join(&pod).join("rdma.max")).unwrap();
        fs::create_dir(root.path().join(&pod).join("rdma.max")).unwrap();
        assert!(matches!(cgroup.rdma_limits(), Err(Error::Unreadable { .. })));
    }
}
