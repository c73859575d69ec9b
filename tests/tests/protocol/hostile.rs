//! Malicious input.

use serde_json::json;

use crate::{ProtocolFixture, assert_understood, valid, with};

#[test]
fn ten_megabytes_of_a_valid_configuration_are_read() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        let long = with(plugin, "comment", json!("x".repeat(10 << 20)));
        assert_understood(plugin, &call.conf(&long).status());
    }
}

#[test]
fn ten_megabytes_of_anything_else_are_refused() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        for byte in [b' ', b'[', b'{', b'"', 0, 0xff] {
            call.clone().stdin(vec![byte; 10 << 20]).add().error(6);
        }
    }
    assert!(fixture.is_untouched());
}

#[test]
fn json_that_is_nested_deeply_does_not_exhaust_the_stack() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for key in ["comment", "ipam", "prevResult", "runtimeConfig"] {
            let conf = valid(plugin).to_string();
            let stdin = format!("{{{key:?}: {deep}, {}", &conf[1..]);
            call.clone().stdin(stdin).add().error(6).says(&["recursion limit"]);
        }
    }
}

#[test]
fn the_last_of_two_equal_keys_is_used() {
    let fixture = ProtocolFixture::new();
    let stdin =
        r#"{"cniVersion": "1.1.0", "name": "a/b", "name": "rail", "type": "macvlan", "master": "lo"}"#;
    fixture.call("macvlan").stdin(stdin).status().done();
}

#[test]
fn names_that_would_leave_the_state_directory_are_refused() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        for dir in ["relative", "../up", "/run/../etc", "/tmp/silkrail"] {
            let call = call.clone().conf(&with(plugin, "stateDir", json!(dir)));
            call.status().error(7).says(&["stateDir", dir]);
        }
    }
}

#[test]
fn invariant_7_a_plugin_that_cannot_write_its_result_fails() {
    let fixture = ProtocolFixture::new();
    for (plugin, _) in fixture.each() {
        let script = format!("CNI_COMMAND=VERSION {}/{plugin} >/dev/full", fixture.binaries.dir().display());
        let status = std::process::Command::new("sh").args(["-c", &script]).status().unwrap();
        assert_eq!(status.code(), Some(1));
    }
}
