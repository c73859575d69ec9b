//! Pods that do to what they were given whatever the kernel lets them.

use std::{fmt::Write as _, fs};

use serde_json::json;
use testkit::{Observe, Snapshot, TestPod, wait_until};

use silkrail_tests::{
    chain::Chain,
    hostile::{ANY_LINK, FUNCTION, HostileAction, NetnsOwner, PodEnd, RDMA_DEVICE},
    machine::{LabMachine, LabVf},
};

/// What tools other than `ip` print about a link.
fn told_by_the_driver(place: &impl Observe, link: &str) -> String {
    let mut text = String::new();
    for question in ["-k", "-g", "-c", "-l", "-x", "-n", "-a", "--show-priv-flags", ""] {
        // What a driver does not know is no answer, and stays none.
        let mut ethtool = place.command("ethtool");
        ethtool.args(Some(question).filter(|it| !it.is_empty())).arg(link);
        let output = ethtool.output().unwrap();
        let _ = writeln!(text, "ethtool {question}: {}", String::from_utf8_lossy(&output.stdout));
    }
    text
}

fn in_sysfs(link: &str) -> String {
    ["gro_flush_timeout", "napi_defer_hard_irqs", "threaded", "proto_down", "netdev_group", "ifalias"]
        .map(|name| fs::read_to_string(format!("/sys/class/net/{link}/{name}")).unwrap_or_default())
        .join(" ")
}

/// A pod's link as a pod sees it, without what differs between pods.
fn in_pod(pod: &TestPod) -> String {
    let mut link = pod.link("net1").unwrap();
    let link_object = link.as_object_mut().unwrap();
    link_object.retain(|key, _| !["ifindex", "operstate"].contains(&key.as_str()));
    format!("{link:#}\n{}", told_by_the_driver(pod, "net1"))
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

/// A pod that plays tricks, and what of them lasts.
struct HostilePod {
    machine: LabMachine,
    vf: LabVf,
    whose: NetnsOwner,
    end: PodEnd,
    /// A pod's link before any of it.
    pristine: String,
}

impl HostilePod {
    fn new(index: usize, whose: NetnsOwner, end: PodEnd) -> Self {
        let machine = LabMachine::exclusive();
        let vf = machine.vf("eth1", index);
        let mut play = Self { machine, vf, whose, end, pristine: String::new() };
        play.begin_anew();
        play
    }

    /// Creates the VFs again, and reads the state of a pod's link.
    fn begin_anew(&mut self) {
        for vfs in ["0", "7"] {
            self.machine.node.run("lab-vfs", &[vfs, "eth1"]);
        }
        self.vf = self.machine.vf(self.vf.pf, self.vf.index);
        let pod = self.machine.node.pod("first");
        let chain = Chain::new(&self.machine, &self.vf, &pod, json!({}));
        chain.sriov().add().ok();
        self.pristine = in_pod(&pod);
        chain.sriov().del().done();
    }

    /// The state of the VF on the host.
    fn at_home(&self) -> (Snapshot, String) {
        let node = &self.machine.node;
        // The kernel forgets some things only when a link is set up again: that it listens to addresses besides its own, and
        // that a bond had its GIDs.
        for state in ["up", "down"] {
            node.run_ip(&format!("link set {} {state}", self.vf.link));
        }
        let rdma = node.run("rdma", &["-d", "dev", "show", &self.vf.rdma]);
        (node.snapshot(), told_by_the_driver(node, &self.vf.link) + &in_sysfs(&self.vf.link) + &rdma)
    }

    /// What a trick changed for the node or the next pod.
    ///
    /// # Errors
    /// That the kernel did not let the pod play it.
    fn lasting(&self, trick: &HostileAction) -> Result<String, String> {
        let (before, driver_before) = self.at_home();
        let pod = match self.whose {
            NetnsOwner::Machines => self.machine.node.pod("hostile"),
            NetnsOwner::Own => self.machine.node.pod_in_a_user_namespace("hostile"),
        };
        let chain = Chain::new(&self.machine, &self.vf, &pod, json!({}));
        chain.add();
        let played = trick.play(&pod, &self.vf.rdma);
        let mut wrong = played.as_ref().err().map(|why| format!("  {why}\n")).unwrap_or_default();
        let refused = wrong.clone();
        match self.end {
            PodEnd::DelFirst => {
                wrong += &deleted(&chain);
                drop((played, pod));
            }
            PodEnd::DiesFirst => {
                pod.end();
                // What holds its namespaces, or others that it made, lives on.
                if !trick.holds() {
                    let at_home = || !self.machine.vf(self.vf.pf, self.vf.index).link.is_empty();
                    wait_until("the VF is home", at_home);
                }
                wrong += &deleted(&chain);
                drop(played);
            }
        }
        if self.machine.vf(self.vf.pf, self.vf.index).link != self.vf.link {
            return Ok(wrong + "  the VF is not on the host under its name\n");
        }
        let (after, driver_after) = self.at_home();
        wrong += &after.difference(&before);
        wrong += &differing("driver", &driver_after, &driver_before);
        wrong += &self.next_pod();
        if wrong == refused && !refused.is_empty() { Err(refused) } else { Ok(wrong) }
    }

    /// What is different for the next pod.
    fn next_pod(&self) -> String {
        let next = self.machine.node.pod("next");
        let chain = Chain::new(&self.machine, &self.vf, &next, json!({})).container("next");
        let answer = chain.sriov().add();
        let wrong = if answer.status.success() {
            differing("the next pod", &in_pod(&next), &self.pristine)
        } else {
            format!("  the next ADD: {}\n", answer.stdout)
        };
        let _ = chain.sriov().del();
        wrong
    }

    /// Has pods play every `every`th trick, and returns how many the kernel let them play.
    fn all(&mut self, every: usize) -> usize {
        let (mut all, mut played) = (String::new(), 0);
        let tricks = [ANY_LINK, FUNCTION, RDMA_DEVICE].concat();
        for trick in tricks.iter().step_by(every) {
            let wrong = match self.lasting(trick) {
                Err(_) if self.whose == NetnsOwner::Own => continue,
                Err(wrong) | Ok(wrong) => wrong,
            };
            played += 1;
            if !wrong.is_empty() {
                all += &format!("{}:\n{wrong}\n", trick.name);
                self.begin_anew();
            }
        }
        assert!(all.is_empty(), "{all}");
        played
    }
}

/// Deletes the attachment, and returns what went wrong.
fn deleted(chain: &Chain) -> String {
    let calls = [("rdma", chain.rdma()), ("sriov", chain.sriov())];
    let answers = calls.map(|(plugin, call)| (plugin, call.del()));
    let failed = answers.iter().filter(|(_, answer)| !answer.status.success());
    failed.map(|(plugin, answer)| format!("  {plugin} DEL: {}\n", answer.stdout)).collect()
}

/// One of this number of tricks is played in the other tests than the first: one takes two seconds.
const SAMPLE: usize = 4;

#[test]
fn invariant_1_nothing_that_a_pod_does_to_its_vf_lasts() {
    let played = HostilePod::new(5, NetnsOwner::Machines, PodEnd::DelFirst).all(1);
    assert!(played >= 40, "{played}");
}

#[test]
fn invariant_1_nothing_that_a_dead_pod_did_to_its_vf_lasts() {
    HostilePod::new(6, NetnsOwner::Machines, PodEnd::DiesFirst).all(SAMPLE);
}

#[test]
fn invariant_1_nothing_that_a_pod_with_a_user_namespace_does_to_its_vf_lasts() {
    let played = HostilePod::new(4, NetnsOwner::Own, PodEnd::DelFirst).all(SAMPLE);
    assert!(played * SAMPLE >= 30, "the kernel let it do too little: {played}");
}
