//! `sriov` with a busy driver, such as one that resets a function for each of its settings. `rdmasim` simulates the errors.

use serde_json::{Value, json};
use testkit::{Call, Observe, TestPod};

use silkrail_tests::machine::{LabMachine, LabVf, SimulatedSetting};

fn call(machine: &LabMachine, vf: &LabVf, pod: &TestPod, settings: Value) -> Call {
    let mut conf = json!({"deviceID": vf.pci, "ipam": {}});
    conf.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    machine.plugin("sriov", &conf).pod(pod)
}

/// Makes the VF's driver refuse a number of requests of each kind.
fn refusals(machine: &LabMachine, vf: &LabVf, counts: [(&str, u32); 3]) -> Vec<SimulatedSetting> {
    counts
        .map(|(what, count)| machine.simulate(&vf.pci, &format!("refuse/{what}"), &count.to_string()))
        .into()
}

/// Returns the PCI address of the PF of a VF.
fn pf(machine: &LabMachine, vf: &LabVf) -> String {
    let details = machine.node.link(vf.pf).unwrap();
    details["parentdev"].as_str().unwrap().to_owned()
}

#[test]
fn add_and_del_retry_while_the_driver_resets_the_vf() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 0);
    let pf = pf(&machine, &vf);
    for round in 0..2 {
        let pod = machine.node.pod("a");
        let mac = format!("c2:11:22:33:44:5{round}");
        let settings = json!({"vlan": 5, "trust": "on", "spoofchk": "off", "mac": mac, "mtu": 1400});
        let call = call(&machine, &vf, &pod, settings);
        let refusals = refusals(&machine, &vf, [("open", 3), ("mtu", 3), ("mac", 3)]);
        let by_the_pf = machine.simulate(&pf, "refuse/vf", "5");
        let result = call.add().ok();
        assert_eq!(result["interfaces"][0]["mac"], mac);
        let net1 = pod.link("net1").unwrap();
        assert_eq!((&net1["mtu"], &net1["address"]), (&json!(1400), &json!(mac)));
        assert_eq!(machine.vf_info(&vf)["trust"], true);
        for refusal in &refusals {
            refusal.set("3");
        }
        by_the_pf.set("5");
        call.del().done();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn del_retries_setting_a_vf_up_that_was_up_on_the_host() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 1), machine.node.pod("a"));
    machine.node.run_ip(&format!("link set {} up", vf.link));
    let call = call(&machine, &vf, &pod, json!({}));
    call.add().ok();
    let open = machine.simulate(&vf.pci, "refuse/open", "4");
    call.del().done();
    let flags = machine.node.link(&vf.link).unwrap()["flags"].clone();
    assert!(flags.as_array().unwrap().contains(&json!("UP")), "{flags}");
    drop(open);
    machine.node.run_ip(&format!("link set {} down", vf.link));
    // A link that was up has a qdisc. After a return to the host it has none.
    call.add().ok();
    call.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn the_former_mac_is_restored_by_a_busy_pf() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 2), machine.node.pod("a"));
    let admin = |mac: &str| machine.node.run_ip(&format!("link set eth0 vf {} mac {mac}", vf.index));
    admin("c2:00:00:00:00:99");
    let call = call(&machine, &vf, &pod, json!({"mac": "c2:11:22:33:44:55"}));
    // The journal records the former MAC address; the ADD is killed before it changes it.
    assert!(call.clone().fault("kill:3").add().was_killed());
    admin("c2:11:22:33:44:55");
    let busy = machine.simulate(&pf(&machine, &vf), "refuse/vf", "3");
    call.del().done();
    assert_eq!(machine.vf_info(&vf)["address"], "c2:00:00:00:00:99");
    drop(busy);
    admin("00:00:00:00:00:00");
}

#[test]
fn case_101_a_mac_that_the_driver_accepts_and_does_not_set_fails_the_add() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 4), machine.node.pod("a"));
    let ignored = [&vf.pci, &pf(&machine, &vf)].map(|pci| machine.simulate(pci, "ignore_mac", "Y"));
    let call = call(&machine, &vf, &pod, json!({"vlan": 7, "mac": "c2:11:22:33:44:55"}));
    let refusal = call.add().error(11);
    refusal.says(&["mac: effective mac address is different from requested one", "c2:11:22:33:44:55"]);
    assert!(refusal.details.contains("driver") && refusal.details.contains("mac"), "{refusal:?}");
    call.del().done();
    drop(ignored);
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_8_a_permanently_busy_driver_fails_the_add_within_its_time_limit() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 3), machine.node.pod("a"));
    let call = call(&machine, &vf, &pod, json!({"vlan": 7}));
    let busy = machine.simulate(&vf.pci, "refuse/open", "1000000");
    call.add().error(11).says(&["set up", "busy"]);
    assert!(
        busy.value() < 999_990,
        "the driver was asked too seldom: {} of 1,000,000 are left",
        busy.value()
    );
    drop(busy);
    call.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}
