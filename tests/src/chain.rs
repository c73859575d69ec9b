//! The seed's exclusive chain: `sriov`, then `rdma`.

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
    /// The chain for a VF and a pod whose container is called like the VF.
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

    /// About another container.
    #[must_use]
    pub fn container(self, id: &str) -> Self {
        Self { sriov: self.sriov.container(id), rdma: self.rdma.container(id) }
    }

    /// With these `CNI_ARGS`.
    #[must_use]
    pub fn args(self, args: &str) -> Self {
        Self { sriov: self.sriov.args(args), rdma: self.rdma.args(args) }
    }

    /// About another interface.
    #[must_use]
    pub fn ifname(self, name: &str) -> Self {
        Self { sriov: self.sriov.ifname(name), rdma: self.rdma.ifname(name) }
    }

    /// ADD of both; the result is the chain's.
    pub fn add(&self) -> Value {
        let result = self.sriov.add().ok();
        let passed = self.rdma.with("prevResult", &result).add().ok();
        assert_eq!(passed, result, "rdma passes the result on unchanged");
        result
    }

    /// DEL of both, in the order of runtimes: the last first.
    pub fn del(&self) {
        self.rdma.del().done();
        self.sriov.del().done();
    }

    /// CHECK of both.
    pub fn check(&self, result: &Value) {
        self.sriov.check_after(result).done();
        self.rdma.check_after(result).done();
    }

    /// The call of `sriov`.
    pub fn sriov(&self) -> &Call {
        &self.sriov
    }

    /// The call of `rdma`.
    pub fn rdma(&self) -> &Call {
        &self.rdma
    }
}
