//! Hostile pods, which change their link and RDMA device in every way that the kernel permits.

use std::{fmt::Write as _, fs};

use serde_json::json;
use testkit::{Observe, Share, Snapshot, TestPod, wait_until};

use silkrail_tests::{
    chain::Chain,
    hostile::{ANY_LINK, FUNCTION, HostileAction, NetnsOwner, PodEnd, RDMA_DEVICE},
    machine::{LabMachine, LabVf, recreate_vfs},
};

/// Returns what ethtool prints about a link.
fn ethtool_output(place: &impl Observe, link: &str) -> String {
    let mut text = String::new();
    for option in ["-k", "-g", "-c", "-l", "-x", "-n", "-a", "--show-priv-flags", ""] {
        // An option that the driver does not support prints nothing, before and after.
        let mut ethtool = place.command("ethtool");
        ethtool.args(Some(option).filter(|it| !it.is_empty())).arg(link);
        let output = ethtool.output().unwrap();
        let _ = writeln!(text, "ethtool {option}: {}", String::from_utf8_lossy(&output.stdout));
    }
    let contexts =
        (1..4).map(|context| vec!["-x".into(), link.into(), "context".into(), context.to_string()]);
    let tunable = vec!["--get-tunable".to_owned(), link.into(), "rx-copybreak".into()];
    for args in contexts.chain([tunable]) {
        let output = place.command("ethtool").args(&args).output().unwrap();
        let _ = writeln!(text, "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
    text
}

fn sysfs_attributes(link: &str) -> String {
    ["gro_flush_timeout", "napi_defer_hard_irqs", "threaded", "proto_down", "netdev_group", "ifalias"]
        .map(|name| fs::read_to_string(format!("/sys/class/net/{link}/{name}")).unwrap_or_default())
        .join(" ")
}

/// The attributes of a pod's link, read in the pod, without those that differ between pods.
fn link_in_pod(pod: &TestPod) -> String {
    let mut link = pod.link("net1").unwrap();
    let link_object = link.as_object_mut().unwrap();
    link_object.retain(|key, _| !["ifindex", "operstate"].contains(&key.as_str()));
    format!("{link:#}\n{}", ethtool_output(pod, "net1"))
}

fn differing(what: &str, now: &str, before: &str) -> String {
    let lines = |of: &str, other: &str, sign: char| -> String {
        let other: Vec<_> = other.lines().collect();
        of.lines()
            .filter(|line| !other.contains(line))
            .map(|line| format!("  {sign} {what}: {}\n", line.trim()))
            .collect()
    };
    lines(before, now, '-') + &lines(now, before, '+')
}

/// A hostile pod, and the comparison of the VF before and after it.
struct HostilePod {
    machine: LabMachine,
    vf: LabVf,
    owner: NetnsOwner,
    end: PodEnd,
    /// The attributes of a pod's link before any action.
    pristine: String,
}

fn share() -> Share {
    Share::of_tests_of(&["pkg/exclusive-rdma", "pkg/vf", "plugins/main/sriov", "plugins/meta/rdma"])
}

impl HostilePod {
    fn new(index: usize, owner: NetnsOwner, end: PodEnd) -> Self {
        let machine = LabMachine::exclusive();
        let vf = machine.vf("eth1", index);
        let mut this = Self { machine, vf, owner, end, pristine: String::new() };
        this.recreate_vfs();
        this
    }

    /// Deletes and creates the VFs, and reads the attributes of a pod's link.
    fn recreate_vfs(&mut self) {
        recreate_vfs(&["eth1"]);
        self.vf = self.machine.vf(self.vf.pf, self.vf.index);
        let pod = self.machine.node.pod("first");
        let chain = Chain::new(&self.machine, &self.vf, &pod, json!({}));
        chain.sriov().add().ok();
        self.pristine = link_in_pod(&pod);
        chain.sriov().del().done();
    }

    /// The state of the VF on the host.
    fn state_on_host(&self) -> (Snapshot, String) {
        let node = &self.machine.node;
        // The kernel resets some state only when a link is set up again: its list of further unicast and multicast addresses,
        // and the GIDs of a former bond.
        for state in ["up", "down"] {
            node.run_ip(&format!("link set {} {state}", self.vf.link));
        }
        let port = format!("{}/1", self.vf.rdma);
        let counters =
            [&["statistic", "qp", "mode", "link", &port][..], &["statistic", "mode", "link", &port]];
        let counters = counters.map(|args| node.run("rdma", args)).concat();
        let rdma = node.run("rdma", &["-d", "dev", "show", &self.vf.rdma]) + &counters;
        let timestamps = format!("/sys/kernel/debug/rdmasim/{}/timestamps", self.vf.pci);
        let timestamps = format!("time stamps: {}", fs::read_to_string(timestamps).unwrap());
        (
            node.snapshot(),
            ethtool_output(node, &self.vf.link) + &sysfs_attributes(&self.vf.link) + &timestamps + &rdma,
        )
    }

    /// Returns what an action changed for the node or the next pod; empty if it changed nothing.
    ///
    /// # Errors
    /// If the kernel did not permit the action.
    fn lasting_changes(&self, action: &HostileAction) -> Result<String, String> {
        let (before, driver_before) = self.state_on_host();
        let pod = match self.owner {
            NetnsOwner::Machines => self.machine.node.pod("hostile"),
            NetnsOwner::Own => self.machine.node.pod_in_a_user_namespace("hostile"),
        };
        let chain = Chain::new(&self.machine, &self.vf, &pod, json!({}));
        chain.add();
        let running = action.run(&pod, &self.vf.rdma);
        let mut changes = running.as_ref().err().map(|why| format!("  {why}\n")).unwrap_or_default();
        let refused = changes.clone();
        match self.end {
            PodEnd::DelFirst => {
                changes += &delete(&chain);
                drop((running, pod));
            }
            PodEnd::DiesFirst => {
                pod.end();
                // A process that holds the pod's namespace, or a nested one, is still alive.
                if !action.holds() {
                    let returned = || !self.machine.vf(self.vf.pf, self.vf.index).link.is_empty();
                    wait_until("the VF is on the host", returned);
                }
                changes += &delete(&chain);
                drop(running);
            }
        }
        if self.machine.vf(self.vf.pf, self.vf.index).link != self.vf.link {
            return Ok(changes + "  the VF is not on the host under its name\n");
        }
        let (after, driver_after) = self.state_on_host();
        changes += &after.difference(&before);
        changes += &differing("driver", &driver_after, &driver_before);
        changes += &self.next_pod();
        if changes == refused && !refused.is_empty() { Err(refused) } else { Ok(changes) }
    }

    /// Returns what differs for the next pod.
    fn next_pod(&self) -> String {
        let next = self.machine.node.pod("next");
        let chain = Chain::new(&self.machine, &self.vf, &next, json!({})).container("next");
        let answer = chain.sriov().add();
        let changes = if answer.status.success() {
            differing("the next pod", &link_in_pod(&next), &self.pristine)
        } else {
            format!("  the next ADD: {}\n", answer.stdout)
        };
        let _ = chain.sriov().del();
        changes
    }

    /// Runs this run's share of the actions, each in a pod of its own. Returns the number of actions that the kernel permitted,
    /// and that of all actions that were tried.
    fn sweep(&mut self) -> (usize, usize) {
        let (mut all, mut permitted, mut tried) = (String::new(), 0, 0);
        let actions = [ANY_LINK, FUNCTION, RDMA_DEVICE].concat();
        let list = format!("hostile {:?} {:?}", self.owner, self.end);
        for index in share().of_list(&list, actions.len()) {
            let action = &actions[index];
            tried += 1;
            let changes = match self.lasting_changes(action) {
                Err(_) if self.owner == NetnsOwner::Own => continue,
                Err(changes) | Ok(changes) => changes,
            };
            permitted += 1;
            if !changes.is_empty() {
                all += &format!("{}:\n{changes}\n", action.name);
                self.recreate_vfs();
            }
        }
        assert!(all.is_empty(), "{all}");
        (permitted, tried)
    }
}

/// Deletes the attachment, and returns the errors of both plugins.
fn delete(chain: &Chain) -> String {
    let calls = [("rdma", chain.rdma()), ("sriov", chain.sriov())];
    let answers = calls.map(|(plugin, call)| (plugin, call.del()));
    let failed = answers.iter().filter(|(_, answer)| !answer.status.success());
    failed.map(|(plugin, answer)| format!("  {plugin} DEL: {}\n", answer.stdout)).collect()
}

#[test]
fn invariant_1_no_change_by_a_pod_to_its_vf_persists() {
    let (permitted, tried) = HostilePod::new(5, NetnsOwner::Machines, PodEnd::DelFirst).sweep();
    assert!(tried > 0 && permitted == tried, "{permitted} of {tried}");
}

#[test]
fn invariant_1_no_change_by_a_dead_pod_to_its_vf_persists() {
    HostilePod::new(6, NetnsOwner::Machines, PodEnd::DiesFirst).sweep();
}

#[test]
fn invariant_1_no_change_by_a_pod_with_a_user_namespace_to_its_vf_persists() {
    let (permitted, tried) = HostilePod::new(4, NetnsOwner::Own, PodEnd::DelFirst).sweep();
    // Of a share, the kernel may permit none.
    assert!(
        permitted * 2 >= tried || !share().is_all(),
        "the kernel permitted too few actions: {permitted} of {tried}"
    );
}
