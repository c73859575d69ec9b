//! Properties of a device that do not change.

use std::fs;

use identifiers::PciAddress;
use serde::Serialize;
use sysfs::{Function, Sysfs};

/// The hardware of an RDMA device. Values that sysfs does not have are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// The driver of its function, such as `mlx5_core`.
    pub driver: Option<String>,
    /// Its PCI function or auxiliary device, such as `0000:af:08.2`.
    pub function: Option<String>,
    /// The NUMA node of its function.
    pub numa_node: Option<u32>,
    /// The vendor's board ID, such as `MT_0000000008`.
    pub board_id: Option<String>,
    /// Whether the function is a VF.
    pub is_vf: bool,
    /// The RDMA device of the PF; the device itself if it is not a VF.
    pub pf_device: Option<String>,
    /// The link of the PF; the function's own link if it is not a VF.
    pub pf_link: Option<String>,
}

impl DeviceInfo {
    /// Whether it has a port and a slot of its own: it is a PCI function, and neither a VF nor a scalable function.
    pub(crate) fn is_physical(&self) -> bool {
        let function = self.function.as_deref();
        !self.is_vf && function.is_some_and(|function| function.parse::<PciAddress>().is_ok())
    }

    /// Reads the properties. `place` is the sysfs of the device's network namespace, `node` that of the host. Values that
    /// cannot be read are `None`.
    pub(crate) fn read(place: &Sysfs, node: &Sysfs, device: &str) -> Self {
        let function = place.function_of_rdma(device).ok().flatten();
        let pci = function.as_ref().and_then(Function::pci);
        let pf = pci.and_then(|pci| node.pf_of(pci).ok().flatten());
        let parent = pf.or(pci);
        Self {
            driver: place.rdma_driver(device).ok().flatten(),
            numa_node: function.as_ref().and_then(|function| node.numa_node(function).ok().flatten()),
            board_id: text(place, device, "board_id"),
            is_vf: pf.is_some(),
            pf_device: if pf.is_some() { only_device(node, parent) } else { Some(device.to_owned()) },
            pf_link: parent.and_then(|pf| node.pf_link(pf).ok()).map(|link| link.to_string()),
            function: function.map(|function| function.to_string()),
        }
    }
}

/// Returns the first RDMA device of a function. A function with several devices has one per port.
fn only_device(node: &Sysfs, function: Option<PciAddress>) -> Option<String> {
    node.rdma_devices(&function?.into()).ok()?.into_iter().next()
}

fn text(sysfs: &Sysfs, device: &str, file: &str) -> Option<String> {
    let path = sysfs.root().join("class/infiniband").join(device).join(file);
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, path::Path};

    use super::*;

    /// A card with two PFs and a VF of the second PF, as mlx5 exposes it in switchdev mode.
    fn card(root: &Path) -> Sysfs {
        let pci = root.join("bus/pci/devices");
        let links: [(&str, &str, &[&str]); 3] = [
            ("0000:af:00.0", "mlx5_0", &["eth0"]),
            ("0000:af:00.1", "mlx5_1", &["eth1", "eth1_0"]),
            ("0000:af:08.2", "mlx5_2", &["eth9"]),
        ];
        fs::create_dir_all(root.join("class/infiniband")).unwrap();
        fs::create_dir_all(root.join("class/net")).unwrap();
        fs::create_dir_all(root.join("drivers/mlx5_core")).unwrap();
        for (function, device, names) in links {
            let dir = pci.join(function);
            fs::create_dir_all(dir.join("infiniband").join(device)).unwrap();
            fs::write(dir.join("numa_node"), "1\n").unwrap();
            symlink(root.join("drivers/mlx5_core"), dir.join("driver")).unwrap();
            symlink(&dir, dir.join("infiniband").join(device).join("device")).unwrap();
            fs::write(dir.join("infiniband").join(device).join("board_id"), "MT_0000000008\n").unwrap();
            symlink(dir.join("infiniband").join(device), root.join("class/infiniband").join(device)).unwrap();
            for name in names {
                fs::create_dir_all(dir.join("net").join(name)).unwrap();
                let port = if name.contains('_') { "pf1vf0\n" } else { "p1\n" };
                fs::write(dir.join("net").join(name).join("phys_port_name"), port).unwrap();
                symlink(dir.join("net").join(name), root.join("class/net").join(name)).unwrap();
            }
        }
        symlink("../0000:af:00.1", pci.join("0000:af:08.2/physfn")).unwrap();
        Sysfs::at(root)
    }

    #[test]
    fn both_ports_of_a_card_are_physical_functions() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = card(root.path());
        for (device, link) in [("mlx5_0", "eth0"), ("mlx5_1", "eth1")] {
            let facts = DeviceInfo::read(&sysfs, &sysfs, device);
            assert!(!facts.is_vf, "{device}: its GUID differs from the card's, but it is not a VF");
            assert_eq!(facts.pf_device.as_deref(), Some(device));
            assert_eq!(facts.pf_link.as_deref(), Some(link));
        }
    }

    #[test]
    fn the_pf_link_of_a_vf_is_the_uplink_and_not_a_representor() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = card(root.path());
        let facts = DeviceInfo::read(&sysfs, &sysfs, "mlx5_2");
        assert!(facts.is_vf);
        assert_eq!(facts.pf_link.as_deref(), Some("eth1"));
        assert_eq!(facts.pf_device.as_deref(), Some("mlx5_1"));
        assert_eq!(facts.function.as_deref(), Some("0000:af:08.2"));
        assert_eq!((facts.driver.as_deref(), facts.numa_node), (Some("mlx5_core"), Some(1)));
        assert_eq!(facts.board_id.as_deref(), Some("MT_0000000008"));
    }

    #[test]
    fn only_a_pci_function_that_is_no_vf_has_a_port_of_its_own() {
        for (function, is_vf, is_physical) in [
            (Some("0000:af:00.0"), false, true),
            (Some("0000:af:08.2"), true, false),
            (Some("mlx5_core.sf.4"), false, false),
            (None, false, false),
        ] {
            let info = DeviceInfo { function: function.map(str::to_owned), is_vf, ..DeviceInfo::default() };
            assert_eq!(info.is_physical(), is_physical, "{function:?}");
        }
    }

    #[test]
    fn a_software_device_has_no_hardware() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("class/infiniband/rxe0")).unwrap();
        let sysfs = Sysfs::at(root.path());
        let facts = DeviceInfo::read(&sysfs, &sysfs, "rxe0");
        assert_eq!(facts, DeviceInfo { pf_device: Some("rxe0".into()), ..DeviceInfo::default() });
    }
}
