//! The numbers of `/dev/infiniband/{uverbs,umad}N`: a container is given them before its RDMA device is moved.

use std::fs;

use serde_json::json;
use testkit::{Observe, wait_until};

use silkrail_tests::{
    chain::Chain,
    machine::{Machine, Vf},
};

/// A machine whose devices have all kinds of numbers.
fn machine() -> Machine {
    let machine = Machine::exclusive();
    machine.node.run("modprobe", &["ib_umad"]);
    assert!(machine.char_devices().values().all(|names| names.len() == 2), "{:?}", machine.char_devices());
    machine
}

fn of(machine: &Machine, vf: &Vf) -> Vec<String> {
    machine.char_devices()[&vf.pci].clone()
}

/// A VF without its driver, which it gets again when this value goes.
struct Unbound<'a> {
    machine: &'a Machine,
    vf: Vf,
}

impl<'a> Unbound<'a> {
    fn from(machine: &'a Machine, vf: &Vf) -> Self {
        fs::write("/sys/bus/pci/drivers/igbvf/unbind", &vf.pci).unwrap();
        Self { machine, vf: vf.clone() }
    }
}

impl Drop for Unbound<'_> {
    fn drop(&mut self) {
        let _ = fs::write("/sys/bus/pci/drivers/igbvf/bind", &self.vf.pci);
        let home = || self.machine.vf(self.vf.pf, self.vf.index);
        wait_until("the VF has its devices", || !home().link.is_empty() && !home().rdma.is_empty());
    }
}

#[test]
fn invariant_11_a_device_that_would_lose_its_numbers_is_not_moved() {
    let machine = machine();
    let before = machine.char_devices();
    let (lower, vf, pod) = (machine.vf("eth0", 1), machine.vf("eth0", 3), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let unbound = Unbound::from(&machine, &lower);
    let refusal = chain.rdma().with("prevResult", &result).add().error(100);
    refusal.says(&[&vf.rdma, &before[&vf.pci][0], &before[&lower.pci][0], "lowest numbers that are free"]);
    assert!(refusal.details.contains("bind it again"), "{refusal:?}");
    assert_eq!((machine.vf("eth0", 3).rdma, of(&machine, &vf)), (vf.rdma.clone(), before[&vf.pci].clone()));
    drop(unbound);
    chain.rdma().with("prevResult", &result).add().ok();
    assert_eq!(machine.char_devices(), before);
    chain.del();
    assert_eq!(machine.char_devices(), before);
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn an_infiniband_device_is_refused_with_the_reason() {
    let machine = machine();
    let (vf, pod) = (machine.vf("eth0", 6), machine.node.pod("a"));
    let _infiniband = machine.simulate(&vf.pci, "infiniband", "Y");
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let refusal = chain.rdma().with("prevResult", &result).add().error(7);
    refusal.says(&[&vf.rdma, "InfiniBand", "IPoIB"]);
    assert!(refusal.details.contains("ib-sriov"), "{refusal:?}");
    assert_eq!(machine.vf("eth0", 6).rdma, vf.rdma);
    assert!(pod.link("net1").is_some());
    chain.del();
    assert!(machine.node.snapshot().state().is_empty());
}
