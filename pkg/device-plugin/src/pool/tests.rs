//! Resources with the VFs of a card.

mod pods;

use std::fs;

use base64::{Engine, prelude::BASE64_STANDARD};
use kubelet_api::deviceplugin::DeviceSpec;
use kubelet_checkpoint::{KubeletCheckpoint, KubeletDirectory};
use podmap::PodMap;
use prost::Message;
use serde_json::json;
use sysfs::Sysfs;

use super::*;
use crate::{Config, DeviceUse, Fabric, PortState, device::fixture::vf};

struct Card {
    root: tempfile::TempDir,
}

impl Card {
    /// Creates a node on which the devices of `vf("p0", index)` exist, each with its character device.
    fn new(vfs: u32) -> Self {
        let card = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(card.root.path().join("sys/class/misc/rdma_cm")).unwrap();
        (0..vfs).for_each(|index| card.add(index, index + 2));
        card
    }

    fn function(&self, index: u32) -> PathBuf {
        self.root.path().join(format!("sys/bus/pci/devices/0000:af:00.{}", index + 2))
    }

    /// Adds a VF with the number of its character device.
    fn add(&self, index: u32, number: u32) {
        let verbs = self.function(index).join(format!("infiniband_verbs/uverbs{number}"));
        fs::create_dir_all(&verbs).unwrap();
        fs::write(verbs.join("ibdev"), "mlx5_2\n").unwrap();
        self.give_back(index);
    }

    /// Moves the RDMA device of a VF to a pod.
    fn give_away(&self, index: u32) {
        fs::remove_dir_all(self.function(index).join("infiniband")).unwrap();
    }

    fn give_back(&self, index: u32) {
        fs::create_dir_all(self.function(index).join("infiniband/mlx5_2")).unwrap();
    }

    fn remove(&self, index: u32) {
        fs::remove_dir_all(self.function(index)).unwrap();
    }

    fn reader(&self) -> NodeReader {
        NodeReader {
            root: self.root.path().into(),
            sysfs: Sysfs::at(self.root.path().join("sys")),
            pod_map: PodMap::below(self.root.path()),
            kubelet: KubeletDirectory(self.root.path().join("kubelet")),
            fabric: Fabric::default(),
        }
    }

    fn pool(&self, file: &str) -> ResourcePool {
        let config = Config::parse(file).unwrap();
        assert_eq!(config.findings, []);
        let options = PoolOptions {
            node: self.reader(),
            has_management: false,
            policy: PfPolicy::Spread,
            hold: Duration::from_secs(5),
            pod_files: None,
            device_info: DeviceInfoDirectory::create(self.root.path().join("dp")),
        };
        ResourcePool::new(config.resources.into_iter().next().unwrap(), options)
    }
}

const EXCLUSIVE: &str = "resourceList: [{resourceName: vf, resourcePrefix: a.io, selectors: {isRdma: true}}]";
const SHARED: &str = "configList: [{resourceName: hca, rdmaHcaMax: 3, selectors: {ifNames: [p0]}}]";

fn nodes(answer: &ContainerAllocateResponse) -> Vec<&str> {
    answer.devices.iter().map(|device| device.host_path.strip_prefix("/dev/infiniband/").unwrap()).collect()
}

fn texts(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn facts(pool: &ResourcePool) -> Vec<(String, bool, Option<u32>)> {
    let list = pool.devices().borrow().clone();
    list.into_iter().map(|device| (device.id, device.is_healthy, device.numa_node)).collect()
}

#[test]
fn the_kubelet_is_told_changes_only() {
    let card = Card::new(2);
    let (pool, start) = (card.pool(EXCLUSIVE), Instant::now());
    let mut lists = pool.devices();
    let devices = [vf("p0", 0), vf("p0", 1)];
    assert_eq!(pool.update(start, &devices, &NodeState::default()), []);
    assert!(lists.has_changed().unwrap());
    lists.mark_unchanged();
    let expected = |healthy| {
        vec![("0000:af:00.2".to_owned(), true, Some(1)), ("0000:af:00.3".to_owned(), healthy, Some(1))]
    };
    assert_eq!(facts(&pool), expected(true));
    pool.update(start, &devices, &NodeState::default());
    assert!(!lists.has_changed().unwrap());
    let down = NodeDevice { port: Some(PortState { name: "p0".into(), is_up: false }), ..vf("p0", 1) };
    let changes = pool.update(start, &[vf("p0", 0), down], &NodeState::default());
    assert_eq!((changes.len(), changes[0].id.as_str()), (1, "0000:af:00.3"));
    assert_eq!(facts(&pool), expected(false));
    pool.update(start, &devices, &NodeState::default());
    assert_eq!((facts(&pool), pool.next_change()), (expected(false), Some(start + Duration::from_secs(5))));
    pool.update(start + Duration::from_secs(5), &devices, &NodeState::default());
    assert_eq!(facts(&pool), expected(true));
}

#[test]
fn a_container_gets_devices_as_they_are_now() {
    let card = Card::new(2);
    let pool = card.pool(EXCLUSIVE);
    pool.update(Instant::now(), &[vf("p0", 0), vf("p0", 1)], &NodeState::default());
    let id = texts(&["0000:af:00.3"]);
    assert_eq!(nodes(&pool.allocate(&id).unwrap()), ["uverbs3", "rdma_cm"]);
    pool.check(&id).unwrap();
    // Its number changes, as when its driver is bound again.
    card.remove(1);
    card.add(1, 7);
    let error = pool.check(&id).unwrap_err().to_string();
    assert!(error.contains("uverbs7") && error.contains("uverbs3: delete the pod"), "{error}");
    assert_eq!(nodes(&pool.allocate(&id).unwrap()), ["uverbs7", "rdma_cm"]);
    pool.check(&id).unwrap();
    card.remove(1);
    let both = pool.allocate(&texts(&["0000:af:00.2", "0000:af:00.3"])).unwrap_err().to_string();
    let expected = "a.io/vf: 0000:af:00.3 does not exist on this node";
    assert_eq!(both, expected, "a container must not start with a part of its devices");
    assert_eq!(pool.allocate(&id).unwrap_err().to_string(), expected);
    assert_eq!(pool.check(&id).unwrap_err().to_string(), expected);
}

#[test]
fn a_container_gets_what_the_selector_of_its_device_says_and_devices_need_no_more_to_be_healthy() {
    let card = Card::new(2);
    let pool = card.pool(
        "resourceList: [{resourceName: vf, resourcePrefix: a.io, selectors: [\
         {isRdma: true, pciAddresses: ['0000:af:00.2']}, {needVhostNet: true, pciAddresses: ['0000:af:00.3']}]}]",
    );
    let without = NodeDevice { rdma: Vec::new(), char_devices: Vec::new(), ..vf("p0", 1) };
    let given = |id: &str| {
        let answer = pool.allocate(&texts(&[id])).unwrap();
        answer.devices.into_iter().map(|device| device.host_path).collect::<Vec<_>>()
    };
    for second in [vf("p0", 1), without] {
        if second.rdma.is_empty() {
            fs::remove_dir_all(card.function(1).join("infiniband_verbs")).unwrap();
        }
        pool.update(Instant::now(), &[vf("p0", 0), second], &NodeState::default());
        assert_eq!(pool.unhealthy(), []);
        assert_eq!(given("0000:af:00.2"), ["/dev/infiniband/uverbs2", "/dev/infiniband/rdma_cm"]);
        assert_eq!(given("0000:af:00.3"), ["/dev/vhost-net", "/dev/net/tun"]);
    }
    let first = NodeDevice { rdma: Vec::new(), char_devices: Vec::new(), selector: Some(0), ..vf("p0", 0) };
    pool.update(Instant::now(), &[first], &NodeState::default());
    assert_eq!(pool.unhealthy(), [("0000:af:00.2".to_owned(), "no_rdma")], "no selector matches any more");
}

/// The kubelet passes the IDs in any order, and devices of an init container to the next ones again.
#[test]
fn the_devices_of_a_container_are_checked_in_any_order() {
    let card = Card::new(3);
    let pool = card.pool(EXCLUSIVE);
    let all = ["0000:af:00.2", "0000:af:00.3", "0000:af:00.4"];
    pool.allocate(&texts(&all[..1])).unwrap();
    pool.allocate(&texts(&all)).unwrap();
    pool.check(&texts(&all[..1])).unwrap();
    pool.check(&texts(&[all[2], all[0], all[1]])).unwrap();
    card.remove(2);
    card.add(2, 9);
    assert!(pool.check(&texts(&all)).unwrap_err().to_string().contains("uverbs9"));
    pool.check(&texts(&all[..2])).unwrap();
}

/// Returns the kubelet's allocation of devices to a container, with the answer of the device plugin.
fn allocated(ids: &[String], answer: &ContainerAllocateResponse) -> NodeState {
    allocated_from("a.io/vf", ids, answer)
}

fn allocated_from(resource: &str, ids: &[String], answer: &ContainerAllocateResponse) -> NodeState {
    let directory = tempfile::tempdir().unwrap();
    let answer = BASE64_STANDARD.encode(answer.encode_to_vec());
    let entry = json!({"PodUID": "one", "ResourceName": resource, "DeviceIDs": ids, "AllocResp": answer});
    let file = json!({"Data": {"PodDeviceEntries": [entry]}}).to_string();
    fs::write(directory.path().join("kubelet_internal_checkpoint"), file).unwrap();
    let checkpoint = KubeletCheckpoint::read(&KubeletDirectory(directory.path().to_owned())).unwrap();
    NodeState { device_use: DeviceUse::new(&[], "boot", Some(checkpoint)), ..NodeState::default() }
}

#[test]
fn a_process_that_has_just_started_knows_earlier_allocations_from_the_kubelet() {
    let vhost = EXCLUSIVE.replace("isRdma: true", "isRdma: true, needVhostNet: true");
    let card = Card::new(2);
    let ids = texts(&["0000:af:00.2", "0000:af:00.3"]);
    card.pool(EXCLUSIVE).check(&ids).unwrap(); // the kubelet's checkpoint is unknown
    let answer = card.pool(&vhost).allocate(&ids).unwrap();
    assert_eq!(answer.devices.len(), 5);
    let restarted = card.pool(&vhost);
    restarted.update(Instant::now(), &[vf("p0", 0), vf("p0", 1)], &allocated(&ids, &answer));
    restarted.check(&ids).unwrap();
    // As after a reboot.
    card.remove(1);
    card.add(1, 7);
    let error = restarted.check(&ids).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "the container was given /dev/infiniband/uverbs2 /dev/infiniband/uverbs3: delete the pod"
        ),
        "{error}"
    );
}

#[test]
fn a_container_keeps_shared_devices_that_are_no_longer_selected_and_management_devices_are_checked() {
    let card = Card::new(2);
    for number in [2, 3] {
        fs::create_dir_all(card.root.path().join(format!("sys/class/infiniband_verbs/uverbs{number}")))
            .unwrap();
    }
    let pool = card.pool(SHARED);
    pool.update(Instant::now(), &[vf("p0", 0), vf("p0", 1)], &NodeState::default());
    let slot = texts(&["0"]);
    let answer = pool.allocate(&slot).unwrap();
    let given = allocated_from("rdma/hca", &slot, &answer);
    let restarted = card.pool(SHARED);
    restarted.update(Instant::now(), &[vf("p0", 0)], &given);
    restarted.check(&slot).unwrap();

    let id = texts(&["0000:af:00.2"]);
    let mut answer = card.pool(EXCLUSIVE).allocate(&id).unwrap();
    let management = "/dev/infiniband/umad9".to_owned();
    answer.devices.push(DeviceSpec { host_path: management, ..DeviceSpec::default() });
    let restarted = card.pool(EXCLUSIVE);
    restarted.update(Instant::now(), &[vf("p0", 0)], &allocated(&id, &answer));
    assert!(restarted.check(&id).unwrap_err().to_string().contains("umad9"), "the device of another one now");
}

#[test]
fn containers_share_devices_up_to_a_number() {
    let card = Card::new(2);
    let pool = card.pool(SHARED);
    assert_eq!(facts(&pool), []);
    let error = pool.allocate(&texts(&["0"])).unwrap_err().to_string();
    assert_eq!(error, "rdma/hca: it has no healthy device on this node");
    pool.update(Instant::now(), &[vf("p0", 0)], &NodeState::default());
    assert_eq!(facts(&pool), (0..3).map(|slot| (slot.to_string(), true, Some(1))).collect::<Vec<_>>());
    assert_eq!(nodes(&pool.allocate(&texts(&["0", "2"])).unwrap()), ["uverbs2", "rdma_cm"]);
    assert_eq!(pool.preferred(&texts(&["0", "1"]), &[], 1).unwrap(), None);
    // With devices of two nodes, the resource has none.
    let other = NodeDevice { numa_node: Some(0), ..vf("p0", 1) };
    pool.update(Instant::now(), &[vf("p0", 0), other], &NodeState::default());
    assert!(facts(&pool).iter().all(|(_, is_healthy, node)| *is_healthy && node.is_none()));
    // A container that starts again keeps its devices when there are more, and a new one gets the healthy ones.
    pool.check(&texts(&["2"])).unwrap();
    let down = NodeDevice { driver: None, ..vf("p0", 0) };
    pool.update(Instant::now(), &[down.clone(), vf("p0", 1)], &NodeState::default());
    assert!(facts(&pool).iter().all(|(_, is_healthy, _)| *is_healthy), "one healthy device is enough");
    assert_eq!(nodes(&pool.allocate(&texts(&["1"])).unwrap()), ["uverbs3", "rdma_cm"]);
    pool.update(Instant::now(), &[down], &NodeState::default());
    assert!(facts(&pool).iter().all(|(_, is_healthy, _)| !is_healthy));
    assert!(pool.allocate(&texts(&["1"])).is_err());
}

#[test]
fn devices_are_preferred_and_unknown_ones_refused() {
    let card = Card::new(3);
    let pool = card.pool(EXCLUSIVE);
    pool.update(Instant::now(), &[vf("p0", 0), vf("p0", 1), vf("p0", 2)], &NodeState::default());
    let available = texts(&["0000:af:00.4", "0000:af:00.3"]);
    assert_eq!(pool.preferred(&available, &[], 1).unwrap().unwrap(), ["0000:af:00.3"]);
    let both = pool.preferred(&available, &texts(&["0000:af:00.4"]), 2).unwrap().unwrap();
    assert_eq!(both, ["0000:af:00.3", "0000:af:00.4"]);
    let error = pool.preferred(&available, &texts(&["0000:af:00.9"]), 1).unwrap_err().to_string();
    assert_eq!(error, "a.io/vf: device 0000:af:00.9 must be included and is not available");
}

fn away(index: u32) -> NodeDevice {
    NodeDevice { rdma: Vec::new(), links: Vec::new(), ..vf("p0", index) }
}

#[test]
fn a_device_in_another_namespace_is_not_advertised() {
    let card = Card::new(2);
    let pool = card.pool(EXCLUSIVE);
    let device_use = DeviceUse::new(&[], "boot", Some(KubeletCheckpoint::default()));
    let node = NodeState { device_use, ..NodeState::default() };
    let changes = pool.update(Instant::now(), &[away(0), vf("p0", 1)], &node);
    let texts: Vec<_> =
        changes.into_iter().map(|change| (change.id, change.reason.unwrap().to_string())).collect();
    let expected = "another network namespace has it, and the kubelet has not allocated it to that";
    assert_eq!(texts, [("0000:af:00.2".to_owned(), expected.to_owned())]);
    let is_healthy = || facts(&pool).into_iter().map(|(_, is_healthy, _)| is_healthy).collect::<Vec<_>>();
    assert_eq!(is_healthy(), [false, true]);
    pool.update(Instant::now(), &[vf("p0", 0), vf("p0", 1)], &node);
    assert_eq!(is_healthy(), [true, true]);
}

#[test]
fn a_device_that_has_not_returned_is_waited_for_and_another_one_is_preferred() {
    let card = Card::new(3);
    let pool = &card.pool(EXCLUSIVE);
    card.give_away(0);
    pool.update(Instant::now(), &[away(0), vf("p0", 1), vf("p0", 2)], &NodeState::default());
    let all = texts(&["0000:af:00.2", "0000:af:00.3", "0000:af:00.4"]);
    let preferred = |included: &[&str], size| pool.preferred(&all, &texts(included), size).unwrap().unwrap();
    assert_eq!(preferred(&[], 2), all[1..]);
    assert_eq!(preferred(&["0000:af:00.2"], 2), all[..2]);
    assert_eq!(preferred(&[], 3), all);
    let id = [all[0].clone()];
    thread::scope(|scope| {
        let ids = [all[1].clone(), all[0].clone()];
        let allocation = scope.spawn(move || pool.allocate(&ids));
        thread::sleep(Duration::from_millis(200));
        assert!(!allocation.is_finished());
        card.give_back(0);
        assert_eq!(nodes(&allocation.join().unwrap().unwrap()), ["uverbs3", "rdma_cm", "uverbs2"]);
    });
    card.give_away(0);
    // The kubelet would reject the pod for ever; its network fails instead, and is tried again.
    assert_eq!(nodes(&pool.allocate(&id).unwrap()), ["uverbs2", "rdma_cm"]);
    pool.check(&id).unwrap(); // before a container starts, its pod has the device
}

#[test]
fn devices_are_not_shared_in_exclusive_mode() {
    let card = Card::new(1);
    let pools = [card.pool(SHARED), card.pool(EXCLUSIVE)];
    let node = NodeState { is_rdma_exclusive: true, ..NodeState::default() };
    let [shared, exclusive] = pools.map(|pool| pool.update(Instant::now(), &[vf("p0", 0)], &node));
    assert_eq!(exclusive, []);
    assert!(shared[0].reason.as_ref().unwrap().to_string().contains("silkrail mode set shared"));
}

#[test]
fn an_id_that_the_kubelet_refuses_is_left_out() {
    let card = Card::new(0);
    let pool = card.pool(EXCLUSIVE);
    let long = NodeDevice { id: "m".repeat(64), ..vf("p0", 0) };
    let longest = NodeDevice { id: "m".repeat(63), ..vf("p0", 0) };
    pool.update(Instant::now(), &[long, longest, vf("p0", 1)], &NodeState::default());
    assert_eq!(facts(&pool).len(), 2);
}
