//! A resource of sriov-network-device-plugin: an item of `resourceList`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    resource_spec::{ExclusiveType, ResourceMode, ResourceSpec},
    table::{Findings, Table},
    values::{hexadecimal, ignores_port, name},
};
use crate::{Selector, VfSelection};

/// The domain of resources without `resourcePrefix`.
const DEFAULT_PREFIX: &str = "intel.com";

/// Reads an item; `None` if it is invalid, which is reported.
pub(super) fn read(
    mut table: Table<'_>,
    prefix: Option<&str>,
    findings: &mut Findings,
) -> Option<ResourceSpec> {
    let path = table.path().to_owned();
    let name = name(&mut table, prefix.unwrap_or(DEFAULT_PREFIX), findings);
    let device_type = device_type(&mut table, findings);
    // The other types are refused anyway.
    let keys = device_type.unwrap_or(ExclusiveType::Network);
    let has_topology = !table.flag("excludeTopology", findings);
    let sets_nccl_conf = table.flag("ncclConf", findings);
    let ignores_port = ignores_port(&mut table, findings);
    let info = table.object("additionalInfo", findings);
    let selector_tables = table.tables("selectors", findings);
    let mut is_valid = true;
    let mut selectors = Vec::new();
    for mut item in selector_tables {
        selectors.push(selector(&mut item, keys, findings));
        is_valid &= item.end(findings);
    }
    if selectors.is_empty() && table.is_valid() {
        table.invalid(&path, "selectors is missing: without it, the resource has no device".into(), findings);
    }
    is_valid &= table.end(findings);
    let (name, device_type, ignores_port) = (name?, device_type?, ignores_port?);
    let additional_info: BTreeMap<String, Value> =
        info.into_iter().flatten().map(|(id, info)| (id.clone(), info.clone())).collect();
    let mode = ResourceMode::Exclusive(device_type);
    is_valid.then_some(ResourceSpec {
        name,
        mode,
        selectors,
        has_topology,
        sets_nccl_conf,
        ignores_port,
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

/// The keys that sriov-network-device-plugin does not evaluate for a type (`GetFilteredDevices` in
/// pkg/netdevice/netDeviceProvider.go and pkg/auxnetdevice/auxNetDeviceProvider.go).
fn without_effect(device_type: ExclusiveType) -> &'static [&'static str] {
    match device_type {
        ExclusiveType::Network => &["auxTypes"],
        ExclusiveType::Auxiliary => &["pciAddresses", "acpiIndexes", "pKeys", "ddpProfiles", "vdpaType"],
    }
}

fn selector(table: &mut Table<'_>, device_type: ExclusiveType, findings: &mut Findings) -> Selector {
    for key in without_effect(device_type) {
        table.without_effect(
            key,
            &format!("it has no effect with deviceType {}", device_type.key()),
            findings,
        );
    }
    let mut selector = Selector {
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
        needs_vhost_net: table.flag("needVhostNet", findings),
    };
    keep_first_of_pf(&mut selector.pf_names, table, "pfNames", findings);
    keep_first_of_pf(&mut selector.root_devices, table, "rootDevices", findings);
    table.refuse("ddpProfiles", "selecting by DDP profile is not supported: select by pfNames", findings);
    table.refuse("vdpaType", "vDPA devices are not supported", findings);
    selector
}

/// Removes the items of a PF that an earlier one has, as sriov-network-device-plugin takes the first one only (`getItem` in
/// pkg/resources/deviceSelectors.go): another resource may have the other VFs.
fn keep_first_of_pf(
    list: &mut Vec<VfSelection>,
    table: &Table<'_>,
    key: &'static str,
    findings: &mut Findings,
) {
    let mut kept: Vec<VfSelection> = Vec::new();
    for item in list.drain(..) {
        match kept.iter().find(|first| first.pf.eq_ignore_ascii_case(&item.pf)) {
            Some(first) => {
                let what = format!(
                    "{item} has no effect after {first}, which is of the same PF: write all VFs in one item, such as {}#0-1,4",
                    item.pf
                );
                findings.ignored(&format!("{}.{key}", table.path()), what);
            }
            None => kept.push(item),
        }
    }
    *list = kept;
}
