//! Which devices belong to a resource.

use identifiers::PciAddress;

use crate::{LinkType, NodeDevice, Pkey, VfSelection};

/// A selector of devices. A device must match all lists that are not empty, each by one of its items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// PCI vendor IDs, such as `15b3`.
    pub vendors: Vec<String>,
    /// PCI device IDs, such as `101e`.
    pub devices: Vec<String>,
    /// Drivers, such as `mlx5_core`.
    pub drivers: Vec<String>,
    /// PCI addresses.
    pub pci_addresses: Vec<PciAddress>,
    /// Indexes of the firmware.
    pub acpi_indexes: Vec<u32>,
    /// Names of links of the device, or of a bond with it.
    pub interfaces: Vec<String>,
    /// PFs by the names of their links, with the indexes of VFs.
    pub pf_names: Vec<VfSelection>,
    /// PFs by their PCI addresses, with the indexes of VFs.
    pub root_devices: Vec<VfSelection>,
    /// Link layers.
    pub link_types: Vec<LinkType>,
    /// Partitions of InfiniBand.
    pub pkeys: Vec<Pkey>,
    /// Types of auxiliary devices, such as `sf`.
    pub auxiliary_types: Vec<String>,
    /// Names of RDMA devices.
    pub rdma_devices: Vec<String>,
    /// NUMA nodes.
    pub numa_nodes: Vec<u32>,
    /// Rails.
    pub rails: Vec<u32>,
    /// Whether only RDMA devices match, and containers get their device nodes.
    pub is_rdma: bool,
    /// Whether containers also get `vhost-net` and `net/tun`.
    pub needs_vhost_net: bool,
}

/// The first key of a selector that a device does not match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {found}, expected {expected}")]
pub struct Mismatch {
    /// The key, as in the file of sriov-network-device-plugin.
    pub key: &'static str,
    /// The values that match.
    pub expected: String,
    /// The value of the device.
    pub found: String,
}

impl Selector {
    /// Returns why a device does not match; `None` if it does.
    pub fn mismatch(&self, device: &NodeDevice) -> Option<Mismatch> {
        self.identity(device).or_else(|| self.placement(device)).or_else(|| self.network(device))
    }

    fn identity(&self, device: &NodeDevice) -> Option<Mismatch> {
        let hexadecimal = |number: u16| format!("{number:04x}");
        let vendor = device.pci_id.map(|id| hexadecimal(id.vendor));
        let model = device.pci_id.map(|id| hexadecimal(id.device));
        one("vendors", &self.vendors, vendor.as_ref())
            .or_else(|| one("devices", &self.devices, model.as_ref()))
            .or_else(|| self.driver(device))
            .or_else(|| one("auxTypes", &self.auxiliary_types, device.auxiliary_type.as_ref()))
            .or_else(|| any("rdmaDevices", &self.rdma_devices, &device.rdma))
            .or_else(|| {
                let is_wrong = self.is_rdma && !device.is_rdma();
                is_wrong.then(|| mismatch("isRdma", "true".into(), "false".into()))
            })
    }

    /// sriov-network-device-plugin compares the driver of the card, also for a scalable function (`NewHostDeviceImpl` in
    /// pkg/devices/host.go).
    fn driver(&self, device: &NodeDevice) -> Option<Mismatch> {
        let own = one("drivers", &self.drivers, device.driver.as_ref());
        let of_card = device.card_driver.as_ref();
        own.filter(|_| of_card.is_none_or(|driver| !self.drivers.contains(driver)))
    }

    fn placement(&self, device: &NodeDevice) -> Option<Mismatch> {
        let pci = device.function.as_ref().and_then(|function| function.pci());
        one("pciAddresses", &self.pci_addresses, pci.as_ref())
            .or_else(|| one("acpiIndexes", &self.acpi_indexes, device.acpi_index.as_ref()))
            .or_else(|| one("numaNodes", &self.numa_nodes, device.numa_node.as_ref()))
            .or_else(|| one("rails", &self.rails, device.rail.as_ref()))
            .or_else(|| {
                let name = device.pf.as_ref().and_then(|pf| pf.link.as_ref()).map(ToString::to_string);
                vfs("pfNames", &self.pf_names, device, name)
            })
            .or_else(|| {
                let root = device.pf.as_ref().map(|pf| pf.pci.to_string());
                vfs("rootDevices", &self.root_devices, device, root)
            })
    }

    fn network(&self, device: &NodeDevice) -> Option<Mismatch> {
        let links: Vec<_> = device.links.iter().chain(&device.bond).map(ToString::to_string).collect();
        any("ifNames", &self.interfaces, &links)
            .or_else(|| one("linkTypes", &self.link_types, device.link_type.as_ref()))
            .or_else(|| one("pKeys", &self.pkeys, device.pkey.as_ref()))
    }
}

fn one<T: PartialEq + ToString>(key: &'static str, expected: &[T], found: Option<&T>) -> Option<Mismatch> {
    let matches = expected.is_empty() || found.is_some_and(|found| expected.contains(found));
    (!matches).then(|| mismatch(key, list(expected), found.map_or_else(|| "unknown".into(), T::to_string)))
}

fn any(key: &'static str, expected: &[String], found: &[String]) -> Option<Mismatch> {
    let matches = expected.is_empty() || found.iter().any(|found| expected.contains(found));
    (!matches).then(|| {
        let found = if found.is_empty() { "none in the node's namespace".into() } else { list(found) };
        mismatch(key, list(expected), found)
    })
}

fn vfs(
    key: &'static str,
    expected: &[VfSelection],
    device: &NodeDevice,
    pf: Option<String>,
) -> Option<Mismatch> {
    let is = |selection: &VfSelection| {
        pf.as_ref().is_some_and(|pf| pf.eq_ignore_ascii_case(&selection.pf))
            && selection.contains(device.index)
    };
    let matches = expected.is_empty() || expected.iter().any(is);
    let found = || match (&pf, device.index) {
        (Some(pf), Some(index)) => format!("{pf}#{index}"),
        (Some(pf), None) => pf.clone(),
        (None, _) => "none, as it is neither a VF nor a scalable function".into(),
    };
    (!matches).then(|| mismatch(key, list(expected), found()))
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(" or ")
}

fn mismatch(key: &'static str, expected: String, found: String) -> Mismatch {
    Mismatch { key, expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::vf;

    fn texts(items: &[&str]) -> Vec<String> {
        items.iter().map(|text| (*text).to_owned()).collect()
    }

    /// Every key with a value that matches the VF 1 of ens6f0np0, one that does not, and the message.
    fn cases() -> Vec<(Selector, Selector, &'static str)> {
        let of = |set: &dyn Fn(&mut Selector)| {
            let mut selector = Selector::default();
            set(&mut selector);
            selector
        };
        let pair =
            |right: &dyn Fn(&mut Selector), wrong: &dyn Fn(&mut Selector), text| (of(right), of(wrong), text);
        vec![
            pair(
                &|s| s.vendors = texts(&["8086", "15b3"]),
                &|s| s.vendors = texts(&["8086", "14e4"]),
                "vendors is 15b3, expected 8086 or 14e4",
            ),
            pair(
                &|s| s.devices = texts(&["101e"]),
                &|s| s.devices = texts(&["101d"]),
                "devices is 101e, expected 101d",
            ),
            pair(
                &|s| s.drivers = texts(&["mlx5_core"]),
                &|s| s.drivers = texts(&["vfio-pci"]),
                "drivers is mlx5_core, expected vfio-pci",
            ),
            pair(
                &|s| s.pci_addresses = vec!["0000:af:00.3".parse().unwrap()],
                &|s| s.pci_addresses = vec!["0000:af:00.4".parse().unwrap()],
                "pciAddresses is 0000:af:00.3, expected 0000:af:00.4",
            ),
            pair(
                &|s| s.acpi_indexes = vec![7],
                &|s| s.acpi_indexes = vec![8],
                "acpiIndexes is 7, expected 8",
            ),
            pair(
                &|s| s.interfaces = texts(&["ens6f0np0v1"]),
                &|s| s.interfaces = texts(&["eth0"]),
                "ifNames is ens6f0np0v1 or bond0, expected eth0",
            ),
            pair(
                &|s| s.interfaces = texts(&["bond0"]),
                &|s| s.interfaces = texts(&["bond1"]),
                "ifNames is ens6f0np0v1 or bond0, expected bond1",
            ),
            pair(
                &|s| s.pf_names = vec!["ens6f0np0#0-1".parse().unwrap()],
                &|s| s.pf_names = vec!["ens6f0np0#2-7".parse().unwrap()],
                "pfNames is ens6f0np0#1, expected ens6f0np0#2-7",
            ),
            pair(
                &|s| s.root_devices = vec!["0000:af:00.0".parse().unwrap()],
                &|s| s.root_devices = vec!["0000:b0:00.0".parse().unwrap()],
                "rootDevices is 0000:af:00.0#1, expected 0000:b0:00.0",
            ),
            pair(
                &|s| s.link_types = vec![LinkType::Ethernet],
                &|s| s.link_types = vec![LinkType::InfiniBand],
                "linkTypes is ether, expected infiniband",
            ),
            pair(
                &|s| s.pkeys = vec!["0x8001".parse().unwrap()],
                &|s| s.pkeys = vec!["0x7fff".parse().unwrap()],
                "pKeys is 0x8001, expected 0x7fff",
            ),
            pair(
                &|s| s.rdma_devices = texts(&["mlx5_3"]),
                &|s| s.rdma_devices = texts(&["mlx5_0"]),
                "rdmaDevices is mlx5_3, expected mlx5_0",
            ),
            pair(&|s| s.numa_nodes = vec![1], &|s| s.numa_nodes = vec![0], "numaNodes is 1, expected 0"),
            pair(&|s| s.rails = vec![3], &|s| s.rails = vec![4, 5], "rails is 3, expected 4 or 5"),
            pair(
                &|s| s.auxiliary_types = texts(&["sf"]),
                &|s| s.auxiliary_types = texts(&["eth"]),
                "auxTypes is sf, expected eth",
            ),
        ]
    }

    fn device() -> NodeDevice {
        let mut device = vf("ens6f0np0", 1);
        device.acpi_index = Some(7);
        device.rail = Some(3);
        device.bond = vec!["bond0".parse().unwrap()];
        device.pkey = Some("0x8001".parse().unwrap());
        device.auxiliary_type = Some("sf".into());
        device
    }

    #[test]
    fn every_key_selects_and_a_mismatch_names_key_and_values() {
        for (right, wrong, text) in cases() {
            assert_eq!(right.mismatch(&device()), None, "{right:?}");
            assert_eq!(wrong.mismatch(&device()).unwrap().to_string(), text);
        }
        assert_eq!(Selector::default().mismatch(&device()), None);
    }

    #[test]
    fn keys_are_combined() {
        for (right, wrong, text) in cases() {
            let selector = Selector { is_rdma: true, vendors: texts(&["15b3"]), ..wrong };
            if right.vendors.is_empty() {
                assert_eq!(selector.mismatch(&device()).unwrap().to_string(), text);
            }
        }
    }

    /// As in `getItem` of pkg/resources/deviceSelectors.go in sriov-network-device-plugin.
    #[test]
    fn the_case_of_a_pf_does_not_matter() {
        let selectors = [
            Selector { root_devices: vec!["0000:AF:00.0#1".parse().unwrap()], ..Selector::default() },
            Selector { pf_names: vec!["ENS6F0np0".parse().unwrap()], ..Selector::default() },
        ];
        assert_eq!(selectors.map(|selector| selector.mismatch(&device())), [None, None]);
    }

    #[test]
    fn an_rdma_device_in_a_pod_is_one() {
        let selector = Selector { is_rdma: true, ..Selector::default() };
        let mut device = NodeDevice { rdma: Vec::new(), ..device() };
        assert_eq!(selector.mismatch(&device), None);
        device.char_devices.clear();
        assert_eq!(selector.mismatch(&device).unwrap().to_string(), "isRdma is false, expected true");
    }

    #[test]
    fn an_unknown_fact_does_not_match() {
        let device = NodeDevice { pci_id: None, ..device() };
        let selector = Selector { vendors: texts(&["15b3"]), ..Selector::default() };
        assert_eq!(selector.mismatch(&device).unwrap().to_string(), "vendors is unknown, expected 15b3");
        let device = NodeDevice { pf: None, function: None, ..device };
        let selector = Selector { pf_names: vec!["p0".parse().unwrap()], ..Selector::default() };
        assert_eq!(
            selector.mismatch(&device).unwrap().to_string(),
            "pfNames is none, as it is neither a VF nor a scalable function, expected p0"
        );
    }
}
