//! A resource of sriov-network-device-plugin: an item of `resourceList`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    resource_spec::{ExclusiveType, ResourceMode, ResourceSpec},
    table::{Findings, Table},
    values::{hexadecimal, name},
};
use crate::Selector;

/// The domain of resources without `resourcePrefix`.
const DEFAULT_PREFIX: &str = "intel.com";

/// Reads an item; `None` if it is invalid, which is reported.
pub(super) fn read(mut table: Table<'_>, findings: &mut Findings) -> Option<ResourceSpec> {
    let path = table.path().to_owned();
    let name = name(&mut table, DEFAULT_PREFIX, findings);
    let device_type = device_type(&mut table, findings);
    let has_topology = !table.flag("excludeTopology", findings);
    let sets_nccl_conf = table.flag("ncclConf", findings);
    let info = table.object("additionalInfo", findings);
    let selector_tables = table.tables("selectors", findings);
    let mut is_valid = true;
    let (mut selectors, mut needs_vhost_net) = (Vec::new(), false);
    for mut item in selector_tables {
        let (selector, vhost) = selector(&mut item, findings);
        needs_vhost_net |= vhost;
        selectors.push(selector);
        is_valid &= item.end(findings);
    }
    if selectors.is_empty() && table.is_valid() {
        table.invalid(&path, "selectors is missing: without it, the resource has no device".into(), findings);
    }
    is_valid &= table.end(findings);
    let (name, device_type) = (name?, device_type?);
    let additional_info: BTreeMap<String, Value> =
        info.into_iter().flatten().map(|(id, info)| (id.clone(), info.clone())).collect();
    let mode = ResourceMode::Exclusive(device_type);
    is_valid.then_some(ResourceSpec {
        name,
        mode,
        selectors,
        has_topology,
        needs_vhost_net,
        sets_nccl_conf,
        additional_info,
        path,
    })
}

fn device_type(table: &mut Table<'_>, findings: &mut Findings) -> Option<ExclusiveType> {
    match table.text("deviceType", findings) {
        None | Some("netDevice" | "") => Some(ExclusiveType::Network),
        Some("auxNetDevice") => Some(ExclusiveType::Auxiliary),
        Some(other) => {
            let path = format!("{}.deviceType", table.path());
            let what = format!("{other:?} is not supported: expected \"netDevice\" or \"auxNetDevice\"");
            table.invalid(&path, what, findings);
            None
        }
    }
}

fn selector(table: &mut Table<'_>, findings: &mut Findings) -> (Selector, bool) {
    let selector = Selector {
        vendors: hexadecimal(table.list("vendors", findings)),
        devices: hexadecimal(table.list("devices", findings)),
        drivers: table.list("drivers", findings),
        pci_addresses: table.list("pciAddresses", findings),
        acpi_indexes: table.list("acpiIndexes", findings),
        interfaces: Vec::new(),
        pf_names: table.list("pfNames", findings),
        root_devices: table.list("rootDevices", findings),
        link_types: table.list("linkTypes", findings),
        pkeys: table.list("pKeys", findings),
        auxiliary_types: table.list("auxTypes", findings),
        rdma_devices: table.list("rdmaDevices", findings),
        numa_nodes: table.list("numaNodes", findings),
        rails: table.list("rails", findings),
        is_rdma: table.flag("isRdma", findings),
    };
    table.refuse("ddpProfiles", "selecting by DDP profile is not supported: select by pfNames", findings);
    table.refuse("vdpaType", "vDPA devices are not supported", findings);
    (selector, table.flag("needVhostNet", findings))
}
