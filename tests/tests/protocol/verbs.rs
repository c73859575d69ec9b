//! Operations, and the versions that have them.

use serde_json::{Value, json};
use testkit::Call;

use crate::{ProtocolFixture, VERSIONS, WITH_ABOUT, assert_understood, with};

#[test]
fn case_006_an_unknown_operation_is_named() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        for verb in ["NOPE", "add", "ADD ", "DELETE"] {
            assert_eq!(call.verb(verb).error(4).msg, format!("unknown CNI_COMMAND: {verb}"));
        }
        // The plugin reads the configuration first.
        call.stdin("").verb("NOPE").error(6);
    }
}

#[test]
fn case_007_without_an_operation_a_plugin_prints_its_versions() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        let answer = call.call();
        if WITH_ABOUT.contains(&plugin) {
            answer.done();
            let lines: Vec<_> = answer.stderr.lines().collect();
            assert!(lines[0].starts_with(&format!("CNI {plugin} plugin ")), "{lines:?}");
            assert_eq!(lines[1..], [format!("CNI protocol versions supported: {}", VERSIONS.join(", "))]);
        } else {
            assert_eq!(answer.error(4).msg, "required env variables [CNI_COMMAND] missing");
        }
    }
}

#[test]
fn case_008_version_needs_no_environment_and_reads_no_input() {
    let fixture = ProtocolFixture::new();
    for (plugin, _) in fixture.each() {
        let bare = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH", "PATH"]
            .into_iter()
            .fold(Call::new(&fixture.binaries, plugin), Call::without);
        for stdin in ["", "{{{", "{\"cniVersion\": \"9.9.9\"}"] {
            let answer = bare.clone().stdin(stdin).verb("VERSION");
            assert_eq!(answer.ok(), json!({"cniVersion": "1.1.0", "supportedVersions": VERSIONS}));
            assert_eq!(answer.stdout.matches('\n').count(), 1, "one line: {answer:?}");
        }
    }
}

#[test]
fn case_013_an_operation_that_the_version_lacks_is_refused() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        for (verb, old) in [("CHECK", "0.3.1"), ("GC", "1.0.0"), ("STATUS", "1.0.0")] {
            let refusal = call.clone().conf(&with(plugin, "cniVersion", json!(old))).verb(verb).error(1);
            assert_eq!(refusal.msg, format!("config version does not allow {verb}"));
        }
    }
}

#[test]
fn case_015_gc_requires_the_path_and_nothing_else() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        let call = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"].into_iter().fold(call, Call::without);
        let conf = with(plugin, "cni.dev/valid-attachments", json!([]));
        let call = call.conf(&conf);
        call.gc().done();
        let msg = call.without("CNI_PATH").gc().error(4).msg;
        assert_eq!(msg, "required env variables [CNI_PATH] missing");
    }
}

#[test]
fn gc_accepts_the_former_name_of_the_list() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        call.conf(&with(plugin, "cni.dev/attachments", json!([]))).gc().done();
    }
}

#[test]
fn gc_reads_null_as_an_empty_list() {
    let fixture = ProtocolFixture::new();
    for list in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        for (plugin, call) in fixture.each() {
            call.conf(&with(plugin, list, Value::Null)).gc().done();
        }
        let ipam = fixture.call("silkrail-ipam");
        ipam.add().ok();
        ipam.clone().conf(&with("silkrail-ipam", list, Value::Null)).gc().done();
        ipam.check().error(103);
    }
}

#[test]
fn gc_keeps_the_attachments_of_either_list() {
    let fixture = ProtocolFixture::new();
    let ipam = fixture.call("silkrail-ipam");
    ipam.add().ok();
    let mut conf = with("silkrail-ipam", "cni.dev/valid-attachments", Value::Null);
    conf["cni.dev/attachments"] = json!([{"containerID": "c0ffee", "ifname": "net1"}]);
    ipam.clone().conf(&conf).gc().done();
    ipam.check().done();
}

#[test]
fn gc_without_a_list_is_refused_and_reverts_nothing() {
    let fixture = ProtocolFixture::new();
    let ipam = fixture.call("silkrail-ipam");
    ipam.add().ok();
    ipam.gc().error(7).says(&["cni.dev/valid-attachments"]);
    ipam.check().done();
}

#[test]
fn gc_refuses_an_invalid_list() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        for list in [
            json!("all"),
            json!([7]),
            json!([{"containerID": "a"}]),
            json!([{"containerID": "a", "ifname": ".."}]),
        ] {
            let conf = with(plugin, "cni.dev/valid-attachments", list);
            call.clone().conf(&conf).gc().error(7).says(&["cni.dev/valid-attachments"]);
        }
    }
}

#[test]
fn status_of_a_valid_configuration_is_success_and_prints_nothing() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        let bare = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"].into_iter().fold(call, Call::without);
        assert_understood(plugin, &bare.status());
    }
}

#[test]
fn a_plugin_can_be_called_by_its_prefixed_name() {
    let fixture = ProtocolFixture::new();
    for (plugin, _) in fixture.each() {
        let alias =
            if plugin.starts_with("silkrail-") { "spiderpool".into() } else { format!("silkrail-{plugin}") };
        let link = fixture.binaries.dir().join(&alias);
        if !link.exists() {
            std::fs::hard_link(fixture.binaries.dir().join(plugin), link).unwrap();
        }
        let versions: Value = Call::new(&fixture.binaries, &alias).verb("VERSION").ok();
        assert_eq!(versions["cniVersion"], "1.1.0");
    }
}
