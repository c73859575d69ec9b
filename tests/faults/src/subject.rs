//! A plugin, and what is around it: a node, a pod, the plugins before it in its chain.

use serde_json::{Value, json};
use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, LabVf},
    rail::{RailNode, ipam},
};
use testkit::{Call, TestNode, TestPod};

use crate::{plan::PluginName, remedy::succeeded};

/// A plugin whose calls are to go wrong.
pub(crate) struct PluginUnderTest {
    around: PodLocation,
    /// `None` while its namespace has ended.
    pod: Option<TestPod>,
    /// The call of the plugin itself, about the pod.
    call: Call,
    /// The call of the plugin that comes before it in its chain.
    earlier: Option<Call>,
    /// Whether the next ADD, of the same device, is another pod's.
    device: bool,
}

/// Where the pod is.
enum PodLocation {
    Rail(RailNode),
    Machine(LabMachine),
}

impl PodLocation {
    fn node(&self) -> &TestNode {
        match self {
            Self::Rail(rail) => &rail.node,
            Self::Machine(machine) => &machine.node,
        }
    }
}

/// The name of the pod's namespace in snapshots.
const POD: &str = "subject";

impl PluginUnderTest {
    /// The plugin on a node of its own.
    pub(crate) fn new(plugin: PluginName) -> Self {
        match plugin {
            PluginName::Macvlan => Self::on_rail(|rail| rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10"])}))),
            PluginName::SilkrailIpam => {
                let pools = json!({"pools": [silkrail_tests::rail::pool("rail", &["10.7.0.10"])]});
                Self::on_rail(|rail| {
                    rail.ipam(&pools).args("K8S_POD_UID=2a6ed0c0-58d2-4c4f-9b09-9d1a4ae0b1aa")
                })
            }
            PluginName::Ipvlan => Self::on_pf(),
            PluginName::Sriov => Self::in_chain(json!({"vlan": 321, "trust": "on", "mtu": 1400}), false),
            PluginName::Rdma => Self::in_chain(json!({}), true),
        }
    }

    fn on_rail(call: impl Fn(&RailNode) -> Call) -> Self {
        let rail = RailNode::new();
        let pod = rail.node.pod(POD);
        let call = call(&rail).pod(&pod);
        Self { around: PodLocation::Rail(rail), pod: Some(pod), call, earlier: None, device: false }
    }

    fn on_pf() -> Self {
        let machine = LabMachine::shared();
        let pod = machine.node.pod(POD);
        let call = machine.plugin("ipvlan", &json!({"master": "eth0", "mode": "l2"})).pod(&pod);
        Self { around: PodLocation::Machine(machine), pod: Some(pod), call, earlier: None, device: false }
    }

    /// `sriov` itself, or `rdma` after it.
    fn in_chain(settings: Value, last: bool) -> Self {
        let machine = LabMachine::exclusive();
        let vf: LabVf = machine.vf("eth0", 2);
        let pod = machine.node.pod(POD);
        let chain = Chain::new(&machine, &vf, &pod, settings);
        let (sriov, rdma) = (chain.sriov().clone(), chain.rdma().clone());
        let (call, earlier) = if last { (rdma, Some(sriov)) } else { (sriov, None) };
        Self { around: PodLocation::Machine(machine), pod: Some(pod), call, earlier, device: true }
    }

    /// The node.
    pub(crate) fn node(&self) -> &TestNode {
        self.around.node()
    }

    /// Makes the pod anew if it has ended, has the chain's earlier plugin do its part, and returns the call.
    pub(crate) fn ready(&mut self) -> Call {
        if self.pod.is_none() {
            self.pod = Some(self.around.node().pod(POD));
        }
        match &self.earlier {
            Some(earlier) => self.call.with("prevResult", &earlier.add().ok()),
            None => self.call.clone(),
        }
    }

    /// Has the chain's earlier plugin take its part back.
    ///
    /// # Errors
    /// What failed.
    pub(crate) fn done(&mut self) -> Result<(), String> {
        self.earlier
            .as_ref()
            .map_or(Ok(()), |earlier| succeeded("DEL of the chain's first plugin", &earlier.del()))?;
        if self.pod.is_none() {
            self.pod = Some(self.around.node().pod(POD));
        }
        Ok(())
    }

    /// Ends the pod's namespace.
    pub(crate) fn end_pod(&mut self) {
        self.pod = None;
    }

    /// The next call that needs what this one needed: of the same attachment, or, of a device, another pod's.
    pub(crate) fn next(&mut self, call: &Call) -> Call {
        if !self.next_is_anothers() {
            return call.clone();
        }
        self.pod = Some({
            self.pod = None;
            self.around.node().pod(POD)
        });
        call.clone().container("next")
    }

    /// Whether the next call is another pod's. That of a chain's later plugin would need the earlier one's too.
    pub(crate) fn next_is_anothers(&self) -> bool {
        self.device && self.earlier.is_none()
    }

    /// Repairs by force what a leak has left, so that the rounds after it say something.
    pub(crate) fn repair(self, plugin: PluginName) -> Self {
        let machine = matches!(self.around, PodLocation::Machine(_));
        drop(self);
        if machine {
            for pf in silkrail_tests::machine::PFS {
                std::fs::write(format!("/sys/class/net/{pf}/device/sriov_numvfs"), "0").unwrap();
            }
        }
        Self::new(plugin)
    }
}
