//! A resource of k8s-rdma-shared-dev-plugin: an item of `configList`.

use std::collections::BTreeMap;

use super::{
    resource_spec::{ResourceMode, ResourceSpec},
    table::{Findings, Table},
    values::{hexadecimal, ignores_port, name},
};
use crate::Selector;

/// The domain of resources without `resourcePrefix`.
const DEFAULT_PREFIX: &str = "rdma";

/// The largest `rdmaHcaMax`. A message of the kubelet's API has at most 4 MiB, and a device with its NUMA node takes about 30 bytes of it.
const MAX_SLOTS: u32 = 100_000;

/// Reads an item; `None` if it is invalid, which is reported.
pub(super) fn read(mut table: Table<'_>, findings: &mut Findings) -> Option<ResourceSpec> {
    let path = table.path().to_owned();
    let name = name(&mut table, DEFAULT_PREFIX, findings);
    let slots = table.number("rdmaHcaMax", findings);
    let sets_nccl_conf = table.flag("ncclConf", findings);
    let ignores_port = ignores_port(&mut table, findings);
    let interfaces = table.list("devices", findings);
    let mut is_valid = true;
    let mut selectors = Vec::new();
    for mut item in table.tables("selectors", findings) {
        selectors.push(selector(&mut item, findings));
        is_valid &= item.end(findings);
    }
    // Without a key a selector counts as none (`IsEmptySelector` in pkg/utils/utils.go of k8s-rdma-shared-dev-plugin): it would
    // give containers every RDMA device of the node.
    selectors.retain(|selector| *selector != without_keys());
    match (interfaces.is_empty(), selectors.is_empty()) {
        (false, true) => selectors.push(Selector { interfaces, ..without_keys() }),
        (false, false) => {
            table.invalid(&path, "it has both devices and selectors: remove devices".into(), findings)
        }
        (true, true) if table.is_valid() => table.invalid(
            &path,
            "selectors is missing or empty: expected vendors, ifNames or another key".into(),
            findings,
        ),
        (true, _) => {}
    }
    if slots.is_none() && !table.has("rdmaHcaMax") {
        table.invalid(
            &path,
            "rdmaHcaMax is missing: the number of containers that can use the devices".into(),
            findings,
        );
    }
    if slots.is_some_and(|slots| slots > MAX_SLOTS) {
        let what = format!("rdmaHcaMax is more than {MAX_SLOTS}: the kubelet gets a device for each");
        table.invalid(&path, what, findings);
    }
    is_valid &= table.end(findings);
    let (name, slots, ignores_port) = (name?, slots?, ignores_port?);
    is_valid.then_some(ResourceSpec {
        name,
        mode: ResourceMode::Shared { slots },
        selectors,
        has_topology: true,
        sets_nccl_conf,
        ignores_port,
        additional_info: BTreeMap::new(),
        path,
    })
}

/// All devices that are shared have RDMA.
fn without_keys() -> Selector {
    Selector { is_rdma: true, ..Selector::default() }
}

fn selector(table: &mut Table<'_>, findings: &mut Findings) -> Selector {
    Selector {
        vendors: hexadecimal(table.list("vendors", findings)),
        devices: hexadecimal(table.list("deviceIDs", findings)),
        drivers: table.list("drivers", findings),
        interfaces: table.list("ifNames", findings),
        link_types: table.list("linkTypes", findings),
        pci_addresses: table.list("pciAddresses", findings),
        rdma_devices: table.list("rdmaDevices", findings),
        numa_nodes: table.list("numaNodes", findings),
        rails: table.list("rails", findings),
        ..without_keys()
    }
}
