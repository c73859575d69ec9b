//! Many pod sandboxes at a time, and containerd killed among them.

use std::{
    collections::BTreeSet,
    sync::Mutex,
    thread::{self, Scope},
};

use serde_json::{Value, json};
use silkrail_tests::{
    containerd::{Containerd, Release},
    cri::Cri,
    evidence::ProcFixture,
    rail::{RailNode, ipam},
};
use testkit::{Observe, wait_until};

/// Clients that create sandboxes at the same time.
const CLIENTS: usize = 4;

/// Sandboxes that each client creates before the kill, if there were no kill, and again afterwards.
const EACH: usize = 4;

#[test]
fn containerd_2_is_killed_during_churn_and_nothing_remains() {
    churn(Release::Two, "1.1.0");
}

#[test]
fn containerd_1_6_is_killed_during_churn_and_nothing_remains() {
    churn(Release::OneSix, "1.0.0");
}

fn churn(release: Release, version: &str) {
    let rail = RailNode::new();
    rail.switch.run_ip("address add 10.7.0.1/24 dev port0");
    let before = rail.node.snapshot();
    let mut containerd = Containerd::with_network(release, rail.node.cni_path(), &network(&rail, version));
    wait_until("the network is ready", || containerd.cri.network_ready().holds);

    let created = Mutex::new(Vec::new());
    thread::scope(|scope| {
        create(scope, &containerd, "early", &created);
        wait_until("half of the sandboxes are created", || {
            created.lock().unwrap().len() >= CLIENTS * EACH / 2
        });
        containerd.kill();
    });
    containerd.restart();
    assert_reachable(&rail, &containerd.cri, &created.into_inner().unwrap());

    // As the kubelet does with sandboxes that it does not know.
    let listed = containerd.cri.sandboxes().unwrap();
    let created = Mutex::new(Vec::new());
    thread::scope(|scope| {
        create(scope, &containerd, "late", &created);
        remove(&containerd.cri, &listed);
    });
    let created = created.into_inner().unwrap();
    assert_eq!(created.len(), CLIENTS * EACH, "{}", containerd.log());
    assert_reachable(&rail, &containerd.cri, &created);
    remove(&containerd.cri, &created);
    assert_eq!(containerd.cri.sandboxes().unwrap(), [""; 0]);
    if delete_forgotten(&containerd) > 0 {
        // The kernel deletes a namespace in the background.
        wait_until("their links are gone", || rail.node.link("rail0").unwrap()["promiscuity"] == 0);
        ProcFixture::of(&rail.node).gc("--yes").ended(0);
    }
    rail.node.snapshot().assert_is(&before);
}

fn network(rail: &RailNode, version: &str) -> Value {
    let macvlan = json!({
        "type": "macvlan", "master": "rail0", "stateDir": rail.node.state_dir(),
        "ipam": ipam(&["10.7.0.10-10.7.0.59"]),
    });
    json!({"cniVersion": version, "name": "rail", "plugins": [macvlan]})
}

/// Starts clients that create sandboxes until containerd ends; they add the IDs to `created`.
fn create<'scope>(
    scope: &'scope Scope<'scope, '_>,
    containerd: &Containerd,
    name: &'static str,
    created: &'scope Mutex<Vec<String>>,
) {
    for client in 0..CLIENTS {
        let cri = containerd.another_client();
        scope.spawn(move || {
            for number in 0..EACH {
                match cri.run_pod_sandbox(&format!("{name}-{client}-{number}")) {
                    Ok(id) => created.lock().unwrap().push(id),
                    Err(error) => return println!("{name}-{client}-{number}: {error}"),
                }
            }
        });
    }
}

/// Asserts that each sandbox has its own address, to which the switch gets a reply.
fn assert_reachable(rail: &RailNode, cri: &Cri, sandboxes: &[String]) {
    let addresses: BTreeSet<_> = sandboxes.iter().map(|id| cri.address(id).unwrap()).collect();
    assert_eq!(addresses.len(), sandboxes.len(), "{addresses:?}");
    for address in &addresses {
        rail.switch.run("busybox", &["ping", "-c", "1", "-W", "5", address]);
    }
}

fn remove(cri: &Cri, sandboxes: &[String]) {
    for id in sandboxes {
        cri.remove_pod_sandbox(id).unwrap();
    }
}

/// Returns the network namespaces that containerd has mounted, one per line.
fn namespaces(containerd: &Containerd) -> String {
    let output = containerd.command("ls").arg("/run/netns").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Deletes network namespaces without a sandbox, and returns their number: containerd forgets a sandbox if it is killed
/// during the network's ADD, and calls no DEL.
fn delete_forgotten(containerd: &Containerd) -> usize {
    let forgotten = namespaces(containerd);
    let names: Vec<_> = forgotten.lines().collect();
    assert!(names.len() <= CLIENTS, "more than one for each client: {forgotten}");
    for name in &names {
        let deleted = containerd.command("ip").args(["netns", "delete", name]).status().unwrap();
        assert!(deleted.success(), "{name}");
    }
    names.len()
}
