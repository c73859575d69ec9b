//! `ipvlan`: cases 57 to 66. The kernel of the build machine may not support ipvlan; that of the lab does.

use serde_json::{Value, json};
use testkit::{FakeIpam, Observe, Share};

use silkrail_tests::machine::LabMachine;

fn linkinfo(link: &Value) -> (&Value, &Value) {
    (&link["linkinfo"]["info_kind"], &link["linkinfo"]["info_data"]["mode"])
}

#[test]
fn case_057_the_modes_are_those_of_the_kernel() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    for (settings, mode) in [
        (json!({}), "l2"),
        (json!({"mode": "l2"}), "l2"),
        (json!({"mode": "l3"}), "l3"),
        (json!({"mode": "l3s"}), "l3s"),
    ] {
        let mut conf = json!({"master": "eth0"});
        conf.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let call = machine.plugin("ipvlan", &conf).pod(&pod);
        call.add().ok();
        let link = pod.link("net1").unwrap();
        assert_eq!(linkinfo(&link), (&json!("ipvlan"), &json!(mode)));
        call.del().done();
    }
    let invalid = machine.plugin("ipvlan", &json!({"master": "eth0", "mode": "l4"})).pod(&pod);
    invalid.add().error(7).says(&["unknown ipvlan mode: \"l4\""]);
}

#[test]
fn case_058_add_check_del_and_the_masters_mac() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let call = machine.plugin("ipvlan", &json!({"master": "eth0"})).pod(&pod);
    let result = call.add().ok();
    assert_eq!(pod.link("net1").unwrap()["address"], machine.node.link("eth0").unwrap()["address"]);
    assert_eq!(pod.addresses("net1"), ["172.81.0.100/16"]);
    call.check_after(&result).done();
    call.del().done();
    call.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_059_in_a_chain_it_uses_the_addresses_and_interface_of_the_previous_result() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let prev = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "eth0"}],
        "ips": [{"address": "10.8.0.2/24", "interface": 0}],
        "routes": [{"dst": "10.20.0.0/16", "gw": "10.8.0.1"}]
    });
    let call = machine.plugin("ipvlan", &json!({"ipam": {}, "prevResult": prev})).pod(&pod);
    let result = call.add().ok();
    assert_eq!(result["interfaces"].as_array().unwrap().len(), 1);
    assert_eq!(result["interfaces"][0]["name"], "net1");
    assert_eq!(result["routes"], prev["routes"]);
    assert_eq!(pod.addresses("net1"), ["10.8.0.2/24"]);
    call.check_after(&result).done();
    call.del().done();
}

#[test]
fn case_060_a_chain_with_two_interfaces_needs_a_master() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let prev = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "eth0"}, {"name": "eth1"}],
        "ips": [{"address": "10.8.0.2/24"}]
    });
    let call = machine.plugin("ipvlan", &json!({"ipam": {}, "prevResult": prev})).pod(&pod);
    call.add().error(7).says(&["chained master failure"]);
    assert_eq!(pod.link_names(), ["lo"]);
}

#[test]
fn case_061_without_any_address_no_link_is_created() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let call = machine.plugin("ipvlan", &json!({"master": "eth0", "ipam": {}})).pod(&pod);
    call.add().error(7).says(&["ipam"]);
    assert_eq!(pod.link_names(), ["lo"]);
}

#[test]
fn case_062_without_a_master_the_default_route_determines_it() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    machine.node.run_ip("address add 10.77.0.1/24 dev eth1");
    machine.node.run_ip("route add default via 10.77.0.254 dev eth1");
    let call = machine.plugin("ipvlan", &json!({})).pod(&pod);
    let result = call.add().ok();
    assert_eq!(pod.link("net1").unwrap()["address"], machine.node.link("eth1").unwrap()["address"]);
    call.check_after(&result).done();
    call.del().done();
    machine.node.run_ip("address del 10.77.0.1/24 dev eth1");
}

#[test]
fn case_063_and_064_del_needs_no_master() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let ipam = FakeIpam::returning(&machine.node, &json!({"ips": [{"address": "10.9.0.2/24"}]}));
    let call = machine.plugin("ipvlan", &json!({"ipam": {"type": "fake"}})).delegates_in(ipam.dir());
    call.clone().pod(&pod).del().done();
    let inside = call.with("linkInContainer", &json!(true)).pod(&pod);
    pod.end();
    inside.del().done();
    assert_eq!(ipam.verbs(), ["DEL", "DEL"]);
}

#[test]
fn case_065_an_mtu_above_the_masters_is_refused() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let call = machine.plugin("ipvlan", &json!({"master": "eth0", "mtu": 9000})).pod(&pod);
    call.add().error(7).says(&["invalid MTU 9000", "1500"]);
    assert_eq!(pod.link_names(), ["lo"]);
}

#[test]
fn case_066_a_macvlan_on_the_same_master_is_reported() {
    let machine = LabMachine::shared();
    let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
    let macvlan = machine.plugin("macvlan", &json!({"master": "eth0"})).pod(&first).container("first");
    macvlan.add().ok();
    let before = machine.node.snapshot();
    let ipvlan = machine.plugin("ipvlan", &json!({"master": "eth0"})).pod(&second);
    ipvlan.add().error(102).says(&["eth0", "macvlan"]);
    machine.node.snapshot().assert_is(&before);
    macvlan.del().done();
}

#[test]
fn case_066_an_ipvlan_on_the_same_master_is_reported() {
    let machine = LabMachine::shared();
    let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
    let ipvlan = machine.plugin("ipvlan", &json!({"master": "eth0"})).pod(&first).container("first");
    ipvlan.add().ok();
    let before = machine.node.snapshot();
    let macvlan = machine.plugin("macvlan", &json!({"master": "eth0"})).pod(&second);
    macvlan.add().error(102).says(&["eth0", "ipvlan"]);
    machine.node.snapshot().assert_is(&before);
    ipvlan.del().done();
}

#[test]
fn case_054_a_master_of_infiniband_is_refused_with_the_plugin_to_use() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    machine.node.run("modprobe", &["tun"]);
    // TUNSETIFF with IFF_TAP | IFF_NO_PI, TUNSETLINK with ARPHRD_INFINIBAND, TUNSETPERSIST.
    let make = "open(my $tap, '+<', '/dev/net/tun') or die $!; my $name = pack('a16 s x22', 'ib0', 0x1002);
        ioctl($tap, 0x400454ca, $name) or die $!; ioctl($tap, 0x400454cd, 32) or die $!;
        ioctl($tap, 0x400454cb, 1) or die $!";
    machine.node.run("perl", &["-e", make]);
    assert_eq!(machine.node.link("ib0").unwrap()["link_type"], "infiniband");
    let before = machine.node.snapshot();
    for plugin in ["macvlan", "ipvlan"] {
        let call = machine.plugin(plugin, &json!({"master": "ib0"})).pod(&pod);
        let refusal = call.add().error(7);
        refusal.says(&["ib0", "InfiniBand"]);
        assert!(refusal.details.contains("ipoib"), "{refusal:?}");
        call.status().error(50).says(&["ib0", "InfiniBand"]);
        call.del().done();
    }
    machine.node.snapshot().assert_is(&before);
    machine.node.run_ip("link delete ib0");
}

#[test]
fn invariant_1_ipvlan_fails_or_is_killed_at_every_step_and_leaves_nothing() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let before = machine.node.snapshot();
    let call = machine.plugin("ipvlan", &json!({"master": "eth0"})).pod(&pod);
    for fault in ["error", "kill"] {
        for step in Share::of_tests_of(&["plugins/main/ipvlan"]).steps(&format!("ipvlan {fault}")) {
            let answer = call.clone().fault(&format!("{fault}:{step}")).add();
            if answer.status.success() {
                assert!(step > 6, "only {step} steps were seen");
                call.del().done();
                break;
            }
            if answer.was_killed() {
                call.del().done();
            }
            machine.node.snapshot().assert_is(&before);
        }
    }
}

#[test]
fn a_kernel_without_ipvlan_is_reported_with_the_remedy() {
    /// Prevents the kernel from loading modules, for as long as this value lives.
    struct WithoutModules(String);

    const LOADER: &str = "/proc/sys/kernel/modprobe";

    impl Drop for WithoutModules {
        fn drop(&mut self) {
            std::fs::write(LOADER, &self.0).unwrap();
        }
    }

    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let call = machine.plugin("ipvlan", &json!({"master": "eth0"})).pod(&pod);
    let before = machine.node.snapshot();
    let without = WithoutModules(std::fs::read_to_string(LOADER).unwrap());
    std::fs::write(LOADER, "/bin/false").unwrap();
    machine.node.run("modprobe", &["-r", "ipvlan"]);
    let refusal = call.add().refusal();
    refusal.says(&["this kernel does not support ipvlan links", "module ipvlan"]);
    assert!(
        refusal.details.contains("modprobe ipvlan") && refusal.details.contains("linux-modules-extra"),
        "{refusal:?}"
    );
    machine.node.snapshot().assert_is(&before);
    drop(without);
    // Loaded here, because loading on a busy machine may take longer than the netlink timeout of a plugin.
    machine.node.run("modprobe", &["ipvlan"]);
    call.add().ok();
    call.del().done();
}
