//! A node that is switched from the Go plugins to Silkrail while pods run, and back, with Debian's macvlan and host-local.
//! ipvlan and the plugins of devices are tested in the lab.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use silkrail_tests::{
    cli::{self, CommandOutput},
    evidence::ProcFixture,
    rail::{RailNode, pool},
};
use testkit::{Call, FakeIpam, Observe, TestPod};

use crate::install_fixture::InstallFixture;

/// The directory of the Debian package `containernetworking-plugins`.
const GO: &str = "/usr/lib/cni";

/// A node on which `silkrail install` has replaced the Go plugins.
struct SwitchedNode {
    rail: RailNode,
    install: InstallFixture,
    evidence: ProcFixture,
}

impl SwitchedNode {
    fn new() -> Self {
        let (rail, install) = (RailNode::new(), InstallFixture::new());
        for plugin in ["macvlan", "host-local"] {
            fs::copy(Path::new(GO).join(plugin), install.bin(plugin)).unwrap();
        }
        fs::create_dir(install.path("root/run")).unwrap();
        symlink(rail.node.state_dir(), install.path("root/run/silkrail")).unwrap();
        install.install("").ended(0);
        let evidence = ProcFixture::of(&rail.node);
        Self { rail, install, evidence }
    }

    /// Returns a call of the macvlan that is installed now.
    fn macvlan(&self, pod: &TestPod, ipam: &Value) -> Call {
        let conf = json!({"cniVersion": "1.0.0", "ipam": ipam});
        self.rail.macvlan(&conf).from_dir(&self.install.bin("")).pod(pod)
    }

    /// Ends the pod without a DEL.
    fn next_pod(self, name: &str) -> Self {
        Self { rail: self.rail.next_pod(name), ..self }
    }

    fn has_go_plugins(&self) {
        assert_eq!(self.install.names(), ["host-local", "macvlan"]);
        let installed = fs::read(self.install.bin("macvlan")).unwrap();
        assert_eq!(installed, fs::read(Path::new(GO).join("macvlan")).unwrap());
    }

    /// Returns a path of the page on this node.
    fn path(&self, path: &str) -> PathBuf {
        match path {
            "/usr/local/bin/silkrail" => cli::executable(),
            path => self.install.path("root").join(path.strip_prefix('/').unwrap()),
        }
    }

    /// Runs a command of the page on this node.
    fn run(&self, command: &str) -> CommandOutput {
        let (program, args) = command.split_once(' ').unwrap();
        assert!(["silkrail", "/root/silkrail"].contains(&program), "{command}");
        match args.split_once(' ').unwrap_or((args, "")) {
            ("uninstall", options) => self.install.uninstall(options),
            ("gc", options) => self.evidence.gc(options),
            other => panic!("{other:?}"),
        }
    }
}

fn host_local(rail: &RailNode) -> Value {
    json!({"type": "host-local", "dataDir": data_dir(rail), "ranges": [[{"subnet": "10.7.0.0/24"}]]})
}

fn data_dir(rail: &RailNode) -> PathBuf {
    rail.node.state_dir().with_file_name("host-local")
}

/// The addresses that host-local has allocated.
fn allocated(rail: &RailNode) -> usize {
    let entries = fs::read_dir(data_dir(rail).join("rail")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("10.")).count()
}

/// Returns the commands of the n-th block on the way back.
fn commands(block: usize) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf/README.md");
    let text = fs::read_to_string(page).unwrap();
    let section =
        text.split("\n### Return to the Go plugins\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let block = section.split("```sh\n").nth(1 + block).unwrap().split("```").next().unwrap();
    block.lines().map(str::to_owned).collect()
}

/// A pod of the Go plugin, with its call of Silkrail's plugin and the result of its ADD.
fn go_pod(rail: &RailNode, ipam: &Value) -> (Call, Value) {
    let conf = json!({"cniVersion": "1.0.0", "ipam": ipam});
    let call = rail.macvlan(&conf);
    let result = call.clone().from_dir(Path::new(GO)).add().ok();
    (call.delegates_in(Path::new(GO)), result)
}

#[test]
fn upgrade_macvlan_deletes_a_link_of_the_go_plugin_and_releases_its_address() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for path in [true, false] {
        let (call, result) = go_pod(&rail, &host_local(&rail));
        call.check_after(&result).done();
        // This release of host-local has no GC.
        let gc = call.with("cniVersion", &json!("1.1.0")).with("ipam", &json!({}));
        gc.with("cni.dev/valid-attachments", &json!([])).gc().done();
        assert!(rail.pod.link("net1").is_some(), "GC does not delete links without a journal");
        let del = call.with("prevResult", &result);
        if !path {
            // The link ends with its namespace; the address is released.
            del.clone().without("CNI_NETNS").del().done();
            assert_eq!(allocated(&rail), 0);
        }
        del.del().done();
        assert_eq!((rail.pod.link_names(), allocated(&rail)), (vec!["lo".to_owned()], 0));
        del.del().done();
        rail.node.snapshot().assert_is(&before);
    }
}

#[test]
fn upgrade_after_the_namespace_is_gone_the_address_of_a_go_pod_is_released() {
    let rail = RailNode::new();
    let (call, result) = go_pod(&rail, &host_local(&rail));
    let rail = rail.next_pod("b");
    let before = rail.node.snapshot();
    call.with("prevResult", &result).del().done();
    assert_eq!(allocated(&rail), 0);
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn upgrade_the_ipam_plugin_of_a_go_pod_is_called_under_its_name() {
    for name in ["whereabouts", "spiderpool"] {
        let rail = RailNode::new();
        let ipam = FakeIpam::install(&rail.node, name);
        ipam.set_result("ADD", &json!({"cniVersion": "1.0.0", "ips": [{"address": "10.7.0.9/24"}]}));
        let whole = rail.macvlan(&json!({"cniVersion": "1.0.0", "ipam": {"type": name, "key": [1]}}));
        whole.clone().from_dir(Path::new(GO)).env("CNI_PATH", ipam.dir()).add().ok();
        assert_eq!(rail.pod.addresses("net1"), ["10.7.0.9/24"]);
        // What is left of it after Multus before pull request 1521.
        let stripped = json!({
            "cniVersion": "1.0.0", "name": "rail", "type": "macvlan", "dns": {}, "ipam": {"type": name}
        });
        for call in [whole.clone(), whole.stdin(stripped.to_string())] {
            call.delegates_in(ipam.dir()).del().done();
        }
        assert_eq!(ipam.verbs(), ["ADD", "DEL", "DEL"]);
        assert_eq!(rail.pod.link_names(), ["lo"]);
    }
}

/// host-local refuses what Multus before pull request 1521 passes to DEL, from any caller: it has no ranges.
#[test]
fn upgrade_macvlan_deletes_the_link_of_a_go_pod_even_if_its_ipam_plugin_fails() {
    let rail = RailNode::new();
    let (call, _) = go_pod(&rail, &host_local(&rail));
    let stripped = json!({
        "cniVersion": "1.0.0", "name": "rail", "type": "macvlan", "dns": {}, "ipam": {"type": "host-local"}
    });
    let stripped = call.clone().stdin(stripped.to_string());
    stripped.clone().from_dir(Path::new(GO)).del().refusal();
    assert_eq!(rail.pod.link_names().len(), 2, "the Go plugin needs a master");
    stripped.del().refusal().says(&["no IP ranges specified"]);
    assert_eq!((rail.pod.link_names(), allocated(&rail)), (vec!["lo".to_owned()], 1));
    call.del().done();
    assert_eq!(allocated(&rail), 0);
}

#[test]
fn way_back_a_drained_node_has_the_go_plugins_and_nothing_of_silkrail() {
    let node = SwitchedNode::new();
    node.macvlan(&node.rail.pod, &host_local(&node.rail)).container("ended").add().ok();
    let node = node.next_pod("b");
    let call = node.macvlan(&node.rail.pod, &host_local(&node.rail));
    call.add().ok();
    for command in commands(0) {
        match command.split(' ').nth(1).unwrap() {
            "drain" => {
                node.run("silkrail uninstall").ended(3);
                call.del().done();
            }
            "gc" => {
                assert_eq!(allocated(&node.rail), 1, "a pod ended without a DEL");
                let ran = node.run(&command).ended(0);
                assert!(ran.stdout.contains(", 0 left"), "{ran:?}");
            }
            "uninstall" => drop(node.run(&command).ended(0)),
            other => assert_eq!(other, "uncordon"),
        }
    }
    node.has_go_plugins();
    assert!(node.rail.node.snapshot().state().is_empty() && allocated(&node.rail) == 0);
    call.add().ok();
    call.del().done();
    assert_eq!((node.rail.pod.link_names(), allocated(&node.rail)), (vec!["lo".to_owned()], 0));
}

#[test]
fn way_back_the_go_plugin_macvlan_deletes_running_pods_of_silkrail() {
    let node = SwitchedNode::new();
    let ours = json!({"type": "silkrail-ipam", "pools": [pool("rail", &["10.7.0.50"])]});
    let ipams = [("net1", host_local(&node.rail)), ("net2", ours)];
    let calls = ipams.map(|(name, ipam)| node.macvlan(&node.rail.pod, &ipam).ifname(name));
    calls.iter().for_each(|call| drop(call.add().ok()));
    fs::create_dir(node.install.path("root/root")).unwrap();
    let mut steps = commands(1);
    let last = steps.pop().unwrap();
    for step in steps {
        let copies =
            step.strip_prefix("cp ").map(|paths| paths.split(' ').map(|path| node.path(path)).collect());
        match copies {
            Some(paths) => copy(paths),
            None => {
                node.run(&step).ended(0);
                node.has_go_plugins();
            }
        }
    }
    calls.iter().for_each(|call| call.del().done());
    assert_eq!((node.rail.pod.link_names(), allocated(&node.rail)), (vec!["lo".to_owned()], 0));
    assert!(node.rail.node.snapshot().claims().is_empty());
    let node = node.next_pod("b");
    node.run(&last).ended(0);
    let state = node.rail.node.snapshot();
    assert!(state.state().is_empty(), "{:?}", state.state());
}

fn copy(paths: Vec<PathBuf>) {
    let [from, to] = <[PathBuf; 2]>::try_from(paths).unwrap();
    fs::copy(from, to).unwrap();
}
