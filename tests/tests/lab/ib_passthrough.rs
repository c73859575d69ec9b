//! `ib-sriov`: functions for virtual machines, which are bound to `vfio-pci` and have no link.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use testkit::Observe;

use silkrail_tests::infiniband::InfinibandMachine;

use crate::ib_sriov::{GUID, ib_sriov};

/// A function that is bound to vfio-pci until this value is dropped. The lab's driver of that name does nothing, because the
/// kernel's needs an IOMMU.
struct BoundToVfio(PathBuf);

impl BoundToVfio {
    fn from(pci: &str) -> Self {
        let this = Self(Path::new("/sys/bus/pci/devices").join(pci));
        this.rebind("vfio-pci");
        this
    }

    fn rebind(&self, driver: &str) {
        fs::write(self.0.join("driver_override"), driver).unwrap();
        let pci = self.0.file_name().unwrap().to_str().unwrap();
        fs::write(self.0.join("driver/unbind"), pci).unwrap();
        fs::write(Path::new("/sys/bus/pci/drivers").join(driver).join("bind"), pci).unwrap();
    }
}

impl Drop for BoundToVfio {
    fn drop(&mut self) {
        self.rebind("rdmasim_ib");
    }
}

#[test]
fn a_version_whose_results_need_addresses_is_refused_for_a_virtual_machine() {
    let machine = InfinibandMachine::exclusive();
    let (vf, pod) = (machine.vf(1), machine.machine.node.pod("a"));
    let vfio = BoundToVfio::from(&vf.pci);
    let before = machine.machine.node.snapshot();
    let call = ib_sriov(
        &machine,
        &vf,
        &pod,
        &json!({"cniVersion": "0.2.0", "runtimeConfig": {"infinibandGUID": GUID}}),
    );
    call.add().error(1).says(&["no valid IP addresses"]);
    machine.machine.node.snapshot().assert_is(&before);
    drop((vfio, pod));
}

#[test]
fn case_115_a_vf_for_a_virtual_machine_gets_its_guid_without_a_link() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let (vf, pod) = (machine.vf(1), machine.machine.node.pod("a"));
    let vfio = BoundToVfio::from(&vf.pci);
    let keys = json!({"vfioPciMode": true, "runtimeConfig": {"infinibandGUID": GUID}});
    let call = ib_sriov(&machine, &vf, &pod, &keys);
    let result = call.add().ok();
    assert_eq!(result["interfaces"][0]["pciID"], vf.pci);
    assert_eq!(result["ips"], Value::Null, "without a link there are no addresses");
    assert_eq!(machine.vf_info(1)["port guid"], GUID);
    assert!(pod.link("net1").is_none());
    call.check_after(&result).done();
    call.del().done();
    assert_eq!(machine.vf_info(1)["port guid"], "02:00:00:00:00:00:00:02");
    // The PF's driver may not know the GUID, and there is no RDMA device to isolate.
    machine
        .machine
        .node
        .run_ip(&format!("link set {} vf 1 port_guid 00:00:00:00:00:00:00:00", machine.pf_link()));
    let call = ib_sriov(&machine, &vf, &pod, &json!({"rdmaIsolation": true}));
    call.add().ok();
    call.del().done();
    machine
        .machine
        .node
        .run_ip(&format!("link set {} vf 1 port_guid 02:00:00:00:00:00:00:02", machine.pf_link()));
    drop((vfio, pod));
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_116_a_pf_for_a_virtual_machine_is_passed_without_changes() {
    let mut machine = InfinibandMachine::exclusive();
    let pod = machine.machine.node.pod("a");
    let call = machine.plugin("ib-sriov", &json!({"deviceID": machine.pf})).pod(&pod);
    call.add().error(7).says(&["requires vfioPciMode", &machine.pf]);
    machine.remove_vfs();
    let vfio = BoundToVfio::from(&machine.pf);
    let result = call.add().ok();
    assert_eq!(result["interfaces"][0]["name"], "net1");
    assert_eq!(result["interfaces"][0]["pciID"], machine.pf);
    call.check_after(&result).done();
    call.del().done();
    assert!(machine.machine.node.snapshot().state().is_empty());
    drop(vfio);
}
