//! `rdma`: cases 67 to 83.

use serde_json::{Value, json};
use testkit::Observe;

use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, rdma_devices},
};

/// Returns a result as `sriov` prints it.
fn prev(pod: &testkit::TestPod) -> Value {
    json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "net1", "sandbox": pod.path()}],
        "ips": [{"address": "172.81.0.100/16", "interface": 0}]
    })
}

#[test]
fn case_067_exactly_one_device_moves_and_the_result_is_passed_on() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let others: Vec<_> = machine.rdma_devices().into_iter().filter(|name| *name != vf.rdma).collect();
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.add();
    assert_eq!(rdma_devices(&pod), [vf.rdma]);
    assert_eq!(machine.rdma_devices(), others);
    chain.check(&result);
    chain.del();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_068_a_missing_auxiliary_device_is_named_in_the_error() {
    let machine = LabMachine::exclusive();
    let pod = machine.node.pod("a");
    let call =
        machine.plugin("rdma", &json!({"deviceID": "mlx5_core.sf.6", "prevResult": prev(&pod)})).pod(&pod);
    call.add().refusal().says(&["mlx5_core.sf.6"]);
}

#[test]
fn case_069_without_a_previous_result_nothing_is_moved() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let call = machine.plugin("rdma", &json!({"deviceID": vf.pci})).pod(&pod);
    call.add().error(7).says(&["plugin chain"]);
    assert!(machine.rdma_devices().contains(&vf.rdma));
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn case_070_in_shared_mode_add_is_refused_and_leaves_nothing() {
    let machine = LabMachine::shared();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let call = machine.plugin("rdma", &json!({"deviceID": vf.pci, "prevResult": prev(&pod)})).pod(&pod);
    let refusal = call.add().error(100);
    refusal.says(&["set to shared", "exclusive"]);
    assert!(refusal.details.contains("silkrail mode set exclusive"), "{refusal:?}");
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn case_071_a_function_without_an_rdma_device_is_named_with_its_driver() {
    let machine = LabMachine::exclusive();
    let pod = machine.node.pod("a");
    let bridge =
        machine.node.run("sh", &["-c", "basename $(dirname $(readlink -f /sys/class/net/eth0/device))"]);
    let call =
        machine.plugin("rdma", &json!({"deviceID": bridge.trim(), "prevResult": prev(&pod)})).pod(&pod);
    call.add().refusal().says(&[bridge.trim(), "no RDMA device"]);
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn the_device_of_a_pf_with_vfs_stays_on_the_node() {
    let machine = LabMachine::exclusive();
    let (pod, before) = (machine.node.pod("a"), machine.rdma_devices());
    let pf = machine.node.run("sh", &["-c", "basename $(readlink -f /sys/class/net/eth0/device)"]);
    let call = machine.plugin("rdma", &json!({"deviceID": pf.trim(), "prevResult": prev(&pod)})).pod(&pod);
    call.add().error(102).says(&[pf.trim(), "VFs"]);
    assert_eq!(machine.rdma_devices(), before);
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn case_072_both_devices_of_a_function_are_moved_and_returned() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 1);
    let _twin = machine.simulate(&vf.pci, "twins", "1");
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    assert_eq!(rdma_devices(&pod).len(), 2);
    chain.del();
    drop(pod);
    machine.node.snapshot().assert_is(&before);

    let pod = machine.node.pod("a");
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    pod.end();
    // Immediately: the kernel has returned neither device yet.
    chain.del();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_073_without_a_device_id_the_interface_of_the_pod_determines_the_device() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 0), machine.node.pod("a"));
    let sriov = machine.plugin("sriov", &json!({"deviceID": vf.pci, "cniVersion": "0.4.0"})).pod(&pod);
    let result = sriov.add().ok();
    let rdma = machine.plugin("rdma", &json!({"cniVersion": "0.4.0", "prevResult": result})).pod(&pod);
    rdma.add().ok();
    assert_eq!(rdma_devices(&pod), [vf.rdma]);
    rdma.del().done();
    sriov.del().done();

    let nothing = machine.plugin("rdma", &json!({"prevResult": prev(&pod)})).pod(&pod);
    nothing.add().error(7).says(&["\"DeviceID\" network configuration attribute is required for rdma CNI"]);
}

#[test]
fn case_075_del_without_state_moves_nothing_and_succeeds() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let before = machine.node.snapshot();
    let call = machine.plugin("rdma", &json!({"deviceID": vf.pci}));
    call.clone().pod(&pod).del().done();
    call.without("CNI_NETNS").del().done();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_076_del_without_a_namespace_path_returns_the_device() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    chain.rdma().clone().without("CNI_NETNS").del().done();
    chain.sriov().clone().without("CNI_NETNS").del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_077_del_after_the_namespace_is_gone_waits_for_the_device() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    pod.end();
    // Immediately: the kernel has not returned the device yet.
    chain.rdma().del().done();
    assert!(machine.rdma_devices().contains(&vf.rdma), "DEL waited until the device was on the host");
    chain.sriov().del().done();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_078_a_move_that_fails_leaves_nothing_and_names_the_driver() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 2), machine.node.pod("a"));
    {
        let _unmovable = machine.simulate(&vf.pci, "fail_move", "1");
        let call = machine.plugin("rdma", &json!({"deviceID": vf.pci, "prevResult": prev(&pod)})).pod(&pod);
        call.add().error(100).says(&[&vf.rdma, "cannot"]);
    }
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_079_check_fails_when_the_device_is_not_in_the_pod() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.add();
    // `rdma` accepts only names of namespaces.
    machine.node.run_ip("netns attach host 1");
    pod.run("rdma", &["dev", "set", &vf.rdma, "netns", "host"]);
    machine.node.run_ip("netns delete host");
    chain.rdma().check_after(&result).error(103).says(&[&vf.rdma]);
    chain.del();
}

#[test]
fn check_applies_the_log_settings_of_the_configuration() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.add();
    let invalid = chain.rdma().with("logFile", &json!("relative"));
    invalid.check_after(&result).error(7).says(&["logFile", "absolute path"]);
    chain.del();
}

#[test]
fn invariant_6_a_second_add_is_refused_and_changes_nothing() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 100}));
    let result = chain.add();
    let between = machine.node.snapshot();
    chain.sriov().add().error(102).says(&["already exists"]);
    chain.rdma().with("prevResult", &result).add().error(102).says(&["already exists"]);
    machine.node.snapshot().assert_is(&between);
    chain.del();
}

#[test]
fn an_unreadable_pod_map_entry_is_quarantined_and_the_pod_starts() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let map = machine.node.state_dir().join("podmap/v1");
    let entries: Vec<_> = std::fs::read_dir(&map).unwrap().map(|entry| entry.unwrap().path()).collect();
    std::fs::write(&entries[0], "{\"schema\":\"podmap/2.0\"}").unwrap();
    let answer = chain.rdma().with("prevResult", &result).add();
    answer.ok();
    assert!(answer.stderr.contains("quarantined"), "{answer:?}");
    let quarantined = format!("{}.bad", entries[0].display());
    assert_eq!(std::fs::read_to_string(&quarantined).unwrap(), "{\"schema\":\"podmap/2.0\"}");
    chain.del();
    assert!(std::path::Path::new(&quarantined).exists());
}

#[test]
fn case_082_status_in_shared_mode_is_50_with_the_remedy() {
    let machine = LabMachine::shared();
    let refusal = machine.plugin("rdma", &json!({})).status().error(50);
    assert!(refusal.details.contains("silkrail mode set exclusive --persist"), "{refusal:?}");
}

#[test]
fn the_pod_reads_the_counters_of_its_own_device() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 3), machine.node.pod("a"));
    let _counter = machine.simulate(&vf.pci, "counters/rx_write_requests", "4711");
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    let statistics = pod.rdma("statistic show");
    assert_eq!(statistics.len(), 1, "{statistics:?}");
    assert_eq!(statistics[0]["rx_write_requests"], 4711);
    chain.del();
}
