//! Pods that Debian's Go plugin ipvlan attached, before the node was switched to Silkrail, and the way back.

use std::{fs, path::Path};

use serde_json::{Value, json};
use silkrail_tests::machine::LabMachine;
use testkit::{Call, Observe, TestPod};

/// The directory of the Debian package `containernetworking-plugins`.
const GO: &str = "/usr/lib/cni";

/// The addresses that host-local has allocated.
fn allocated(machine: &LabMachine) -> Vec<String> {
    let dir = data_dir(machine).join("rail");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("10.")).collect()
}

fn data_dir(machine: &LabMachine) -> std::path::PathBuf {
    machine.node.state_dir().with_file_name("host-local")
}

fn call(machine: &LabMachine, pod: &TestPod) -> Call {
    let conf = json!({
        "cniVersion": "1.0.0", "name": "rail", "type": "ipvlan", "master": "eth0", "mode": "l2",
        "ipam": {
            "type": "host-local", "dataDir": data_dir(machine), "ranges": [[{"subnet": "10.7.0.0/24"}]]
        },
    });
    machine.node.plugin("ipvlan").conf(&conf).pod(pod)
}

/// Adds with the plugins of one side, and deletes with those of the other.
fn switched(machine: &LabMachine, add: impl Fn(Call) -> Call, del: impl Fn(Call) -> Call) {
    for ends in [false, true] {
        let pod = machine.node.pod("a");
        let (add, del) = (add(call(machine, &pod)), del(call(machine, &pod)));
        let result: Value = add.add().ok();
        assert_eq!(pod.link("net1").unwrap()["linkinfo"]["info_kind"], "ipvlan");
        assert_eq!(allocated(machine).len(), 1);
        let del = del.with("prevResult", &result);
        let pod = if ends {
            pod.end();
            None
        } else {
            Some(pod)
        };
        del.del().done();
        del.del().done();
        assert_eq!(pod.as_ref().map(Observe::link_names).unwrap_or(vec!["lo".into()]), ["lo"]);
        assert!(allocated(machine).is_empty());
    }
}

#[test]
fn upgrade_ipvlan_deletes_a_link_of_the_go_plugin() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let go = Path::new(GO);
    switched(&machine, |call| call.from_dir(go), |call| call.delegates_in(go));
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn way_back_the_go_plugin_ipvlan_deletes_a_link_of_silkrail() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let go = Path::new(GO);
    switched(&machine, |call| call.delegates_in(go), |call| call.from_dir(go));
    // The journal is left, until gc finds that its pod is gone.
    let state = machine.node.state_dir().display().to_string();
    silkrail_tests::cli::silkrail(&format!("gc --yes --state-dir {state} --cni-path {GO}")).ended(0);
    machine.node.snapshot().assert_is(&before);
}
