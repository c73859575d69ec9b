//! PCI functions of network cards (PFs and VFs) with their drivers, links and RDMA devices, and GPUs.

use serde::Serialize;

use super::{
    acs,
    interrupts::Interrupts,
    pci_express::{DEVICES, PcieControl, PcieErrors, PcieLink},
};
use crate::{Known, host_root::HostRoot};

/// A PCI function of a network card.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FunctionFacts {
    pub(crate) address: String,
    pub(crate) vendor: String,
    /// `vendor:device:subsystem_vendor:subsystem_device`, the same for all boards of one model.
    pub(crate) model: String,
    pub(crate) driver: Option<String>,
    /// The PF; `None` if the function is not a VF.
    pub(crate) pf: Option<String>,
    /// The targets of `virtfnN`, in order; empty if the function is not a PF.
    pub(crate) vfs: Vec<String>,
    pub(crate) num_vfs: Known<u32>,
    pub(crate) total_vfs: Known<u32>,
    /// `sriov_drivers_autoprobe`: 1 if the kernel binds new VFs to a driver.
    pub(crate) autoprobe: Known<u8>,
    /// Links in the host's network namespace.
    pub(crate) links: Vec<String>,
    /// RDMA devices in the host's network namespace.
    pub(crate) rdma: Vec<String>,
    /// `uverbsN`, regardless of the namespace that the RDMA device is in.
    pub(crate) uverbs: Vec<String>,
    pub(crate) numa_node: Option<u32>,
    pub(crate) pcie: PcieLink,
    pub(crate) pcie_errors: PcieErrors,
    /// `None` if only root could read it; and of a VF, which has that of its PF.
    pub(crate) pcie_control: Option<PcieControl>,
    pub(crate) interrupts: Interrupts,
    /// Bridges above the function that redirect peer-to-peer traffic (ACS); only read if the node has GPUs.
    pub(crate) redirected_by: Vec<String>,
}

/// A GPU.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gpu {
    pub(crate) address: String,
    /// `vendor:device`.
    pub(crate) model: String,
    pub(crate) numa_node: Option<u32>,
    pub(crate) pcie: PcieLink,
    pub(crate) pcie_errors: PcieErrors,
}

const NVIDIA: &str = "0x10de";
const AMD: &str = "0x1002";

pub(crate) fn read(tree: &HostRoot) -> (Vec<FunctionFacts>, Vec<Gpu>) {
    let (mut functions, mut gpus) = (Vec::new(), Vec::new());
    for address in tree.names(DEVICES).items() {
        let class = tree.text(format!("{DEVICES}/{address}/class")).into_option().unwrap_or_default();
        let vendor = tree.text(format!("{DEVICES}/{address}/vendor")).into_option().unwrap_or_default();
        if class.starts_with("0x02") {
            functions.push(function(tree, address, vendor));
        } else if is_gpu(&class, &vendor) {
            gpus.push(gpu(tree, address, &vendor));
        }
    }
    for function in functions.iter_mut().filter(|function| function.has_rdma() && function.pf.is_none()) {
        function.pcie_errors = PcieErrors::read(tree, &function.address);
        function.pcie_control = PcieControl::read(tree, &function.address);
        function.interrupts = Interrupts::read(tree, &function.address);
    }
    if !gpus.is_empty() {
        for function in functions.iter_mut().filter(|function| function.pf.is_none()) {
            function.redirected_by = acs::redirecting(tree, &function.address);
        }
    }
    (functions, gpus)
}

/// Returns whether the function is a display controller or processing accelerator of NVIDIA or AMD.
fn is_gpu(class: &str, vendor: &str) -> bool {
    matches!(vendor, NVIDIA | AMD) && (class.starts_with("0x03") || class.starts_with("0x12"))
}

fn gpu(tree: &HostRoot, address: &str, vendor: &str) -> Gpu {
    let device = tree.text(format!("{DEVICES}/{address}/device")).into_option().unwrap_or_default();
    Gpu {
        address: address.to_owned(),
        model: format!("{vendor}:{device}"),
        numa_node: numa_node(tree, address),
        pcie: PcieLink::read(tree, address),
        pcie_errors: PcieErrors::read(tree, address),
    }
}

impl FunctionFacts {
    /// Whether it has an RDMA device, in any namespace.
    pub(crate) fn has_rdma(&self) -> bool {
        !self.rdma.is_empty() || !self.uverbs.is_empty()
    }
}

fn function(tree: &HostRoot, address: &str, vendor: String) -> FunctionFacts {
    let file = |name: &str| format!("{DEVICES}/{address}/{name}");
    let text = |name: &str| tree.text(file(name)).into_option().unwrap_or_default();
    let names = |name: &str| tree.names(file(name)).into_option().unwrap_or_default();
    let model =
        [vendor.clone(), text("device"), text("subsystem_vendor"), text("subsystem_device")].join(":");
    let mut vfs: Vec<(u32, String)> = names("")
        .iter()
        .filter_map(|name| Some((name.strip_prefix("virtfn")?.parse().ok()?, tree.link(file(name))?)))
        .collect();
    vfs.sort();
    FunctionFacts {
        address: address.to_owned(),
        vendor,
        model,
        driver: tree.link(file("driver")),
        pf: tree.link(file("physfn")),
        vfs: vfs.into_iter().map(|(_, vf)| vf).collect(),
        num_vfs: tree.value(file("sriov_numvfs")),
        total_vfs: tree.value(file("sriov_totalvfs")),
        autoprobe: tree.value(file("sriov_drivers_autoprobe")),
        links: names("net"),
        rdma: names("infiniband"),
        uverbs: names("infiniband_verbs"),
        numa_node: numa_node(tree, address),
        pcie: PcieLink::read(tree, address),
        ..FunctionFacts::default()
    }
}

fn numa_node(tree: &HostRoot, address: &str) -> Option<u32> {
    let node: i64 = tree.value(format!("{DEVICES}/{address}/numa_node")).into_option()?;
    u32::try_from(node).ok() // -1: unknown
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn display_controllers_and_accelerators_of_two_vendors_are_gpus() {
        for (class, vendor, is_one) in [
            ("0x030200", NVIDIA, true),
            ("0x030000", AMD, true),
            ("0x120000", AMD, true),
            ("0x120000", NVIDIA, true),
            ("0x030000", "0x1a03", false),
            ("0x040300", NVIDIA, false),
        ] {
            assert_eq!(is_gpu(class, vendor), is_one, "{class} {vendor}");
        }
    }

    #[test]
    fn vfs_are_in_the_order_of_their_numbers() {
        let root = tempfile::tempdir().unwrap();
        let pf = root.path().join(DEVICES).join("0000:af:00.0");
        fs::create_dir_all(&pf).unwrap();
        for (name, text) in [("class", "0x020000"), ("numa_node", "-1"), ("sriov_numvfs", "3")] {
            fs::write(pf.join(name), text).unwrap();
        }
        for (number, vf) in [(10, "0000:af:01.4"), (0, "0000:af:00.2"), (2, "0000:af:00.4")] {
            symlink(format!("../{vf}"), pf.join(format!("virtfn{number}"))).unwrap();
        }
        let (functions, gpus) = read(&HostRoot::at(root.path()));
        assert_eq!(functions[0].vfs, ["0000:af:00.2", "0000:af:00.4", "0000:af:01.4"]);
        assert_eq!((functions[0].numa_node, &functions[0].num_vfs, gpus.len()), (None, &Known::Value(3), 0));
    }
}
