//! The chain of `ifacer` and the plugin whose master it creates.

use serde_json::{Value, json};
use testkit::{Call, Observe, TestPod};

use crate::machine::LabMachine;

/// A pod's attachment by `ifacer`, then `macvlan` or `ipvlan`.
#[derive(Debug, Clone)]
pub struct MasterChain {
    ifacer: Call,
    next: Call,
}

/// The VLAN of most tests.
pub const VLAN: &str = "eth0.100";

/// Returns the configuration of [`VLAN`].
pub fn vlan() -> Value {
    json!({"interfaces": ["eth0"], "vlanID": 100})
}

impl MasterChain {
    /// Returns the chain with a configuration of `ifacer`, then `macvlan` on a master.
    pub fn new(machine: &LabMachine, pod: &TestPod, container: &str, conf: &Value, master: &str) -> Self {
        Self::before(machine, "macvlan", pod, container, conf, master)
    }

    /// Returns the chain of [`VLAN`].
    pub fn on_vlan(machine: &LabMachine, pod: &TestPod, container: &str) -> Self {
        Self::new(machine, pod, container, &vlan(), VLAN)
    }

    /// Returns the chain with another plugin after `ifacer`.
    pub fn before(
        machine: &LabMachine,
        plugin: &str,
        pod: &TestPod,
        container: &str,
        conf: &Value,
        master: &str,
    ) -> Self {
        let about = |call: Call| call.pod(pod).container(container);
        Self {
            ifacer: about(machine.plugin("ifacer", conf)),
            next: about(machine.plugin(plugin, &json!({"master": master}))),
        }
    }

    /// The call of `ifacer`.
    pub fn ifacer(&self) -> &Call {
        &self.ifacer
    }

    /// The call of the plugin after it.
    pub fn next(&self) -> &Call {
        &self.next
    }

    /// Calls ADD of both plugins, and returns the result of the chain.
    pub fn add(&self) -> Value {
        let result = self.ifacer.add().ok();
        self.next.with("prevResult", &result).add().ok()
    }

    /// Calls CHECK of both plugins.
    pub fn check(&self, result: &Value) {
        self.ifacer.check_after(result).done();
        self.next.check_after(result).done();
    }

    /// Calls DEL of both plugins, in the order of runtimes.
    pub fn del(&self) {
        self.next.del().done();
        self.ifacer.del().done();
    }
}

/// Returns a link of the machine as `ip -d -j link` prints it.
///
/// # Panics
/// If it does not exist.
pub fn link(machine: &LabMachine, name: &str) -> Value {
    machine.node.link(name).unwrap_or_else(|| panic!("there is no link {name}"))
}
