//! How an interface plugin calls its IPAM plugin.

use std::{
    fs::{self, OpenOptions},
    thread,
    time::Duration,
};

use serde_json::json;
use testkit::{FakeIpam, Observe};

use silkrail_tests::rail::RailNode;

#[test]
fn an_ipam_plugin_that_does_not_know_the_version_is_named_and_keeps_no_pod_from_ending() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    ipam.knows_only(&["1.0.0", "0.4.0"]);
    let call = rail.with_ipam(&ipam);
    let refusal = call.add().error(1);
    refusal.says(&[ipam.path().to_str().unwrap(), "does not support cniVersion 1.1.0", "only 0.4.0, 1.0.0"]);
    assert!(refusal.details.starts_with("set cniVersion of the network to 1.0.0"), "{refusal:?}");
    assert!(!refusal.details.contains("not reverted"), "{refusal:?}");
    call.del().done();
    rail.node.snapshot().assert_is(&before);
    // Plugins of that version do not know the operation either.
    ipam.fails("STATUS", 4, "unknown CNI_COMMAND: STATUS");
    call.status().error(50).says(&["does not support cniVersion 1.1.0"]);
    // The plugin was replaced by an older one since the ADD.
    let call = call.with("cniVersion", &json!("1.0.0"));
    call.add().ok();
    ipam.knows_only(&["0.4.0"]);
    call.del().done();
    let released = ipam.calls().pop().unwrap();
    assert_eq!(released.var("CNI_COMMAND"), "DEL");
    assert!(String::from_utf8(released.stdin).unwrap().contains(r#""cniVersion":"0.4.0""#));
}

#[test]
fn case_021_the_error_of_a_missing_ipam_plugin_has_the_search_path() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({"ipam": {"type": "missing"}}));
    let cni_path = rail.node.cni_path().display();
    call.add().error(7).says(&["failed to find plugin \"missing\" in path [", &cni_path.to_string()]);
    rail.node.snapshot().assert_is(&before);
    call.status().error(7).says(&["failed to find plugin"]);
}

#[test]
fn an_ipam_type_that_is_a_path_is_refused() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({"ipam": {"type": "../bin/sh"}}));
    assert_eq!(call.add().error(7).msg, "invalid plugin name: ../bin/sh");
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn case_022_the_ipam_plugin_gets_our_configuration_and_our_environment() {
    let rail = RailNode::new();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    // Blanks, another order and unknown keys are passed on byte for byte.
    let stdin = format!(
        "{{ \"future\":[1 ,2],\n\t\"name\":\"rail\", \"cniVersion\":\"1.1.0\",\"type\":\"macvlan\",\"stateDir\":{:?},\
         \"master\":\"rail0\",\"ipam\":{{\"type\":\"fake\"}} }}\n",
        rail.node.state_dir()
    );
    let call =
        rail.with_ipam(&ipam).stdin(stdin).args("IgnoreUnknown=1;K8S_POD_NAME=a").env("TRACEPARENT", "00-1");
    call.add().ok();
    call.del().done();
    let calls = ipam.calls();
    assert_eq!(ipam.verbs(), ["ADD", "DEL"]);
    for recorded in &calls {
        assert_eq!(recorded.stdin, call.sent());
        assert_eq!(recorded.var("CNI_CONTAINERID"), "c0ffee");
        assert_eq!(recorded.var("CNI_IFNAME"), "net1");
        assert_eq!(recorded.var("CNI_NETNS"), rail.pod.path().to_str().unwrap());
        assert_eq!(recorded.var("CNI_ARGS"), "IgnoreUnknown=1;K8S_POD_NAME=a");
        assert_eq!(recorded.var("TRACEPARENT"), "00-1");
        let path = format!("{}:{}", ipam.dir().display(), rail.node.cni_path().display());
        assert_eq!(recorded.var("CNI_PATH"), path);
    }
}

#[test]
fn case_023_the_ipam_plugins_error_is_returned_and_its_del_is_called() {
    let rail = RailNode::new();
    let ipam = FakeIpam::install(&rail.node, "fake");
    let before = rail.node.snapshot();
    ipam.fails("ADD", 11, "the pool is busy");
    assert_eq!(rail.with_ipam(&ipam).add().error(11).msg, "the pool is busy");
    assert_eq!(ipam.verbs(), ["ADD", "DEL"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_ipam_plugin_that_fails_without_an_error_object_is_named() {
    let rail = RailNode::new();
    let ipam = FakeIpam::install(&rail.node, "fake");
    let before = rail.node.snapshot();
    for printed in [json!("panic: oops"), json!({}), json!({"code": -1, "msg": "x"}), json!({"code": "7"})] {
        ipam.fails("ADD", 11, "");
        ipam.set_result("ADD", &printed);
        let refusal = rail.with_ipam(&ipam).add().error(999);
        refusal.says(&[&ipam.path().display().to_string()]);
        rail.node.snapshot().assert_is(&before);
    }
}

#[test]
fn case_024_a_result_without_a_version_has_the_version_of_the_configuration() {
    let rail = RailNode::new();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"version": "4", "address": "10.7.0.5/24"}]}));
    let result = rail.with_ipam(&ipam).with("cniVersion", &json!("0.4.0")).add().ok();
    assert_eq!(result["cniVersion"], "0.4.0");
    assert_eq!(rail.pod.addresses("net1"), ["10.7.0.5/24"]);
}

#[test]
fn an_ipam_plugin_can_return_a_result_of_another_version() {
    let rail = RailNode::new();
    let old = json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.7.0.5/24", "routes": [{"dst": "10.9.0.0/16", "gw": "10.7.0.1"}]}});
    let ipam = FakeIpam::returning(&rail.node, &old);
    let result = rail.with_ipam(&ipam).add().ok();
    assert_eq!(result["ips"][0]["address"], "10.7.0.5/24");
    assert_eq!(rail.pod.routes("net1").len(), 1);
}

#[test]
fn case_025_an_ipam_result_without_addresses_fails_the_add_and_del_is_called() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for empty in [json!({"cniVersion": "1.1.0", "ips": []}), json!({}), json!(null)] {
        let ipam = FakeIpam::returning(&rail.node, &empty);
        let refusal = rail.with_ipam(&ipam).add().refusal();
        assert_eq!(refusal.msg, "IPAM plugin returned missing IP config");
        assert_eq!(ipam.verbs().last().unwrap(), "DEL");
        rail.node.snapshot().assert_is(&before);
    }
}

#[test]
fn an_invalid_ipam_result_fails_the_add() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for invalid in [
        json!([]),
        json!("x"),
        json!({"ips": 7}),
        json!({"ips": [{"address": "10.7.0.5"}]}),
        json!({"cniVersion": "9.9.9"}),
    ] {
        let ipam = FakeIpam::returning(&rail.node, &invalid);
        rail.with_ipam(&ipam).add().refusal();
        rail.node.snapshot().assert_is(&before);
    }
}

#[test]
fn case_032_status_fails_with_the_code_of_the_ipam_plugin() {
    let rail = RailNode::new();
    let ipam = FakeIpam::install(&rail.node, "fake");
    rail.with_ipam(&ipam).status().done();
    ipam.fails("STATUS", 50, "no free address");
    assert_eq!(rail.with_ipam(&ipam).status().error(50).msg, "no free address");
}

#[test]
fn case_033_gc_is_forwarded_to_the_ipam_plugin() {
    let rail = RailNode::new();
    let ipam = FakeIpam::install(&rail.node, "fake");
    let valid = json!([{"containerID": "c0ffee", "ifname": "net1"}]);
    let call = rail.with_ipam(&ipam).with("cni.dev/valid-attachments", &valid);
    call.gc().done();
    assert_eq!(ipam.verbs(), ["GC"]);
    assert_eq!(ipam.calls()[0].stdin, call.sent());
    ipam.fails("GC", 11, "half done");
    assert_eq!(call.gc().error(11).msg, "half done");
}

#[test]
fn check_is_forwarded_to_the_ipam_plugin() {
    let rail = RailNode::new();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let call = rail.with_ipam(&ipam);
    let result = call.add().ok();
    call.check_after(&result).done();
    assert_eq!(ipam.verbs(), ["ADD", "CHECK"]);
    ipam.fails("CHECK", 103, "not mine");
    assert_eq!(call.check_after(&result).error(103).msg, "not mine");
}

#[test]
fn case_034_an_ipam_plugin_that_is_being_replaced_is_called_again() {
    let rail = RailNode::new();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let open = OpenOptions::new().append(true).open(ipam.path()).unwrap();
    let writer = thread::spawn(move || {
        thread::sleep(Duration::from_secs(2));
        drop(open);
    });
    rail.with_ipam(&ipam).add().ok();
    writer.join().unwrap();
    assert_eq!(ipam.verbs(), ["ADD"]);
}

#[test]
fn the_builtin_ipam_plugin_and_the_executable_do_the_same() {
    let rail = RailNode::new();
    let builtin = rail.macvlan(&json!({}));
    let first = builtin.add().ok();
    let claimed = rail.node.snapshot().claims().join(" ");
    builtin.del().done();
    // A copy is another file, so the plugin executes it.
    let ipam = FakeIpam::install(&rail.node, "silkrail-ipam");
    std::fs::copy(rail.node.cni_path().join("silkrail-ipam"), ipam.path()).unwrap();
    let executed = builtin.delegates_in(ipam.dir());
    let second = executed.add().ok();
    assert_eq!(rail.node.snapshot().claims().len(), 1, "after {claimed}");
    assert_eq!(first["routes"], second["routes"]);
    executed.del().done();
    assert!(rail.node.snapshot().claims().is_empty());
}

#[test]
fn invariant_8_a_background_process_of_an_ipam_plugin_is_not_waited_for() {
    let rail = RailNode::new();
    let ipam = FakeIpam::install(&rail.node, "fake");
    let daemon = ipam.dir().join("daemon");
    // It does not read its configuration, which exceeds the pipe's buffer, and leaves a process that holds the pipe open.
    let script = format!(
        "#!/bin/sh\nexec 3<&0\nsleep 90 <&3 >/dev/null 2>&1 &\necho $! >{}\necho '{}'\n",
        daemon.display(),
        json!({"ips": [{"address": "10.7.0.5/24"}]})
    );
    fs::write(ipam.path(), script).unwrap();
    let answer = rail.with_ipam(&ipam).with("comment", &json!("x".repeat(1 << 19))).add();
    let pid = fs::read_to_string(daemon).unwrap();
    // It is still running.
    rail.node.run("sh", &["-c", &format!("kill {}", pid.trim())]);
    answer.ok();
}

#[test]
fn a_dhcp_plugin_finds_the_link_under_its_name_at_add_and_at_del() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let ipam = FakeIpam::install(&rail.node, "dhcp");
    let seen = ipam.dir().join("seen");
    let script = format!(
        "#!/bin/sh\ncat >/dev/null\nnsenter --net=$CNI_NETNS cat /sys/class/net/$CNI_IFNAME/address >>{seen} 2>&1 ||\n\
         nsenter --net=$CNI_NETNS ip -o link show $CNI_IFNAME >>{seen} 2>&1\n\
         [ $CNI_COMMAND = DEL ] || echo '{}'\n",
        json!({"ips": [{"address": "10.7.0.5/24"}]}),
        seen = seen.display(),
    );
    fs::write(ipam.path(), script).unwrap();
    let call =
        rail.macvlan(&json!({"ipam": {"type": "dhcp"}, "mac": "c2:11:22:33:44:55"})).delegates_in(ipam.dir());
    call.add().ok();
    call.del().done();
    let text = fs::read_to_string(&seen).unwrap();
    assert_eq!(text.matches("c2:11:22:33:44:55").count(), 2, "{text}");
    rail.node.snapshot().assert_is(&before);
}
