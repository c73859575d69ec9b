use std::{fs, path::Path};

use super::*;

#[test]
fn a_secret_is_removed_and_the_text_around_it_is_kept() {
    for (name, text, secret) in SHAPES {
        let around = format!("before {text}\nafter");
        let found = without(&around);
        assert!(!found.contains(secret), "{name}: {found}");
        assert!(found.starts_with("before ") && found.contains(REDACTED), "{name}: {found}");
        assert!(name.starts_with("cut ") || found.ends_with("after"), "{name}: {found}");
        let alone = without(text);
        assert!(!alone.contains(secret) && alone.contains(REDACTED), "{name}: {alone}");
    }
}

#[test]
fn secrets_are_removed_with_other_line_ends_and_in_json_and_base64() {
    for (name, text, secret) in SHAPES {
        let lines = format!("before {}\r\nafter\r\n", text.replace("\r", "").replace('\n', "\r\n"));
        let found = without(&lines);
        assert!(!found.contains(secret), "{name}: {found}");
        let json = serde_json::json!({"a": [text, {"b": format!("{{\"c\":{}}}", serde_json::json!(text))}]});
        let found = without(&json.to_string());
        assert!(!found.contains(secret), "{name}: {found}");
        assert!(without(&format!("{json:#}")).contains(REDACTED), "{name}");
        let encoded = base64(text);
        let found = without(&format!("data: {encoded} x"));
        assert!(!found.contains(&encoded[..16]) && found.ends_with(" x"), "{name}: {found}");
    }
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let three = |bytes: &[u8]| -> String {
        let bits = bytes.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - bytes.len()));
        let letter = |n: u32| char::from(LETTERS[(bits >> (18 - 6 * n)) as usize & 63]);
        (0..=u32::try_from(bytes.len()).unwrap()).map(letter).chain("==".chars()).take(4).collect()
    };
    text.as_bytes().chunks(3).map(three).collect()
}

#[test]
fn json_stays_json() {
    let text =
        r#"{"a":{"password":"x \" y","n":1},"configuration":"{\"token\":\"a\\\"bc\",\"k\":[1]}","b":"c"}"#;
    for text in [text.to_owned(), text.replace(r#","b""#, ",\n  \"b\"")] {
        let value: serde_json::Value = serde_json::from_str(&without(&text)).unwrap();
        assert_eq!(value["b"], "c");
        let inner: serde_json::Value =
            serde_json::from_str(value["configuration"].as_str().unwrap()).unwrap();
        assert_eq!(inner, serde_json::json!({"token": REDACTED, "k": [1]}));
    }
}

#[test]
fn every_value_under_the_key_of_a_secret_is_removed_unless_it_is_empty() {
    let mut value = serde_json::json!({
        "token": [["abc"]], "secret": {"value": "x"}, "password": 4711, "auth": {"user": "u"},
        "args": ["--token", "abc", "-v", "x"], "env": [{"name": "API_TOKEN", "value": 17}, {"name": "A", "value": 17}],
        "automountServiceAccountToken": false, "passwords": [], "credentials": null, "pass": "",
        "objects": [{"kind": "Secret", "data": {"a": "b"}, "type": "c"}, {"kind": "ConfigMap", "data": {"a": "b"}}],
    });
    clean(&mut value);
    let expected = serde_json::json!({
        "token": REDACTED, "secret": REDACTED, "password": REDACTED, "auth": REDACTED,
        "args": ["--token", REDACTED, "-v", "x"],
        "env": [{"name": "API_TOKEN", "value": REDACTED}, {"name": "A", "value": 17}],
        "automountServiceAccountToken": false, "passwords": [], "credentials": null, "pass": "",
        "objects": [{"kind": "Secret", "data": REDACTED, "type": "c"}, {"kind": "ConfigMap", "data": {"a": "b"}}],
    });
    assert_eq!(value, expected);
}

#[test]
fn text_without_secrets_is_not_changed() {
    for text in [
        "options ib_core netns_mode=0",
        "options mlx5_core prof_sel=2 # a comment: with a colon",
        r#"{"netns":{"cookie":4711,"dev":4,"ino":4026532210}}"#,
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef@net1.sriov.journal",
        "[   12.345678] mlx5_core 0000:af:00.0: firmware version: 16.35.4506",
        "[    1.234567] Kernel command line: BOOT_IMAGE=/boot/vmlinuz-6.12.95 root=/dev/sda1 ro module.sig_enforce=1",
        "[    0.1] audit: type=2000 audit(1700000000.123:1): state=initialized audit_enabled=0 res=1",
        "[    2.5] Key type .fscrypt registered\n[    2.6] Loaded X.509 cert 'Debian: 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1'",
        "/etc/silkrail/check.token: Permission denied (os error 13); expected a file that only root reads",
        "var/run/secrets/kubernetes.io/serviceaccount/token: No such file or directory",
        "/sys/devices/pci0000:ae/0000:ae:00.0/0000:af:00.0/net/ens6f0np0/device/sriov_numvfs",
        "/opt/NVIDIA/CUDA12/Libs64/targets/Linux/Release/and/so/on/Tools",
        "registry.example:5000/silkrail/silkrail:1.2.3@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "docker://registry.example:5000/silkrail@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  silkrail-1.2.3-x86_64.tar.gz",
        "kind: SpiderIPPool\nmetadata:\n  name: rail0\nspec:\n  subnet: 10.0.0.0/16",
        "3: ens6f0np0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000\n    link/ether 52:54:00:aa:bb:cc brd ff:ff:ff:ff:ff:ff promiscuity 0\n    vf 0     link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff, spoof checking on, link-state auto, trust off\n    inet6 fe80::5054:ff:feaa:bbcc/64 scope link proto kernel_ll",
        "5: net1@if3: <BROADCAST> mtu 1500\n6: vlan10@eth0: <UP>",
        "a-deployment-with-a-long-name-5d4f8c7b9d-x2x4z",
        "system.slice/kubepods-burstable-pod6ba7b810_9dad_11d1_80b4_00c04fd430c8.slice/cri-containerd-0123456789abcdef.scope",
        "root=UUID=6ba7b810-9dad-11d1-80b4-00c04fd430c8 ro quiet iommu.passthrough=1 arm-smmu.disable_bypass=0",
        "kind: ConfigMap\ndata:\n  rail: '1'",
        "ssh -p 22 host; docker run -p 8080:80 -u 1000 x; mkdir -p /run/x",
        "x secrets=0 token: none\npassword:\nuser: x",
        "NAME=\"Debian GNU/Linux\"\nHOME_URL=\"https://www.debian.org/\"\nBUG_REPORT_URL=\"https://bugs.debian.org/\"",
    ] {
        assert_eq!(without(text).trim_end(), text);
    }
}

/// The files in `conf`, as an administrator installs them on a node.
#[test]
fn configuration_files_are_not_changed() {
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf");
    let pools = fs::read_dir(conf.join("pools")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = pools.chain([conf.join("node/node.yaml")]).collect();
    assert!(files.len() > 2, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(without(&text), text, "{}", path.display());
    }
}

/// Random sequences of significant pieces. They must not cause a panic either.
#[test]
fn no_text_hides_a_secret_behind_it() {
    const PIECES: [&str; 40] = [
        "token",
        "password",
        "auth",
        "key",
        "name",
        "value",
        "kind: Secret",
        "data",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        ":",
        "=",
        "->",
        "|",
        ">-",
        "\"",
        "'",
        "\\",
        "[",
        "]",
        "{",
        "}",
        ",",
        "- ",
        "--",
        "-p",
        "<a>",
        "</a>",
        "@",
        "://",
        "/",
        "%3D",
        "ü",
        "\u{fffd}",
        "\u{2028}",
        "x1",
        "-----BEGIN A-----",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut any = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for _ in 0..3000 {
        let length = any(24);
        let text: String = (0..length).map(|_| PIECES[any(PIECES.len())]).collect();
        for planted in
            [format!("{text}\npassword=hunter2-plain\n"), format!("password=hunter2-plain\n{text}")]
        {
            let found = without(&planted);
            assert!(!found.contains("hunter2"), "{planted:?}: {found:?}");
        }
    }
}
