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
