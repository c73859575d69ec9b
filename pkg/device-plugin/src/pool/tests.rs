//! Resources with the VFs of a card.

use std::fs;

use super::*;
use crate::{Config, PortState, device::fixture::vf};

struct Card {
    root: tempfile::TempDir,
}

impl Card {
    /// Creates a node on which the devices of `vf("p0", index)` exist, each with its character device.
    fn new(vfs: u32) -> Self {
        let card = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(card.root.path().join("dev/infiniband")).unwrap();
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
        fs::write(self.root.path().join(format!("dev/infiniband/uverbs{number}")), "").unwrap();
    }

    fn remove(&self, index: u32) {
        fs::remove_dir_all(self.function(index)).unwrap();
    }

    fn pool(&self, file: &str) -> ResourcePool {
        let config = Config::parse(file).unwrap();
        assert_eq!(config.findings, []);
        let options = PoolOptions {
            sysfs: Sysfs::at(self.root.path().join("sys")),
            dev: self.root.path().join("dev"),
            has_management: false,
            policy: PfPolicy::Spread,
            hold: Duration::from_secs(5),
        };
        ResourcePool::new(config.resources.into_iter().next().unwrap(), options)
    }
}

const EXCLUSIVE: &str = "resourceList: [{resourceName: vf, resourcePrefix: a.io, selectors: {isRdma: true}}]";
const SHARED: &str = "configList: [{resourceName: hca, rdmaHcaMax: 3, selectors: {ifNames: [p0]}}]";

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
    assert_eq!(pool.update(start, &devices, &[]), []);
    assert!(lists.has_changed().unwrap());
    lists.mark_unchanged();
    let expected = |healthy| {
        vec![("0000:af:00.2".to_owned(), true, Some(1)), ("0000:af:00.3".to_owned(), healthy, Some(1))]
    };
    assert_eq!(facts(&pool), expected(true));
    pool.update(start, &devices, &[]);
    assert!(!lists.has_changed().unwrap());
    let down = NodeDevice { port: Some(PortState { name: "p0".into(), is_up: false }), ..vf("p0", 1) };
    let changes = pool.update(start, &[vf("p0", 0), down], &[]);
    assert_eq!((changes.len(), changes[0].id.as_str()), (1, "0000:af:00.3"));
    assert_eq!(facts(&pool), expected(false));
    pool.update(start, &devices, &[]);
    assert_eq!((facts(&pool), pool.next_change()), (expected(false), Some(start + Duration::from_secs(5))));
    pool.update(start + Duration::from_secs(5), &devices, &[]);
    assert_eq!(facts(&pool), expected(true));
}

#[test]
fn a_container_gets_devices_as_they_are_now() {
    let card = Card::new(2);
    let pool = card.pool(EXCLUSIVE);
    pool.update(Instant::now(), &[vf("p0", 0), vf("p0", 1)], &[]);
    let id = texts(&["0000:af:00.3"]);
    let node =
        |number: u32| card.root.path().join(format!("dev/infiniband/uverbs{number}")).display().to_string();
    assert_eq!(nodes(&pool.allocate(&id).unwrap()), [node(3)]);
    pool.check(&id).unwrap();
    // Its number changes, as when its driver is bound again.
    card.remove(1);
    card.add(1, 7);
    let error = pool.check(&id).unwrap_err().to_string();
    assert!(error.contains("uverbs7") && error.contains("uverbs3: delete the pod"), "{error}");
    assert_eq!(nodes(&pool.allocate(&id).unwrap()), [node(7)]);
    pool.check(&id).unwrap();
    card.remove(1);
    let expected = "a.io/vf: 0000:af:00.3 does not exist on this node";
    assert_eq!(pool.allocate(&id).unwrap_err().to_string(), expected);
    assert_eq!(pool.check(&id).unwrap_err().to_string(), expected);
}

#[test]
fn a_process_that_has_just_started_accepts_earlier_allocations() {
    let card = Card::new(1);
    card.pool(EXCLUSIVE).check(&texts(&["0000:af:00.2"])).unwrap();
}

#[test]
fn containers_share_devices_up_to_a_number() {
    let card = Card::new(2);
    let pool = card.pool(SHARED);
    assert_eq!(facts(&pool), []);
    let error = pool.allocate(&texts(&["0"])).unwrap_err().to_string();
    assert_eq!(error, "rdma/hca: it has no device on this node");
    pool.update(Instant::now(), &[vf("p0", 0)], &[]);
    assert_eq!(facts(&pool), (0..3).map(|slot| (slot.to_string(), true, Some(1))).collect::<Vec<_>>());
    let names = nodes(&pool.allocate(&texts(&["0", "2"])).unwrap());
    assert_eq!((names.len(), names[0].ends_with("infiniband/uverbs2")), (1, true), "{names:?}");
    assert_eq!(pool.preferred(&texts(&["0", "1"]), &[], 1).unwrap(), None);
    // With devices of two nodes, the resource has none.
    let other = NodeDevice { numa_node: Some(0), ..vf("p0", 1) };
    pool.update(Instant::now(), &[vf("p0", 0), other], &[]);
    assert!(facts(&pool).iter().all(|(_, is_healthy, node)| *is_healthy && node.is_none()));
    let down = NodeDevice { driver: None, ..vf("p0", 0) };
    pool.update(Instant::now(), &[down], &[]);
    assert!(facts(&pool).iter().all(|(_, is_healthy, _)| !is_healthy));
}

#[test]
fn devices_are_preferred_and_unknown_ones_refused() {
    let card = Card::new(3);
    let pool = card.pool(EXCLUSIVE);
    pool.update(Instant::now(), &[vf("p0", 0), vf("p0", 1), vf("p0", 2)], &[]);
    let available = texts(&["0000:af:00.4", "0000:af:00.3"]);
    assert_eq!(pool.preferred(&available, &[], 1).unwrap().unwrap(), ["0000:af:00.3"]);
    let both = pool.preferred(&available, &texts(&["0000:af:00.4"]), 2).unwrap().unwrap();
    assert_eq!(both, ["0000:af:00.3", "0000:af:00.4"]);
    let error = pool.preferred(&available, &texts(&["0000:af:00.9"]), 1).unwrap_err().to_string();
    assert_eq!(error, "a.io/vf: device 0000:af:00.9 must be included and is not available");
}

#[test]
fn an_id_that_the_kubelet_refuses_is_left_out() {
    let card = Card::new(0);
    let pool = card.pool(EXCLUSIVE);
    let long = NodeDevice { id: "m".repeat(64), ..vf("p0", 0) };
    pool.update(Instant::now(), &[long, vf("p0", 1)], &[]);
    assert_eq!(facts(&pool).len(), 1);
}
