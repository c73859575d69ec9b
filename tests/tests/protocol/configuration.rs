//! The network configuration: its syntax, name, version and keys.

use serde_json::{Value, json};

use crate::{ProtocolFixture, VERSIONS, assert_understood, valid, with};

#[test]
fn case_009_input_that_is_not_a_json_object_cannot_be_decoded() {
    let fixture = ProtocolFixture::new();
    for (_, call) in fixture.each() {
        for stdin in ["{{{", "", "\0", "[]", "\"text\"", "7", "{} {}", "{\"name\": \"rail\"", "\u{feff}{}"] {
            for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
                let refusal = call.clone().stdin(stdin).verb(verb).error(6);
                refusal.says(&["error unmarshall network config: "]);
            }
        }
    }
    assert!(fixture.is_untouched());
}

#[test]
fn case_010_a_network_name_must_be_a_valid_file_name() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
            for missing in [Value::Null, json!("")] {
                let refusal = call.clone().conf(&with(plugin, "name", missing)).verb(verb).error(7);
                assert_eq!(refusal.msg, "missing network name");
            }
            for name in ["bad/name", "..", "-a", "a b", "ä"] {
                let refusal = call.clone().conf(&with(plugin, "name", json!(name))).verb(verb).error(7);
                assert_eq!(refusal.msg, "invalid characters found in network name");
                assert_eq!(refusal.details, name);
            }
        }
    }
}

#[test]
fn case_011_an_unsupported_version_is_refused_with_the_list_of_supported_ones() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        let refusal = call.conf(&with(plugin, "cniVersion", json!("9.9.9"))).add().error(1);
        assert_eq!(refusal.msg, "incompatible CNI versions");
        let quoted = VERSIONS.map(|version| format!("{version:?}")).join(" ");
        assert_eq!(refusal.details, format!("config is \"9.9.9\", plugin supports [{quoted}]"));
    }
}

#[test]
fn case_012_the_default_version_is_0_1_0() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        for absent in [Value::Null, json!("")] {
            let call = call.clone().conf(&with(plugin, "cniVersion", absent));
            assert_eq!(call.check().error(1).msg, "config version does not allow CHECK");
            // Both a result and an error of ADD have the version.
            assert_eq!(call.add().json()["cniVersion"], "0.1.0");
        }
    }
}

#[test]
fn case_014_an_invalid_version_cannot_be_decoded() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        for version in ["adsfsadf", "1", "1.0", "1.0.0.0", "-1.0.0", "99999999999.0.0"] {
            call.clone().conf(&with(plugin, "cniVersion", json!(version))).check().error(6).says(&[version]);
        }
    }
}

#[test]
fn case_017_an_error_is_one_object_and_has_the_version_of_the_configuration() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        for version in VERSIONS {
            let mut conf = with(plugin, "cniVersion", json!(version));
            conf["ipam"] = json!(7);
            let answer = call.clone().conf(&conf).add();
            answer.error(7);
            let object = answer.json();
            assert_eq!(object["cniVersion"], version);
            let keys: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
            let known = ["cniVersion", "code", "msg", "details"];
            assert!(keys.iter().all(|key| known.contains(key)), "{keys:?}");
        }
    }
}

#[test]
fn case_019_keys_are_case_insensitive() {
    let fixture = ProtocolFixture::new();
    for plugin in ["macvlan", "ipvlan"] {
        let call = fixture.call(plugin);
        let refusal = call.clone().conf(&with(plugin, "MODE", json!("foo"))).add().error(7);
        assert_eq!(refusal.msg, format!("unknown {plugin} mode: \"foo\""));
    }
    let runtime = with("macvlan", "RuntimeConfig", json!({"MAC": "zz"}));
    fixture.call("macvlan").conf(&runtime).add().error(7).says(&["invalid args zz for MAC addr"]);
    let mut ipam = valid("silkrail-ipam");
    ipam["IPAM"] = ipam.as_object_mut().unwrap().remove("ipam").unwrap();
    ipam["IPAM"]["Clean_Gateway"] = json!("perhaps");
    fixture.call("silkrail-ipam").conf(&ipam).add().error(7).says(&["clean_gateway", "perhaps"]);
}

#[test]
fn the_exact_key_precedes_one_in_another_letter_case() {
    let fixture = ProtocolFixture::new();
    let mut conf = with("macvlan", "MODE", json!("foo"));
    conf["mode"] = json!("bridge");
    fixture.call("macvlan").conf(&conf).status().done();
}

#[test]
fn case_020_unknown_keys_are_ignored() {
    // Except in a pool: with a mistyped key, excluded addresses would be allocated.
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        let mut conf = with(plugin, "futureKey", json!({"deep": [1, {"er": null}]}));
        conf["ipam"]["futureKey"] = json!(["x"]);
        conf["capabilities"] = json!({"mac": true, "ips": true});
        assert_understood(plugin, &call.conf(&conf).status());
    }
}

#[test]
fn null_is_the_same_as_absent() {
    let fixture = ProtocolFixture::new();
    for (plugin, call) in fixture.each() {
        let mut conf = valid(plugin);
        for key in [
            "mode",
            "mtu",
            "mac",
            "linkInContainer",
            "bcqueuelen",
            "rdma",
            "runtimeConfig",
            "dns",
            "args",
            "prevResult",
        ] {
            conf[key] = Value::Null;
        }
        assert_understood(plugin, &call.conf(&conf).status());
    }
}
