//! State that another user than root wrote: it is not executed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

use serde_json::json;
use silkrail_tests::{
    foreign_journal::{NOBODY, assert_not_reverted, forge, known_changes, of_tenant},
    rail::{RailNode, ipam},
    spiderpool_agent::FakeSpiderpoolAgent,
};
use testkit::{Call, FakeIpam};

/// The keys of a network whose attachments have every change of macvlan and silkrail-ipam.
fn all_changes(rail: &RailNode) -> Call {
    let ipam = ipam(&["10.7.0.10-10.7.0.20"]);
    let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ai;K8S_POD_NAME=worker-0;K8S_POD_UID=1111-2222";
    rail.macvlan(&json!({"ipam": ipam, "rail": true})).args(args)
}

#[test]
fn no_change_of_a_journal_of_another_user_is_reverted() {
    let rail = RailNode::new();
    let (state, tenant) = (rail.node.state_dir(), rail.node.pod("tenant"));
    all_changes(&rail).container("victim").add().ok();
    let del = of_tenant(all_changes(&rail)).pod(&tenant);
    for plugin in ["macvlan", "silkrail-ipam"] {
        let mut changes = assert_not_reverted(&rail.node, plugin, "victim@net1", &del);
        if plugin == "silkrail-ipam" {
            // That of the next test.
            assert!(changes.insert("agent".into()));
        }
        assert_eq!(changes, known_changes(&state, plugin, &del, &[]), "a change without a case");
    }
}

#[test]
fn no_address_of_spiderpool_is_released_by_a_journal_of_another_user() {
    let rail = RailNode::new();
    let agent = FakeSpiderpoolAgent::start(&rail.node.state_dir().with_extension("spiderpool"));
    let ipam =
        json!({"store": "spiderpool", "ipam_unix_socket_path": agent.path(), "default_ipv4_ippool": ["a"]});
    let call = rail.ipam(&ipam).args("K8S_POD_NAMESPACE=ai;K8S_POD_NAME=worker-0;K8S_POD_UID=91ab");
    call.clone().container("victim").add().ok();
    let assigned = agent.assigned();
    let changes = forge(&rail.node.state_dir(), "silkrail-ipam", "victim@net1");
    assert!(changes.contains("agent"), "{changes:?}");
    of_tenant(call).args("K8S_POD_NAMESPACE=ai;K8S_POD_NAME=tenant;K8S_POD_UID=92ab").del().done();
    assert_eq!(agent.assigned(), assigned);
}

/// Makes a directory of another user, with the journal of an attachment whose DEL would call a program of that user.
fn make_hostile(rail: &RailNode, state: &Path) {
    let bin = state.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("tenant-ipam");
    fs::write(&program, format!("#!/bin/sh\ntouch {}/executed\n", state.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let result = json!({"cniVersion": "1.1.0", "ips": [{"address": "10.7.0.10/24"}]});
    let call = rail.with_ipam(&FakeIpam::returning(&rail.node, &result));
    call.add().ok();
    let name = "attachments/c0ffee@net1.macvlan.journal";
    let journal = fs::read_to_string(rail.node.state_dir().join(name)).unwrap();
    call.del().done();
    let hostile = journal.replace(r#""cniPath":["#, &format!(r#""cniPath":["{}","#, bin.display()));
    let hostile = hostile.replace(r#"\"type\":\"fake\""#, r#"\"type\":\"tenant-ipam\""#);
    assert!(hostile.contains("tenant-ipam") && hostile.contains("/bin\""), "{hostile}");
    fs::create_dir(state.join("attachments")).unwrap();
    fs::write(state.join(name), hostile).unwrap();
    for path in [state.join(name), state.join("attachments"), state.to_owned()] {
        chown(&path, Some(NOBODY), None).unwrap();
    }
}

#[test]
fn the_program_in_a_state_directory_of_another_user_is_not_executed() {
    let rail = RailNode::new();
    let (elsewhere, ours) = (tempfile::tempdir().unwrap(), rail.node.state_dir().with_file_name("volume"));
    for (state, code, says) in
        [(elsewhere.path(), 7, "/run, /var/lib, /var/lib/cni"), (&ours, 5, "owned by user 65534")]
    {
        make_hostile(&rail, state);
        let call = rail.macvlan(&json!({"stateDir": state}));
        for answer in [call.add(), call.status()] {
            answer.error(code).says(&[state.to_str().unwrap(), says]);
        }
        // A pod must be able to end although its network was never valid.
        match code {
            7 => call.del().done(),
            _ => drop(call.del().error(code).says(&[says])),
        }
        assert!(!state.join("executed").exists());
        assert!(state.join("attachments/c0ffee@net1.macvlan.journal").exists());
    }
}
