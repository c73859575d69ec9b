//! Missing devices, on a node of files in a temporary directory.

use std::fs;

use rdma::{Device, Guid};
use tempfile::TempDir;

use super::*;
use crate::{DeviceInfo, PodInfo, RawCounters};

const POD: NetNsId = NetNsId::new(4, 4026532999);
const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

struct DiscoveryTest {
    root: TempDir,
    discovery: NetnsDiscovery,
    devices: NameFilter,
    entries: Vec<Entry>,
    known: HashSet<NetNsId>,
}

impl DiscoveryTest {
    /// A node with these RDMA devices, in whichever network namespaces.
    fn new(names: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        for (number, name) in names.iter().enumerate() {
            let dir = root.path().join(format!("sys/class/infiniband_verbs/uverbs{number}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("ibdev"), format!("{name}\n")).unwrap();
        }
        fs::create_dir_all(root.path().join("sys/class/infiniband")).unwrap();
        Self {
            root,
            discovery: NetnsDiscovery::default(),
            devices: NameFilter::default(),
            entries: Vec::new(),
            known: HashSet::new(),
        }
    }

    fn move_to_host(&self, name: &str) {
        fs::create_dir_all(self.root.path().join("sys/class/infiniband").join(name)).unwrap();
    }

    fn move_from_host(&self, name: &str) {
        fs::remove_dir(self.root.path().join("sys/class/infiniband").join(name)).unwrap();
    }

    /// Searches, and returns the missing devices.
    fn missing(&mut self) -> Vec<String> {
        let (sysfs, host) = (Sysfs::at(self.root.path().join("sys")), NetNs::current().unwrap());
        let node = NodeView {
            root: self.root.path(),
            sysfs: &sysfs,
            host: &host,
            devices: &self.devices,
            entries: &self.entries,
        };
        self.discovery.search(&node, &self.known).unwrap();
        let missing = self.discovery.failed.iter().flat_map(|failed| failed.missing.iter().cloned());
        let missing: Vec<String> = missing.collect();
        assert_eq!(self.discovery.unseen(), missing.len());
        assert_eq!(self.discovery.error().is_some(), !missing.is_empty());
        missing
    }

    fn attach(&mut self, device: &str, mode: AttachMode) {
        let mut entry = Entry::new("rdma", "a@net1".parse().unwrap());
        (entry.rdma.ibdev, entry.rdma.mode) = (Some(device.to_owned()), mode);
        self.entries.push(entry);
    }
}

fn reading(name: &str, place: NetNsId, on_node: bool) -> DeviceReading {
    DeviceReading {
        place,
        on_node,
        pod: None,
        process: None,
        device: Device {
            index: 0,
            name: name.into(),
            node_guid: Guid(0),
            sys_image_guid: Guid(0),
            fw_version: None,
            node_type: None,
            protocol: None,
            ports: 1,
            adaptive_moderation: None,
        },
        facts: Arc::new(DeviceInfo::default()),
        ports: Vec::new(),
        counters: RawCounters::default(),
        traffic_class: None,
        resources: None,
        objects: None,
        counter_sets: None,
    }
}

#[test]
fn a_device_is_missing_until_it_is_somewhere() {
    let mut test = DiscoveryTest::new(&["mlx5_0", "mlx5_1", "mlx5_2"]);
    test.move_to_host("mlx5_0");
    assert_eq!(test.missing(), ["mlx5_1", "mlx5_2"]);
    test.move_to_host("mlx5_1");
    assert_eq!(test.missing(), ["mlx5_2"]);
    test.move_to_host("mlx5_2");
    assert!(test.missing().is_empty(), "the error is over");
    test.move_from_host("mlx5_1");
    assert_eq!(test.missing(), ["mlx5_1"]);
    // One is read in a namespace of the pod map, and one is of a pod whose namespace is being created.
    test.move_from_host("mlx5_0");
    test.known.insert(POD);
    test.discovery.note(&[reading("mlx5_0", POD, false), reading("mlx5_2", NetNsId::new(4, 1), true)]);
    assert_eq!(test.missing(), ["mlx5_1"]);
    test.attach("mlx5_1", AttachMode::Exclusive);
    assert!(test.missing().is_empty());
    test.known.clear();
    assert_eq!(test.missing(), ["mlx5_0"], "its pod has ended");
}

#[test]
fn an_excluded_device_is_not_missing_and_one_that_pods_share_is() {
    let mut test = DiscoveryTest::new(&["mlx5_0", "rxe0"]);
    test.devices.exclude = vec!["rxe*".into()];
    test.attach("mlx5_0", AttachMode::Shared);
    assert_eq!(test.missing(), ["mlx5_0"]);
    let mut without_rdma = DiscoveryTest::new(&[]);
    assert!(without_rdma.missing().is_empty());
}

#[test]
fn the_same_missing_devices_are_searched_again_after_a_while_only() {
    let mut test = DiscoveryTest::new(&["mlx5_0", "mlx5_1"]);
    test.missing();
    let searched_at = |test: &DiscoveryTest| test.discovery.failed.as_ref().unwrap().at;
    let mut last = searched_at(&test);
    let mut searches = |test: &mut DiscoveryTest| {
        test.missing();
        std::mem::replace(&mut last, searched_at(test)) != last
    };
    assert!(!searches(&mut test), "nothing has changed");
    test.move_to_host("mlx5_1");
    assert!(searches(&mut test), "other devices are missing");
    let failed = test.discovery.failed.as_mut().unwrap();
    failed.at = failed.at.checked_sub(RETRY_INTERVAL).unwrap();
    assert!(searches(&mut test));
}

#[test]
fn the_error_names_the_privilege_only_if_processes_are_hidden() {
    let mut discovery = NetnsDiscovery::default();
    for (hidden_processes, reason, part) in [
        (0, ErrorReason::Unreadable, "no process and no file"),
        (
            1,
            ErrorReason::Permission,
            "1 processes may not be examined: run silkraild with the capability CAP_SYS_PTRACE",
        ),
    ] {
        let missing = ["mlx5_0".to_owned(), "mlx5_1".to_owned()].into();
        discovery.failed = Some(FailedSearch { missing, at: Instant::now(), hidden_processes });
        let error = discovery.error().unwrap();
        assert_eq!((error.collector, error.reason), (Collector::Devices, reason));
        assert!(error.what.contains(part) && error.what.contains("(mlx5_0, mlx5_1)"), "{}", error.what);
    }
}

#[test]
fn a_found_namespace_is_kept_while_it_has_a_device_and_the_pod_map_does_not_have_it() {
    let mut test = DiscoveryTest::new(&[]);
    let found = |id: NetNsId, pid| FoundNetNs { id, path: "/proc/7/ns/net".into(), pid };
    let other = NetNsId::new(4, 4026532998);
    let mut kept = |readings: &[DeviceReading], known: &[NetNsId]| {
        test.discovery.found = [POD, other].map(|id| (id, found(id, None))).into();
        test.discovery.note(readings);
        test.known = known.iter().copied().collect();
        test.missing();
        let mut kept: Vec<u64> = test.discovery.found.keys().map(|id| id.ino).collect();
        kept.sort_unstable();
        kept
    };
    let both = [reading("mlx5_0", POD, false), reading("mlx5_1", other, false)];
    assert_eq!(kept(&both, &[]), [other.ino, POD.ino]);
    assert_eq!(kept(&both, &[POD]), [other.ino]);
    assert_eq!(kept(&both[..1], &[]), [POD.ino]);
}

#[test]
fn a_found_namespace_belongs_to_the_pod_or_the_process_in_it() {
    let root = tempfile::tempdir().unwrap();
    for (pid, cgroup) in
        [(7, format!("0::/kubepods/pod{UID}/x\n")), (8, "0::/slurmstepd.scope/job_17\n".into())]
    {
        let process = root.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&process).unwrap();
        fs::write(process.join("cgroup"), cgroup).unwrap();
        fs::write(process.join("comm"), "train\n").unwrap();
    }
    let (processes, pods) = (Processes::at(root.path()), PodDirectory::at(root.path(), Path::new("/run")));
    let process = ProcessInfo { command: "train".into(), cgroup: "/slurmstepd.scope/job_17".into() };
    let pod = PodInfo { namespace: String::new(), name: UID.into(), uid: Some(UID.into()) };
    for (pid, pod, process) in [
        (Some(7), Some(pod), None),
        (Some(8), None, Some(process)),
        (Some(9), None, None),
        (None, None, None),
    ] {
        let found = FoundNetNs { id: POD, path: "/proc/7/ns/net".into(), pid };
        let discovery = NetnsDiscovery { found: [(POD, found)].into(), ..NetnsDiscovery::default() };
        let targets = discovery.targets(&processes, &pods);
        let [target] = &targets[..] else { panic!("{targets:?}") };
        assert_eq!((target.id, target.is_node()), (POD, false));
        assert_eq!((target.pod.as_deref(), target.process.as_deref()), (pod.as_ref(), process.as_ref()));
    }
}
