//! The devices of a sysfs tree: a card with a VF and a scalable function, a bond of two ports, and a software device.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{fs, os::unix::fs::symlink, path::Path};

use device_plugin::{LinkType, NodeDevice, NodeDevices};
use sysfs::Sysfs;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (name, port) in [("0000:af:00.0", "p0"), ("0000:af:00.1", "p1")] {
            tree.function(name, "mlx5_core", "1");
            tree.link(name, port, "1");
        }
        tree.file("D/0000:af:00.0/sriov_numvfs", "1\n");
        tree.function("0000:af:00.2", "mlx5_core", "-1");
        tree.symlink("../0000:af:00.2", "D/0000:af:00.0/virtfn0");
        tree.symlink("../0000:af:00.0", "D/0000:af:00.2/physfn");
        tree.rdma("D/0000:af:00.0", "mlx5_bond_0", "0");
        tree.file("class/infiniband/mlx5_bond_0/ports/1/state", "4: ACTIVE\n");
        tree.file("D/0000:af:00.2/infiniband_verbs/uverbs3/ibdev", "mlx5_2\n");
        tree.dir("D/0000:af:00.2/infiniband");
        tree.scalable_function();
        tree.bond();
        tree.software_device();
        tree
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        let path = path.replacen("D/", "devices/pci0000:ae/0000:ae:00.0/", 1);
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn file(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    fn dir(&self, path: &str) {
        fs::create_dir_all(self.path(path)).unwrap();
    }

    fn symlink(&self, target: &str, path: &str) {
        symlink(target, self.path(path)).unwrap();
    }

    fn function(&self, pci: &str, driver: &str, numa_node: &str) {
        for (name, text) in [("class", "0x020000\n"), ("vendor", "0x15b3\n"), ("device", "0x101d\n")] {
            self.file(&format!("D/{pci}/{name}"), text);
        }
        self.file(&format!("D/{pci}/numa_node"), &format!("{numa_node}\n"));
        self.dir(&format!("bus/pci/drivers/{driver}"));
        self.symlink(&format!("../../../../bus/pci/drivers/{driver}"), &format!("D/{pci}/driver"));
        let target = format!("../../../devices/pci0000:ae/0000:ae:00.0/{pci}");
        self.symlink(&target, &format!("bus/pci/devices/{pci}"));
    }

    fn link(&self, pci: &str, name: &str, hardware: &str) {
        self.file(&format!("D/{pci}/net/{name}/type"), &format!("{hardware}\n"));
        self.file(&format!("D/{pci}/net/{name}/operstate"), "down\n");
        let target = format!("../../devices/pci0000:ae/0000:ae:00.0/{pci}/net/{name}");
        self.symlink(&target, &format!("class/net/{name}"));
    }

    fn rdma(&self, device: &str, name: &str, number: &str) {
        self.dir(&format!("{device}/infiniband/{name}"));
        self.file(&format!("{device}/infiniband_verbs/uverbs{number}/ibdev"), &format!("{name}\n"));
    }

    fn scalable_function(&self) {
        let (name, at) = ("mlx5_core.sf.4", "D/0000:af:00.1/mlx5_core.sf.4");
        self.rdma(at, "mlx5_9", "9");
        self.file(&format!("{at}/sfnum"), "88\n");
        let target = format!("../../../devices/pci0000:ae/0000:ae:00.0/0000:af:00.1/{name}");
        self.symlink(&target, &format!("bus/auxiliary/devices/{name}"));
        self.dir("bus/auxiliary/devices/mlx5_core.eth.0");
    }

    fn bond(&self) {
        self.dir("class/net/bond0/lower_p0");
        self.dir("class/net/bond0/lower_p1");
        for port in ["p0", "p1"] {
            let function = if port == "p0" { "0000:af:00.0" } else { "0000:af:00.1" };
            self.symlink("../../../../../../class/net/bond0", &format!("D/{function}/net/{port}/master"));
        }
    }

    fn software_device(&self) {
        self.file("devices/virtual/infiniband/rxe0/parent", "eth0\n");
        self.symlink("../../devices/virtual/infiniband/rxe0", "class/infiniband/rxe0");
        self.file("class/infiniband_verbs/uverbs7/ibdev", "rxe0\n");
        self.file("class/infiniband_verbs/uverbs8/ibdev", "rxe1\n");
        self.file("class/net/eth0/type", "1\n");
    }

    fn read(&self, default_route: &str) -> Vec<NodeDevice> {
        let routes = [default_route.parse().unwrap()].into();
        NodeDevices::read(&Sysfs::at(self.0.path()), &routes).unwrap().devices
    }
}

#[test]
fn all_devices_are_listed_with_their_facts() {
    let devices = Tree::new().read("bond0");
    let ids: Vec<_> = devices.iter().map(|device| device.id.as_str()).collect();
    assert_eq!(ids, ["0000:af:00.0", "0000:af:00.1", "0000:af:00.2", "mlx5_core.sf.4", "rxe0"]);
    let [pf, port, vf, scalable, software] = &devices[..] else { return };
    assert_eq!(
        (pf.num_vfs, pf.rdma.as_slice(), pf.has_default_route),
        (1, &["mlx5_bond_0".to_owned()][..], true)
    );
    assert_eq!(pf.bond.iter().map(ToString::to_string).collect::<Vec<_>>(), ["p1", "bond0"]);
    assert_eq!((port.is_rdma(), port.numa_node, port.link_type), (false, Some(1), Some(LinkType::Ethernet)));
    assert_eq!((vf.index.unwrap().0, vf.pf.as_ref().unwrap().link.as_ref().unwrap().as_str()), (0, "p0"));
    assert_eq!(
        (vf.is_rdma(), vf.links.len(), vf.char_devices.as_slice()),
        (true, 0, &["uverbs3".to_owned()][..])
    );
    assert_eq!(vf.link_type, Some(LinkType::Ethernet), "that of its PF");
    assert_eq!((vf.pci_id.unwrap().vendor, vf.driver.as_deref()), (0x15b3, Some("mlx5_core")));
    assert_eq!(vf.path.as_ref().unwrap().to_string(), "pci0000:ae/0000:ae:00.0/0000:af:00.2");
    assert_eq!((scalable.auxiliary_type.as_deref(), scalable.index.unwrap().0), (Some("sf"), 88));
    assert_eq!((scalable.pci_id.unwrap().device, scalable.numa_node), (0x101d, Some(1)), "those of its card");
    assert_eq!(
        (software.char_devices.as_slice(), software.link_type),
        (&["uverbs7".to_owned()][..], Some(LinkType::Ethernet))
    );
    let ports: Vec<_> = devices
        .iter()
        .map(|device| device.port.as_ref().map(|port| (port.name.as_str(), port.is_up)))
        .collect();
    let (bond, down) = (Some(("mlx5_bond_0", true)), Some(("p1", false)));
    assert_eq!(ports, [bond, down, bond, down, None], "a VF has the port of its PF");
    assert!(!software.has_default_route && software.path.is_none());
}

#[test]
fn a_port_is_up_by_its_rdma_device_or_else_by_its_link() {
    let tree = Tree::new();
    let port = |rdma_state: &str, operational: &str| {
        tree.file("class/infiniband/mlx5_bond_0/ports/1/state", rdma_state);
        tree.file("D/0000:af:00.1/net/p1/operstate", operational);
        let devices = tree.read("p7");
        [&devices[2], &devices[1]].map(|device| device.port.as_ref().map(|port| port.is_up))
    };
    assert_eq!(port("4: ACTIVE\n", "up\n"), [Some(true), Some(true)]);
    assert_eq!(port("1: DOWN\n", "down\n"), [Some(false), Some(false)]);
    assert_eq!(port("3: ARMED\n", "unknown\n"), [Some(false), None], "not every driver tells its state");
    assert_eq!(port("2: INIT\n", "lowerlayerdown\n"), [Some(false), Some(false)]);
}

/// mlx5 has one RDMA device for all ports of a LAG, and VFs use the ports that are up.
#[test]
fn a_port_of_a_bond_without_an_rdma_device_is_up_with_the_bond() {
    let tree = Tree::new();
    let port = || tree.read("p7")[1].port.clone().map(|port| (port.name, port.is_up)).unwrap();
    tree.file("class/net/bond0/operstate", "up\n");
    assert_eq!(port(), ("p1".into(), false), "a bridge, such as of Open vSwitch");
    tree.dir("class/net/bond0/bonding");
    assert_eq!(port(), ("bond0".into(), true));
    tree.file("class/net/bond0/operstate", "down\n");
    assert_eq!(port(), ("bond0".into(), false));
    tree.rdma("D/0000:af:00.1", "mlx5_1", "1");
    tree.file("class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
    assert_eq!(port(), ("mlx5_1".into(), true), "no LAG of the card");
}

#[test]
fn only_links_of_default_routes_have_one() {
    let tree = Tree::new();
    let routes =
        |route: &str| tree.read(route).iter().map(|device| device.has_default_route).collect::<Vec<_>>();
    assert_eq!(routes("p0"), [true, true, false, false, false], "also the other member of its bond");
    assert_eq!(routes("eth0"), [false, false, false, false, true]);
    assert_eq!(routes("p7"), [false; 5]);
}

#[test]
fn a_device_is_found_by_its_id() {
    let tree = Tree::new();
    let sysfs = Sysfs::at(tree.0.path());
    for device in tree.read("p7") {
        let found = NodeDevices::find(&sysfs, &device.id).unwrap();
        assert_eq!(found, Some(device));
    }
    for id in ["0000:af:00.7", "mlx5_core.sf.5", "rxe1", "0", "../x"] {
        assert_eq!(NodeDevices::find(&sysfs, id).unwrap(), None, "{id}");
    }
}

#[test]
fn gpus_are_found_by_their_class() {
    let tree = Tree::new();
    let gpus = [
        ("0000:b0:00.0", "0x030200", "0x10de", true),
        ("0000:b1:00.0", "0x030000", "0x1002", true),
        ("0000:b2:00.0", "0x120000", "0x1da3", true),
        ("0000:b3:00.0", "0x030000", "0x1a03", false), // of a management controller
        ("0000:b4:00.0", "0x010802", "0x10de", false),
    ];
    for (pci, class, vendor, _) in gpus {
        tree.function(pci, "nvidia", "0");
        tree.file(&format!("D/{pci}/class"), &format!("{class}\n"));
        tree.file(&format!("D/{pci}/vendor"), &format!("{vendor}\n"));
    }
    let devices = NodeDevices::read(&Sysfs::at(tree.0.path()), &[].into()).unwrap();
    let found: Vec<_> = devices.gpus.iter().map(ToString::to_string).collect();
    let expected = gpus.into_iter().filter(|(.., is_gpu)| *is_gpu);
    let expected: Vec<_> = expected.map(|(pci, ..)| format!("pci0000:ae/0000:ae:00.0/{pci}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_node_without_devices_has_none() {
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(NodeDevices::read(&Sysfs::at(empty.path()), &[].into()).unwrap(), NodeDevices::default());
    assert!(Path::new(empty.path()).exists());
}
