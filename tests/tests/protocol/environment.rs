//! Environment variables: required ones, and valid values.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use crate::ProtocolFixture;

#[test]
fn case_001_add_names_the_variable_that_is_missing() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        for variable in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"] {
            let expected = format!("required env variables [{variable}] missing");
            assert_eq!(call.clone().without(variable).add().error(4).msg, expected);
            assert_eq!(call.clone().env(variable, "").add().error(4).msg, expected);
        }
    }
    assert!(fixture.is_untouched());
}

#[test]
fn case_002_add_names_all_missing_variables_in_order() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        let refusal = call.without("CNI_PATH").without("CNI_IFNAME").without("CNI_NETNS").add().error(4);
        assert_eq!(refusal.msg, "required env variables [CNI_NETNS,CNI_IFNAME,CNI_PATH] missing");
    }
}

#[test]
fn case_003_a_container_id_with_other_characters_is_refused_with_its_value() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        for id in ["some-%%container-id", "-begins-with-dash", "a/b", "../../etc", "a b", "ä"] {
            let refusal = call.clone().container(id).add().error(4);
            assert_eq!(
                (refusal.msg.as_str(), refusal.details.as_str()),
                ("invalid characters in containerID", id)
            );
            assert_eq!(call.clone().container(id).del().error(4).details, id);
        }
    }
}

#[test]
fn an_invalid_container_id_is_reported_before_missing_variables() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        let refusal = call.container("%").without("CNI_PATH").add().error(4);
        assert_eq!(refusal.msg, "invalid characters in containerID");
    }
}

#[test]
fn case_004_an_interface_name_has_at_most_15_bytes() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        let refusal = call.clone().ifname("a123456789abcdef").add().error(4);
        assert_eq!(refusal.msg, "interface name is too long");
        assert_eq!(refusal.details, "interface name should be less than 16 characters");
        call.ifname("a123456789abcde").del().done();
    }
}

#[test]
fn case_005_an_interface_name_must_be_valid_for_the_kernel() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        for dots in [".", ".."] {
            assert_eq!(call.clone().ifname(dots).add().error(4).msg, "interface name is . or ..");
        }
        for name in ["a/b", "a:b", "a b", "a\tb", "a\u{a0}b", "a\nb"] {
            let msg = call.clone().ifname(name).add().error(4).msg;
            assert_eq!(msg, "interface name contains / or : or whitespace characters", "{name:?}");
        }
    }
}

#[test]
fn case_018_unknown_arguments_need_ignore_unknown() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        let add = |args: &str| call.clone().args(args).add();
        assert_eq!(add("FOO=1").error(4).msg, "ARGS: unknown args [\"FOO=1\"]");
        assert_eq!(add("IgnoreUnknown=false;FOO=1").error(4).msg, "ARGS: unknown args [\"FOO=1\"]");
        assert_eq!(add("IgnoreUnknown=1;A=B=C").error(4).msg, "ARGS: invalid pair \"A=B=C\"");
        assert_eq!(add("IgnoreUnknown=1;A").error(4).msg, "ARGS: invalid pair \"A\"");
        for accepted in ["IgnoreUnknown=1;FOO=1", "IgnoreUnknown=true;FOO=1", "FOO=1;IgnoreUnknown=TRUE"] {
            let answer = add(accepted);
            assert!(!answer.stdout.contains("ARGS"), "{plugin} with {accepted}: {answer:?}");
        }
    }
}

#[test]
fn del_ignores_invalid_arguments() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        for args in ["FOO=1", "A=B=C", ";;;", "IgnoreUnknown=perhaps"] {
            call.clone().args(args).del().done();
        }
    }
}

#[test]
fn a_variable_that_is_not_utf_8_is_refused_by_name() {
    let fixture = ProtocolFixture::new();
    let bytes = OsStr::from_bytes(b"a\xff\xfe");
    for (_, call) in fixture.each() {
        for variable in
            ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH", "CNI_NETNS_OVERRIDE"]
        {
            let refusal = call.clone().env(variable, bytes).add().error(4);
            refusal.says(&[variable, "UTF-8", r"\xFF"]);
        }
        call.env("CNI_COMMAND", bytes).call().error(4).says(&["CNI_COMMAND", "UTF-8"]);
    }
}

#[test]
fn a_very_long_container_id_is_refused_and_the_longest_accepted() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        call.clone()
            .container(&"a".repeat(201))
            .add()
            .error(4)
            .says(&["containerID is longer than 200 bytes"]);
        call.container(&"a".repeat(200)).ifname("a23456789012345").del().done();
    }
}
