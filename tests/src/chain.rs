//! The chain of exclusive mode: `sriov`, then `rdma`.

use serde_json::{Value, json};
use testkit::{Call, TestPod};

use crate::machine::{LabMachine, LabVf};

/// A pod's attachment by both plugins.
#[derive(Debug)]
pub struct Chain {
    sriov: Call,
    rdma: Call,
}

impl Chain {
    /// Returns the chain for a VF and a pod, with the container ID `pod-<pf>-<index>`.
    pub fn new(machine: &LabMachine, vf: &LabVf, pod: &TestPod, settings: Value) -> Self {
        let mut sriov = json!({"deviceID": vf.pci});
        sriov.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let container = format!("pod-{}-{}", vf.pf, vf.index);
        let about = |call: Call| call.pod(pod).container(&container);
        Self {
            sriov: about(machine.plugin("sriov", &sriov)),
            rdma: about(machine.plugin("rdma", &json!({"deviceID": vf.pci}))),
        }
    }

    /// Sets another container ID.
    #[must_use]
    pub fn container(self, id: &str) -> Self {
        Self { sriov: self.sriov.container(id), rdma: self.rdma.container(id) }
    }

    /// Sets `CNI_ARGS`.
    #[must_use]
    pub fn args(self, args: &str) -> Self {
        Self { sriov: self.sriov.args(args), rdma: self.rdma.args(args) }
    }

    /// Sets another interface name.
    #[must_use]
    pub fn ifname(self, name: &str) -> Self {
        Self { sriov: self.sriov.ifname(name), rdma: self.rdma.ifname(name) }
    }

    /// Calls ADD of both plugins, and returns the result of the chain.
    pub fn add(&self) -> Value {
        let result = self.sriov.add().ok();
        let passed = self.rdma.with("prevResult", &result).add().ok();
        assert_eq!(passed, result, "rdma passes the result on unchanged");
        result
    }

    /// Calls DEL of both plugins, in the order of runtimes: `rdma`, then `sriov`.
    pub fn del(&self) {
        self.rdma.del().done();
        self.sriov.del().done();
    }

    /// Calls CHECK of both plugins.
    pub fn check(&self, result: &Value) {
        self.sriov.check_after(result).done();
        self.rdma.check_after(result).done();
    }

    /// Returns the call of `sriov`.
    pub fn sriov(&self) -> &Call {
        &self.sriov
    }

    /// Returns the call of `rdma`.
    pub fn rdma(&self) -> &Call {
        &self.rdma
    }
}
