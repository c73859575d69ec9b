//! `silkrail ipam`: what was assigned on the node.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;
use silkrail_tests::{
    cli::{CommandOutput, silkrail},
    rail::{RailNode, pool},
};

/// Runs `silkrail ipam` with the state directory of a node.
fn ipam(rail: &RailNode, args: &str) -> CommandOutput {
    silkrail(&format!("ipam {args} --state-dir {}", rail.node.state_dir().display()))
}

#[test]
fn addresses_are_shown_with_their_pools() {
    let rail = RailNode::new();
    // Nothing was assigned yet.
    ipam(&rail, "show").ended(0);
    let call = rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.20"])]}));
    call.container("first").add().ok();
    let text = ipam(&rail, "show").ended(0).stdout;
    assert!(text.contains("10.7.0.10") && text.contains("first@net1"), "{text}");
    let shown = ipam(&rail, "show --json").json();
    assert_eq!(shown["addresses"][0]["owner"], "first@net1");
    assert_eq!(shown["pools"], json!([{"pool": "rail", "family": 4, "addresses": 11, "used": 1}]));
    ipam(&rail, "fsck").ended(0);
}

#[test]
fn fsck_reports_claims_that_nobody_releases() {
    let rail = RailNode::new();
    let call = rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.20"])]}));
    call.container("first").add().ok();
    let state = rail.node.state_dir();
    let store = fs::read_dir(state.join("ipam")).unwrap().next().unwrap().unwrap().path();
    symlink("lost@net1", store.join("claims/10.7.0.11")).unwrap();
    symlink("???", store.join("claims/10.7.0.12")).unwrap();
    let text = ipam(&rail, "fsck").ended(6).stdout;
    assert!(!text.contains("10.7.0.10"), "{text}");
    let found = ipam(&rail, "fsck --json").json();
    let problems: Vec<_> =
        found.as_array().unwrap().iter().map(|one| (&one["address"], &one["problem"])).collect();
    assert_eq!(
        problems,
        [
            (&json!("10.7.0.11"), &json!("its attachment has no journal")),
            (&json!("10.7.0.12"), &json!("its owner is not an attachment")),
        ]
    );
}

#[test]
fn free_releases_what_no_del_will_release() {
    let rail = RailNode::new();
    let call = rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.20"])]}));
    call.container("first").add().ok();
    let state = rail.node.state_dir();
    let claims = fs::read_dir(state.join("ipam")).unwrap().next().unwrap().unwrap().path().join("claims");
    symlink("lost@net1", claims.join("10.7.0.11")).unwrap();
    symlink("???", claims.join("10.7.0.12")).unwrap();
    let all = "free 10.7.0.10 10.7.0.11 10.7.0.12 10.7.0.13";
    let results = |args: &str| -> Vec<_> {
        let rows = ipam(&rail, &format!("{args} --json")).ended(3).json();
        rows.as_array().unwrap().iter().map(|row| row["result"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(results(all), ["refused", "wouldRelease", "wouldRelease", "free"]);
    assert_eq!(fs::read_dir(&claims).unwrap().count(), 3);
    assert_eq!(results(&format!("{all} --yes")), ["refused", "released", "released", "free"]);
    let text = ipam(&rail, "free 10.7.0.10 --yes").ended(3).stdout;
    assert!(text.contains("delete the pod, or run silkrail gc"), "{text}");
    ipam(&rail, "free 10.7.0.10 --force --yes").ended(0);
    ipam(&rail, "show --json").ended(0);
    assert_eq!(fs::read_dir(&claims).unwrap().count(), 0);
    // An entry of the pod map that cannot be read may be of a running pod.
    symlink("lost@net1", claims.join("10.7.0.11")).unwrap();
    let map = state.join("podmap/v1");
    fs::create_dir_all(&map).unwrap();
    fs::write(map.join("lost@net1.json"), "{").unwrap();
    let text = ipam(&rail, "free 10.7.0.11 --yes").ended(3).stdout;
    assert!(text.contains("its attachment is in the pod map"), "{text}");
    fs::remove_dir_all(map).unwrap();
    ipam(&rail, "free 10.7.0.11 --yes").ended(0);
    // The DEL of the pod has nothing left to release.
    rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.20"])]})).container("first").del().done();
}

#[test]
fn exported_addresses_are_reserved_or_recorded_elsewhere() {
    let rail = RailNode::new();
    let call = rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.20"])]}));
    call.container("first").add().ok();
    let directory = tempfile::tempdir().unwrap();
    let (export, pools) = (directory.path().join("node.export"), directory.path().join("pools.yaml"));
    fs::write(&export, ipam(&rail, "export").ended(0).stdout).unwrap();
    let text = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: rail}\nspec: {default: true, subnet: 10.7.0.0/24, ips: [10.7.0.10-10.7.0.20]}\n";
    fs::write(&pools, text).unwrap();
    let import = format!("ipam import --from silkrail {}", export.display());
    let reserved = silkrail(&import).ended(0).json();
    assert_eq!(reserved["items"][0]["spec"]["ips"], json!(["10.7.0.10"]));
    // A plugin that does not know its pod: nothing is recorded under another name.
    let recorded =
        ipam(&rail, &format!("export --spiderpool {} {}", pools.display(), export.display())).ended(6);
    assert!(recorded.stderr.contains("10.7.0.10 of first@net1: its pod is not known"), "{}", recorded.stderr);
    assert_eq!(recorded.json()["items"], json!([]));
    // The same with the pod, as the pod map names it.
    let mut known = serde_json::from_slice::<serde_json::Value>(&fs::read(&export).unwrap()).unwrap();
    let first = known["addresses"][0].as_object_mut().unwrap();
    first.extend(
        [("namespace", "ai"), ("pod", "web-0"), ("podUid", "u")]
            .map(|(key, value)| (key.to_owned(), json!(value))),
    );
    fs::write(&export, known.to_string()).unwrap();
    let recorded =
        ipam(&rail, &format!("export --spiderpool {} {}", pools.display(), export.display())).ended(0);
    fs::write(&pools, recorded.json()["items"][0].to_string()).unwrap();
    // Neither Spiderpool nor our own plugin on another node assigns it.
    let other = RailNode::new();
    let directory = other.node.state_dir().with_file_name("pools");
    fs::create_dir(&directory).unwrap();
    fs::copy(&pools, directory.join("pools.yaml")).unwrap();
    let result = other.ipam(&json!({"poolsDir": directory})).container("second").add().ok();
    assert_eq!(result["ips"][0]["address"], "10.7.0.11/24");
    for (args, says) in [
        ("--from host-local /nowhere", "/nowhere"),
        (&format!("--from whereabouts {}", pools.display()), "there is no IPPool"),
    ] {
        let failed = silkrail(&format!("ipam import {args}"));
        assert!(failed.stderr.contains(says), "{}", failed.stderr);
    }
}
