//! `sriov`: the claim of a VF, its move into the pod, and its return to the host.

use std::{fs, thread};

use serde_json::{Value, json};
use testkit::{Call, FakeIpam, Observe, TestPod, wait_until};

use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, LabVf},
};

/// Returns a call of `sriov` for a VF and a pod, without addresses unless `settings` has an `ipam`.
pub(crate) fn call(machine: &LabMachine, vf: &LabVf, pod: &TestPod, settings: Value) -> Call {
    let mut conf = json!({"deviceID": vf.pci, "ipam": {}});
    conf.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    machine.plugin("sriov", &conf).pod(pod)
}

#[test]
fn case_084_a_device_that_is_not_a_vf_is_refused() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let before = machine.node.snapshot();
    let with = |device: &str| call(&machine, &vf, &pod, json!({"deviceID": device})).add();
    with("0000:ff:1f.7").error(7).says(&["deviceID", "0000:ff:1f.7", "no PCI device"]);
    with("mlx5_core.sf.6").error(7).says(&["deviceID", "mlx5_core.sf.6"]);
    with("../../etc").error(7).says(&["deviceID", "../../etc"]);
    let missing = with("").error(7);
    missing.says(&["VF pci addr is required"]);
    assert!(
        missing.details.contains("resourceName") && missing.details.contains("device plugin"),
        "{missing:?}"
    );
    let pf = fs::read_link("/sys/class/net/eth0/device").unwrap();
    let pf = pf.file_name().unwrap().to_str().unwrap();
    with(pf).error(7).says(&[pf, "is not a VF"]);
    call(&machine, &vf, &pod, json!({})).stdin("{{{").add().error(6);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn the_device_id_is_accepted_in_runtime_config() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let call = call(&machine, &vf, &pod, json!({"deviceID": "", "runtimeConfig": {"deviceID": vf.pci}}));
    call.add().ok();
    assert_eq!(pod.link("net1").unwrap()["parentdev"], vf.pci);
    call.del().done();
}

#[test]
fn case_091_the_mtu_of_the_vf_is_kept_and_restored() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 1), machine.node.pod("a"));
    machine.node.run_ip(&format!("link set {} mtu 3333", vf.link));
    let call = call(&machine, &vf, &pod, json!({}));
    let result = call.add().ok();
    assert_eq!(result["interfaces"][0]["mtu"], 3333);
    assert_eq!(pod.link("net1").unwrap()["mtu"], 3333);
    pod.run_ip("link set net1 mtu 4444");
    call.del().done();
    assert_eq!(machine.node.link(&vf.link).unwrap()["mtu"], 3333);
    machine.node.run_ip(&format!("link set {} mtu 1500", vf.link));
}

#[test]
fn case_092_the_result_contains_the_effective_mac_and_the_pci_function() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 2), machine.node.pod("a"));
    let call = call(&machine, &vf, &pod, json!({}));
    let result = call.add().ok();
    assert_eq!(result["interfaces"][0]["mac"], pod.link("net1").unwrap()["address"]);
    assert_eq!(result["interfaces"][0]["pciID"], vf.pci);
    assert_eq!(result["interfaces"][0]["sandbox"], pod.path().to_str().unwrap());
    call.del().done();
}

#[test]
fn case_093_a_vf_in_use_is_refused_and_one_of_a_dead_pod_is_taken_over() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 0);
    let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
    let former = Chain::new(&machine, &vf, &first, json!({"vlan": 77}));
    former.add();
    let held = machine.node.snapshot();
    let next = call(&machine, &vf, &second, json!({})).container("next");
    next.add().error(102).says(&["is already allocated"]);
    machine.node.snapshot().assert_is(&held);

    // The pod ends without a DEL: the next ADD restores the VF before it claims it.
    first.end();
    next.add().ok();
    assert_eq!(second.link("net1").unwrap()["parentdev"], vf.pci);
    assert_eq!(machine.vf_info(&vf)["vlan_list"], json!([{}]), "the former pod's VLAN is gone");
    next.del().done();
    drop(second);
    former.del();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn unreadable_claims_are_quarantined_and_all_are_kept() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let dir = machine.node.state_dir().join("vf");
    fs::create_dir_all(&dir).unwrap();
    let call = call(&machine, &vf, &pod, json!({}));
    for (content, suffix) in [("", ".bad"), ("garbage", ".bad.1"), ("{\"version\":99}", ".bad.2")] {
        fs::write(dir.join(&vf.pci), content).unwrap();
        let answer = call.add();
        answer.ok();
        assert!(answer.stderr.contains("quarantined"), "{answer:?}");
        call.del().done();
        assert_eq!(fs::read_to_string(dir.join(format!("{}{suffix}", vf.pci))).unwrap(), content);
    }
}

#[test]
fn case_094_of_two_concurrent_adds_one_succeeds() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 3);
    let pods = [machine.node.pod("a"), machine.node.pod("b")];
    let ipam = FakeIpam::returning(&machine.node, &json!({"ips": [{"address": "10.9.0.2/24"}]}));
    ipam.delay(1.0);
    let calls = [0, 1].map(|i| {
        call(&machine, &vf, &pods[i], json!({"ipam": {"type": "fake"}}))
            .delegates_in(ipam.dir())
            .container(&format!("rival{i}"))
    });
    let answers = thread::scope(|scope| {
        calls.each_ref().map(|call| scope.spawn(|| call.add())).map(|thread| thread.join().unwrap())
    });
    let succeeded: Vec<_> = answers.iter().map(|answer| answer.status.success()).collect();
    assert_eq!(succeeded.iter().filter(|it| **it).count(), 1, "{answers:#?}");
    let refused = usize::from(succeeded[0]);
    answers[refused].error(102).says(&["is already allocated"]);
    calls[0].del().done();
    calls[1].del().done();
    drop(pods);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_095_a_slow_del_does_not_affect_the_next_pod() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 4);
    let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
    let ipam = FakeIpam::returning(&machine.node, &json!({"ips": [{"address": "10.9.0.2/24"}]}));
    let old = call(&machine, &vf, &first, json!({"vlan": 1000, "ipam": {"type": "fake"}}))
        .delegates_in(ipam.dir())
        .container("old");
    let new = call(&machine, &vf, &second, json!({"vlan": 1234})).container("new");
    old.add().ok();
    ipam.delay(2.0);
    thread::scope(|scope| {
        let slow = scope.spawn(|| old.del());
        // It has moved the VF to the host.
        wait_until("DEL waits for the IPAM plugin", || ipam.begun() == 2);
        first.end();
        new.add().ok();
        slow.join().unwrap().done();
    });
    let vlan = &machine.vf_info(&vf)["vlan_list"][0]["vlan"];
    assert_eq!(*vlan, 1234, "the old pod's DEL does not change the new pod's VLAN");
    new.del().done();
}

#[test]
fn case_097_an_altname_equal_to_the_interface_name_is_accepted() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 5);
    machine.node.run_ip(&format!("link property add dev {} altname net1", vf.link));
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let call = call(&machine, &vf, &pod, json!({}));
    call.add().ok();
    assert_eq!(pod.link("net1").unwrap()["parentdev"], vf.pci);
    call.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
    machine.node.run_ip(&format!("link property del dev {} altname net1", vf.link));
}

#[test]
fn case_103_del_without_state_still_calls_the_ipam_plugin() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let ipam = FakeIpam::returning(&machine.node, &json!({"ips": [{"address": "10.9.0.2/24"}]}));
    let call = call(&machine, &vf, &pod, json!({"ipam": {"type": "fake"}})).delegates_in(ipam.dir());
    call.del().done();
    assert_eq!(ipam.verbs(), ["DEL"]);
}

#[test]
fn case_104_a_late_del_does_not_change_the_vf_of_the_next_pod() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 0);
    let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
    let old = Chain::new(&machine, &vf, &first, json!({"vlan": 7}));
    old.add();
    first.end();
    let new = call(&machine, &vf, &second, json!({"vlan": 8})).container("new");
    new.add().ok();
    let held = machine.node.snapshot();
    old.sriov().del().done();
    let after = machine.node.snapshot();
    let difference = after.difference(&held);
    assert!(!difference.contains("link") && !difference.contains("vf/"), "{difference}");
    assert_eq!(second.link("net1").unwrap()["parentdev"], vf.pci);
    new.del().done();
    old.rdma().del().done();
}

#[test]
fn case_105_a_vf_returned_under_another_name_is_renamed() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 6), machine.node.pod("a"));
    let call = call(&machine, &vf, &pod, json!({"vlan": 9}));
    call.add().ok();
    pod.run_ip("link set net1 mtu 4444");
    pod.end();
    wait_until("the VF is on the host", || !machine.vf("eth1", 6).link.is_empty());
    machine.node.run_ip(&format!("link set {} name dev7", machine.vf("eth1", 6).link));
    call.del().done();
    assert_eq!(machine.vf("eth1", 6).link, vf.link);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_107_every_log_line_identifies_its_attachment() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let file = machine.node.log_file("log");
    let to_file = call(&machine, &vf, &pod, json!({"logFile": file, "logLevel": "debug"}));
    let answer = to_file.add();
    answer.ok();
    assert_eq!(answer.stderr, "", "with logFile nothing is written to stderr");
    let log = fs::read_to_string(&file).unwrap();
    assert!(!log.is_empty());
    for line in log.lines() {
        for part in ["level=", "msg=", "cniName=sriov", "containerID=", "netns=", "ifname=net1"] {
            assert!(line.contains(part), "{part} is missing: {line}");
        }
    }
    to_file.del().done();
    let quiet = call(&machine, &vf, &pod, json!({"logLevel": "error"}));
    let answer = quiet.add();
    answer.ok();
    assert_eq!(answer.stderr, "");
    quiet.del().done();
}

#[test]
fn case_108_a_name_in_use_in_the_pod_is_refused_and_the_vf_stays_on_the_host() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    pod.run_ip("link add net1 type dummy");
    let before = machine.node.snapshot();
    call(&machine, &vf, &pod, json!({"vlan": 5})).add().error(102).says(&["net1", "already exists"]);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_016_the_host_namespace_is_refused_before_any_change() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let own = call(&machine, &vf, &pod, json!({"vlan": 5})).env("CNI_NETNS", "/proc/self/ns/net");
    own.add().error(8).says(&["should not be the same"]);
    own.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_2_del_succeeds_after_the_vf_was_removed() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 6}));
    chain.add();
    fs::write("/sys/class/net/eth1/device/sriov_numvfs", "0").unwrap();
    chain.del();
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn a_vf_in_use_by_the_node_is_refused() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 6), machine.node.pod("a"));
    machine.node.run_ip(&format!("address add 10.66.0.1/24 dev {}", vf.link));
    let before = machine.node.snapshot();
    call(&machine, &vf, &pod, json!({"vlan": 5}))
        .add()
        .error(102)
        .says(&["in use by the node", "10.66.0.1/24"]);
    machine.node.snapshot().assert_is(&before);
    machine.node.run_ip(&format!("address del 10.66.0.1/24 dev {}", vf.link));
}

#[test]
fn a_vf_with_a_dynamic_address_is_accepted_and_returned_up() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 6), machine.node.pod("a"));
    let lease = |address: &str| {
        machine
            .node
            .run_ip(&format!("address add {address} dev {} valid_lft 600 preferred_lft 600", vf.link));
    };
    let is_up = || {
        let flags = machine.node.link(&vf.link).unwrap()["flags"].clone();
        flags.as_array().unwrap().contains(&json!("UP"))
    };
    machine.node.run_ip(&format!("link set {} up", vf.link));
    lease("10.66.0.1/24");
    machine.node.run_ip(&format!("address add fd00:66::1/64 dev {} mngtmpaddr nodad", vf.link));
    let call = call(&machine, &vf, &pod, json!({}));
    call.add().ok();
    assert!(pod.addresses("net1").is_empty());
    call.del().done();
    assert!(is_up());

    // The DHCP client or the kernel adds another address as soon as the VF is on the host.
    call.add().ok();
    pod.end();
    wait_until("the VF is on the host", || !machine.vf("eth0", 6).link.is_empty());
    let link = machine.vf("eth0", 6).link;
    machine.node.run_ip(&format!("link set {link} up"));
    machine.node.run_ip(&format!("address add 10.66.0.2/24 dev {link} valid_lft 600 preferred_lft 600"));
    call.del().done();
    assert!(is_up());
    assert_eq!(machine.node.addresses(&vf.link), ["10.66.0.2/24"]);
    machine.node.run_ip(&format!("address flush dev {}", vf.link));
    machine.node.run_ip(&format!("link set {} down", vf.link));
    // A link that was up has a qdisc. After a return to the host it has none.
    let pod = machine.node.pod("b");
    let again = call.pod(&pod);
    again.add().ok();
    again.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_vf_returns_when_its_names_are_in_use_on_the_host() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 5), machine.node.pod("a"));
    let call = call(&machine, &vf, &pod, json!({}));
    call.add().ok();
    machine.node.run_ip(&format!("link add {} type dummy", vf.link));
    machine.node.run_ip("link add net1 type dummy");
    call.del().done();
    assert!(!machine.vf("eth1", 5).link.is_empty(), "it is on the host, under another name");
    machine.node.run_ip(&format!("link del {}", vf.link));
    machine.node.run_ip("link del net1");
    let name = machine.vf("eth1", 5).link;
    machine.node.run_ip(&format!("link set {name} name {}", vf.link));
}

#[test]
fn the_addresses_of_a_vf_are_announced_to_its_neighbours() {
    let machine = LabMachine::exclusive();
    let (vf, other) = (machine.vf("eth0", 0), machine.vf("eth1", 0));
    let (pod, neighbour) = (machine.node.pod("a"), machine.node.pod("b"));
    let listening = call(&machine, &other, &neighbour, json!({})).container("listening");
    listening.add().ok();
    // With arp_accept a host creates a neighbour entry from an unsolicited announcement.
    neighbour.set_sysctl("net/ipv4/conf/net1/arp_accept", "1");
    neighbour.run_ip("address add 10.9.0.1/24 dev net1");
    wait_until("the neighbour has a carrier", || neighbour.link("net1").unwrap()["operstate"] == "UP");
    // The IPv6 address has a stale entry of a former pod: IPv6 creates no entry from an unsolicited advertisement.
    let ips = ["10.9.0.2", "10.9.0.3", "10.8.0.2", "fd00:9::2"];
    neighbour.run_ip("neighbour add fd00:9::2 lladdr 02:00:00:00:00:01 nud stale dev net1");
    for default in ["accept_dad", "dad_transmits"] {
        pod.set_sysctl(&format!("net/ipv6/conf/default/{default}"), "1");
    }
    let given: Vec<_> =
        ips.map(|ip| json!({"address": format!("{ip}/{}", if ip.contains(':') { 64 } else { 24 })})).into();
    let ipam = FakeIpam::returning(&machine.node, &json!({"ips": given}));
    let announcing = call(&machine, &vf, &pod, json!({"ipam": {"type": "fake"}})).delegates_in(ipam.dir());
    // The plugin announces the addresses of a VF with a carrier; if the carrier comes later, the kernel announces them.
    let mac = announcing.add().ok()["interfaces"][0]["mac"].clone();
    wait_until("the neighbour has received the announcement", || {
        let known = neighbour.ip("neighbour show dev net1");
        ips.iter().all(|ip| known.iter().any(|entry| entry["dst"] == *ip && entry["lladdr"] == mac))
    });
    let own = pod.ip("neighbour show nud all dev net1");
    assert!(!own.iter().any(|entry| ips.contains(&entry["dst"].as_str().unwrap())), "{own:?}");
    announcing.del().done();
    listening.del().done();
}
