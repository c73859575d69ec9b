//! `silkrail mode` and `silkrail pods`. `silkrail gc` is in [`crate::gc`].

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

/// Returns the output of `rdma system show`, which has no JSON form.
fn system(machine: &LabMachine) -> String {
    machine.node.run("rdma", &["system", "show"])
}

#[test]
fn mode_get_matches_the_output_of_the_rdma_tool() {
    for machine in [LabMachine::shared as fn() -> LabMachine, LabMachine::exclusive] {
        let machine = machine();
        let expected = system(&machine);
        let (code, stdout, _) = silkrail("mode get --json");
        assert_eq!(code, Some(0));
        let printed: Value = serde_json::from_str(&stdout).unwrap();
        assert!(expected.contains(printed["mode"].as_str().unwrap()), "{printed} differs from {expected}");
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
    assert_eq!(code, Some(0), "the second run changes nothing");
    fs::remove_file("/etc/modprobe.d/ib_core.conf").unwrap();
}

#[test]
fn mode_set_reports_the_namespaces_that_prevent_it() {
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
        "setting the current mode always succeeds"
    );
}

#[test]
fn pods_lists_the_devices_of_each_pod() {
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
