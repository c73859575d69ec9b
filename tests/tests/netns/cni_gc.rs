//! GC: attachments that are not listed as valid are reverted.

use serde_json::{Value, json};
use testkit::{FakeIpam, Observe};

use silkrail_tests::rail::RailNode;

fn valid(containers: &[&str]) -> Value {
    containers.iter().map(|id| json!({"containerID": id, "ifname": "net1"})).collect()
}

#[test]
fn ipam_case_092_gc_reverts_exactly_the_attachments_that_are_not_valid() {
    let rail = RailNode::new();
    rail.macvlan(&json!({})).container("stale").add().ok();
    let rail = rail.next_pod("b");
    let kept = rail.macvlan(&json!({})).container("kept");
    let result = kept.add().ok();
    kept.with("cni.dev/valid-attachments", &valid(&["kept", "never-was"])).gc().done();
    assert_eq!(rail.node.snapshot().claims(), [silkrail_tests::rail::ip(&result)]);
    kept.check_after(&result).done();
    let rail = rail.next_pod("c");
    kept.with("cni.dev/valid-attachments", &valid(&["kept"])).gc().done();
    assert_eq!(rail.node.snapshot().claims(), [silkrail_tests::rail::ip(&result)], "it is valid");
    kept.with("cni.dev/valid-attachments", &valid(&[])).gc().done();
    assert!(rail.node.snapshot().state().is_empty());
}

#[test]
fn a_directory_in_place_of_a_journal_does_not_stop_gc() {
    let rail = RailNode::new().with_every_process();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let directory = rail.node.state_dir().join("attachments/other@net1.macvlan.journal");
    std::fs::create_dir(&directory).unwrap();
    let rail = rail.next_pod("b");
    call.with("cni.dev/valid-attachments", &valid(&[])).gc().done();
    assert!(rail.node.snapshot().claims().is_empty());
    // A DEL without a journal checks whether another attachment has the link.
    call.del().done();
    assert!(directory.is_dir(), "the DEL of its own attachment quarantines it");
}

#[test]
fn an_address_is_not_released_while_its_link_could_not_be_deleted() {
    let rail = RailNode::new().with_every_process();
    let call = rail.macvlan(&json!({}));
    let address = silkrail_tests::rail::ip(&call.add().ok());
    let gc = call.with("cni.dev/valid-attachments", &valid(&[]));
    // The namespace cannot be opened, which does not mean that it is gone.
    let path = rail.pod.path().to_owned();
    let journal = rail.node.state_dir().join("attachments/c0ffee@net1.macvlan.journal");
    let loop_link = rail.node.state_dir().with_file_name("loop");
    std::os::unix::fs::symlink("loop", &loop_link).unwrap();
    let whole = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, whole.replace(path.to_str().unwrap(), loop_link.to_str().unwrap())).unwrap();
    gc.gc().done();
    call.del().error(11);
    assert!(rail.pod.link("net1").is_some());
    assert_eq!(rail.node.snapshot().claims(), [address.as_str()]);

    std::fs::write(&journal, whole).unwrap();
    call.del().done();
    assert_eq!(rail.pod.link("net1"), None);
    assert!(rail.node.snapshot().claims().is_empty());
}

#[test]
fn gc_of_another_ipam_plugin_lists_an_attachment_as_valid_if_its_link_could_not_be_deleted() {
    let rail = RailNode::new().with_every_process();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let call = rail.with_ipam(&ipam);
    call.add().ok();
    ipam.fails("DEL", 11, "the server is away");
    let _rail = rail.next_pod("b");
    call.with("cni.dev/valid-attachments", &valid(&["other"])).gc().error(11);
    let received: Value = serde_json::from_slice(&ipam.calls().last().unwrap().stdin).unwrap();
    assert_eq!(received["cni.dev/valid-attachments"], valid(&["other", "c0ffee"]));
    assert_eq!(received["ipam"]["type"], "fake");
}

#[test]
fn gc_of_another_ipam_plugin_lists_it_as_valid_if_the_runtimes_list_is_null() {
    let rail = RailNode::new().with_every_process();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let call = rail.with_ipam(&ipam);
    call.add().ok();
    ipam.fails("DEL", 11, "the server is away");
    let _rail = rail.next_pod("b");
    call.with("cni.dev/valid-attachments", &Value::Null).gc().error(11);
    let received: Value = serde_json::from_slice(&ipam.calls().last().unwrap().stdin).unwrap();
    assert_eq!(received["cni.dev/valid-attachments"], valid(&["c0ffee"]));
}

#[test]
fn gc_does_not_change_other_networks() {
    let rail = RailNode::new().with_every_process();
    let call = rail.macvlan(&json!({"name": "other"}));
    call.add().ok();
    let before = rail.node.snapshot();
    rail.macvlan(&json!({"cni.dev/valid-attachments": []})).gc().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn gc_distinguishes_two_interfaces_of_one_container() {
    let rail = RailNode::new().with_every_process();
    rail.macvlan(&json!({})).add().ok();
    let clean = rail.macvlan(&json!({})).ifname("net2");
    let mut ipam = silkrail_tests::rail::ipam(&["10.7.0.10-10.7.0.20"]);
    ipam["clean_gateway"] = json!(true);
    clean.with("ipam", &ipam).add().ok();
    let (first, rail) = (rail.node.snapshot().claims()[0].to_owned(), rail.next_pod("b"));
    rail.macvlan(&json!({"cni.dev/valid-attachments": valid(&["c0ffee"])})).gc().done();
    assert_eq!(rail.node.snapshot().claims(), [first]);
}

#[test]
fn gc_continues_after_failures_and_reports_them() {
    let rail = RailNode::new().with_every_process();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let call = rail.with_ipam(&ipam);
    call.add().ok();
    ipam.fails("DEL", 11, "the server is away");
    let (collect, rail) = (call.with("cni.dev/valid-attachments", &valid(&[])), rail.next_pod("b"));
    collect.gc().error(11).says(&["failed to revert", "c0ffee", "the server is away"]);
    assert_eq!(ipam.verbs(), ["ADD", "DEL", "GC"]);
    ipam.recovers("DEL");
    collect.gc().done();
    assert!(rail.node.snapshot().state().is_empty());
}

/// What CRI-O's GC passes for a network of its directory that only Multus attaches pods to: its own attachments, or none. A pod may have no
/// process yet, or none between two starts of its container: CRI-O runs no infra container by default.
#[test]
fn gc_keeps_the_attachments_of_pods_that_exist_although_the_runtime_does_not_list_them() {
    let rail = RailNode::new().with_every_process();
    let call = rail.macvlan(&json!({}));
    let result = call.add().ok();
    let before = rail.node.snapshot();
    for list in [Value::Null, valid(&[]), valid(&["of-the-runtime"])] {
        let answer = call.with("cni.dev/valid-attachments", &list).gc();
        answer.done();
        assert!(answer.stderr.contains("netns/a exists"), "{list}: {answer:?}");
        rail.node.snapshot().assert_is(&before);
        call.check_after(&result).done();
    }
    let rail = rail.next_pod("b");
    call.with("cni.dev/valid-attachments", &Value::Null).gc().done();
    assert!(rail.node.snapshot().state().is_empty());
}

#[test]
fn gc_keeps_all_attachments_if_it_does_not_see_every_process() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let before = rail.node.snapshot();
    // Process 1 cannot be read.
    let empty = rail.node.state_dir().with_file_name("empty");
    std::fs::create_dir(&empty).unwrap();
    rail.node.run("mount", &["--bind", empty.to_str().unwrap(), "/proc/1"]);
    let answer = call.with("cni.dev/valid-attachments", &valid(&[])).gc();
    answer.done();
    assert!(answer.stderr.contains("cannot determine which pods are running"), "{answer:?}");
    rail.node.snapshot().assert_is(&before);
}
