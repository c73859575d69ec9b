//! A plugin and its environment: a node, a pod, and the plugins before it in its chain.

use serde_json::{Value, json};
use silkrail_tests::{
    chain::Chain,
    infiniband::{self, InfinibandMachine},
    machine::{LabMachine, LabVf},
    master_chain,
    rail::{RailNode, ipam},
};
use testkit::{Call, TestNode, TestPod};

use crate::{plan::PluginName, remedy::succeeded};

/// A plugin under test.
pub(crate) struct PluginUnderTest {
    location: PodLocation,
    /// `None` while its namespace does not exist.
    pod: Option<TestPod>,
    /// The call of the plugin, for the pod.
    call: Call,
    /// The call of the preceding plugin in its chain.
    earlier: Option<Call>,
    /// Whether the plugin attaches a device, so that the next ADD is of another pod.
    device: bool,
}

/// The node of the pod.
enum PodLocation {
    Rail(RailNode),
    Machine(LabMachine),
    Infiniband(InfinibandMachine),
}

impl PodLocation {
    fn node(&self) -> &TestNode {
        match self {
            Self::Rail(rail) => &rail.node,
            Self::Machine(machine) => &machine.node,
            Self::Infiniband(lab) => &lab.machine.node,
        }
    }
}

/// The name of the pod's namespace in snapshots.
const POD: &str = "subject";

impl PluginUnderTest {
    /// Creates the plugin's environment on a new node.
    pub(crate) fn new(plugin: PluginName) -> Self {
        match plugin {
            PluginName::Macvlan => Self::on_rail(|rail| rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10"])}))),
            PluginName::SilkrailIpam => {
                let pools = json!({"pools": [silkrail_tests::rail::pool("rail", &["10.7.0.10"])]});
                Self::on_rail(|rail| {
                    rail.ipam(&pools).args("K8S_POD_UID=2a6ed0c0-58d2-4c4f-9b09-9d1a4ae0b1aa")
                })
            }
            PluginName::Ipvlan => Self::on_pf("ipvlan", &json!({"master": "eth0", "mode": "l2"})),
            PluginName::Ifacer => Self::on_pf("ifacer", &master_chain::vlan()),
            PluginName::Sriov => Self::in_chain(json!({"vlan": 321, "trust": "on", "mtu": 1400}), false),
            PluginName::Rdma => Self::in_chain(json!({}), true),
            PluginName::IbSriov => Self::on_infiniband_vf(),
            PluginName::Ipoib => Self::on_infiniband_port(),
        }
    }

    fn on_rail(call: impl Fn(&RailNode) -> Call) -> Self {
        let rail = RailNode::new().with_every_process();
        let pod = rail.node.pod(POD);
        let call = call(&rail).pod(&pod);
        Self { location: PodLocation::Rail(rail), pod: Some(pod), call, earlier: None, device: false }
    }

    fn on_pf(plugin: &str, conf: &Value) -> Self {
        let machine = LabMachine::shared();
        let pod = machine.node.pod(POD);
        let call = machine.plugin(plugin, conf).pod(&pod);
        Self { location: PodLocation::Machine(machine), pod: Some(pod), call, earlier: None, device: false }
    }

    /// A chain of `sriov` and `rdma`; `last` selects `rdma`.
    fn in_chain(settings: Value, last: bool) -> Self {
        let machine = LabMachine::exclusive();
        let vf: LabVf = machine.vf("eth0", 2);
        let pod = machine.node.pod(POD);
        let chain = Chain::new(&machine, &vf, &pod, settings);
        let (sriov, rdma) = (chain.sriov().clone(), chain.rdma().clone());
        let (call, earlier) = if last { (rdma, Some(sriov)) } else { (sriov, None) };
        Self { location: PodLocation::Machine(machine), pod: Some(pod), call, earlier, device: true }
    }

    fn on_infiniband_vf() -> Self {
        let lab = InfinibandMachine::exclusive();
        let conf = json!({
            "rdmaIsolation": true, "link_state": "enable", "runtimeConfig": {"infinibandGUID": "02:00:00:00:00:00:ab:cd"},
        });
        let pod = lab.machine.node.pod(POD);
        let call = lab.plugin("ib-sriov", &infiniband::settings(&lab.vf(1), &conf)).pod(&pod);
        Self { location: PodLocation::Infiniband(lab), pod: Some(pod), call, earlier: None, device: true }
    }

    fn on_infiniband_port() -> Self {
        let lab = InfinibandMachine::shared();
        let pod = lab.machine.node.pod(POD);
        let call = lab.plugin("ipoib", &json!({"master": lab.pf_link(), "mtu": 2044})).pod(&pod);
        Self { location: PodLocation::Infiniband(lab), pod: Some(pod), call, earlier: None, device: false }
    }

    /// The node that snapshots are taken of.
    pub(crate) fn node(&self) -> &TestNode {
        self.location.node()
    }

    /// Creates the pod again if needed, calls ADD of the preceding plugin, and returns the call.
    pub(crate) fn ready(&mut self) -> Call {
        if self.pod.is_none() {
            self.pod = Some(self.location.node().pod(POD));
        }
        match &self.earlier {
            Some(earlier) => self.call.with("prevResult", &earlier.add().ok()),
            None => self.call.clone(),
        }
    }

    /// Calls DEL of the preceding plugin of the chain.
    ///
    /// # Errors
    /// The output of a failed DEL.
    pub(crate) fn done(&mut self) -> Result<(), String> {
        self.earlier
            .as_ref()
            .map_or(Ok(()), |earlier| succeeded("DEL of the chain's first plugin", &earlier.del()))?;
        if self.pod.is_none() {
            self.pod = Some(self.location.node().pod(POD));
        }
        Ok(())
    }

    /// Deletes the pod's namespace.
    pub(crate) fn end_pod(&mut self) {
        self.pod = None;
    }

    /// The next call that needs the same resources: of the same attachment or, with a device, of another pod.
    pub(crate) fn next(&mut self, call: &Call) -> Call {
        if !self.next_is_of_another_pod() {
            return call.clone();
        }
        self.pod = Some({
            self.pod = None;
            self.location.node().pod(POD)
        });
        call.clone().container("next")
    }

    /// Whether the next call is of another pod. A later plugin of a chain would need the preceding one's ADD too.
    pub(crate) fn next_is_of_another_pod(&self) -> bool {
        self.device && self.earlier.is_none()
    }

    /// Removes leaked objects by force, so that later rounds are meaningful.
    pub(crate) fn repair(self, plugin: PluginName) -> Self {
        let machine = matches!(self.location, PodLocation::Machine(_));
        drop(self);
        if machine {
            for pf in silkrail_tests::machine::PFS {
                std::fs::write(format!("/sys/class/net/{pf}/device/sriov_numvfs"), "0").unwrap();
            }
        }
        Self::new(plugin)
    }
}
