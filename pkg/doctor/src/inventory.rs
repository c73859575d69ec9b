//! What a node consists of, for comparisons with other nodes.

use crate::{NodeFacts, facts::pci_express::PcieLink};

/// What a node consists of. What is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeInventory {
    /// The release of the kernel.
    pub kernel: Option<String>,
    /// The RDMA devices of PFs: the name, the PCIe link (`32 GT/s x16`), and the MTU of the link of the first port.
    pub cards: Vec<(String, Option<String>, Option<u32>)>,
    /// The GPUs: `vendor:device`, and the lanes of the PCIe link.
    pub gpus: Vec<(String, Option<u32>)>,
}

impl NodeInventory {
    /// Returns the inventory of a node.
    pub fn of(facts: &NodeFacts) -> Self {
        let cards = facts.devices.iter().filter_map(|device| {
            let function =
                facts.function(device.function.as_deref()?).filter(|function| function.pf.is_none())?;
            let link = device.ports.first().and_then(|port| facts.link(port.link.as_deref()?));
            Some((device.name.clone(), pcie(&function.pcie), link.and_then(|link| link.mtu.get().copied())))
        });
        Self {
            kernel: facts.kernel.release.get().cloned(),
            cards: cards.collect(),
            gpus: facts.gpus.iter().map(|gpu| (gpu.model.clone(), gpu.pcie.width)).collect(),
        }
    }
}

fn pcie(link: &PcieLink) -> Option<String> {
    Some(format!("{} GT/s x{}", link.speed?, link.width?))
}
