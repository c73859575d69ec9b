//! `silkrail`: the node's mode and its pods. Its GC is in [`crate::gc`].

use std::fs;

use serde_json::{Value, json};
use testkit::Observe;

use silkrail_tests::{
    chain::Chain,
    cli::{self, CommandOutput},
    machine::LabMachine,
};

fn silkrail(args: &str) -> (Option<i32>, String, String) {
    let CommandOutput { code, stdout, stderr } = cli::silkrail(args);
    (code, stdout, stderr)
}

/// What `rdma` says; it knows no JSON for this.
fn system(machine: &LabMachine) -> String {
    machine.node.run("rdma", &["system", "show"])
}

#[test]
fn mode_get_says_what_rdma_says() {
    for machine in [LabMachine::shared as fn() -> LabMachine, LabMachine::exclusive] {
        let machine = machine();
        let theirs = system(&machine);
        let (code, stdout, _) = silkrail("mode get --json");
        assert_eq!(code, Some(0));
        let ours: Value = serde_json::from_str(&stdout).unwrap();
        assert!(theirs.contains(ours["mode"].as_str().unwrap()), "{ours} does not say what {theirs} says");
    }
}

#[test]
fn mode_set_applies_and_persists() {
    let machine = LabMachine::shared();
    let (code, stdout, stderr) = silkrail("mode set exclusive --persist");
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(system(&machine).starts_with("netns exclusive"));
    let written = fs::read_to_string("/etc/modprobe.d/ib_core.conf").unwrap();
    assert!(written.lines().any(|line| line == "options ib_core netns_mode=0"), "{written}");
    let (code, ..) = silkrail("mode set exclusive --persist");
    assert_eq!(code, Some(0), "the second time nothing is to be done");
    fs::remove_file("/etc/modprobe.d/ib_core.conf").unwrap();
}

#[test]
fn mode_set_explains_who_is_in_the_way() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("other");
    let (code, stdout, stderr) = silkrail("mode set exclusive");
    assert_eq!(code, Some(10), "{stdout}{stderr}");
    assert!(format!("{stdout}{stderr}").contains(pod.path().to_str().unwrap()), "{stdout}{stderr}");
    assert!(system(&machine).starts_with("netns shared"));
    let (code, stdout, _) = silkrail("mode set shared");
    assert_eq!(
        (code, stdout.contains("no change")),
        (Some(0), true),
        "the mode that there is can always be set"
    );
}

#[test]
fn pods_shows_who_has_which_device() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let named = "IgnoreUnknown=true;K8S_POD_NAMESPACE=train;K8S_POD_NAME=job-0;K8S_POD_UID=91ab";
    let sriov = chain.sriov().clone().args(named);
    let result = sriov.add().ok();
    chain.rdma().with("prevResult", &result).args(named).add().ok();
    let state = machine.node.state_dir();
    let (code, table, _) = silkrail(&format!("pods --state-dir {}", state.display()));
    assert_eq!(code, Some(0));
    for part in ["train", "job-0", "net1", "exclusive", vf.rdma.as_str(), vf.pci.as_str(), "172.81.0.100"] {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
    let (_, json, _) = silkrail(&format!("pods --json --state-dir {}", state.display()));
    let parsed: Value = serde_json::from_str(&json).unwrap();
    assert!(parsed.to_string().contains(&vf.rdma), "{parsed}");
    chain.del();
    let (_, table, _) = silkrail(&format!("pods --state-dir {}", state.display()));
    assert!(!table.contains("job-0"), "{table}");
}
