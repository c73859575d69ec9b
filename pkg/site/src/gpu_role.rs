//! What the GPUs of a node have.

use serde::{Deserialize, Serialize};

use crate::{NamePattern, NodePatterns};

/// The expectations of the GPUs that a selector matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuRole {
    /// The nodes; all if empty.
    #[serde(default)]
    pub nodes: NodePatterns,
    /// Selects the GPUs; all if it is missing.
    #[serde(rename = "match", default)]
    pub matches: GpuSelector,
    /// Their number on a node.
    pub number: Option<usize>,
    /// The number of PCIe lanes of each. An idle GPU reduces the speed of its link, but not the lanes.
    pub pcie_width: Option<u32>,
}

/// A selector of GPUs. A GPU must match all keys that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuSelector {
    /// The PCI address.
    pub pci: Option<NamePattern>,
    /// The PCI vendor ID, like `10de`.
    pub vendor: Option<NamePattern>,
    /// The PCI device ID, like `2330`.
    pub device: Option<NamePattern>,
}

impl GpuSelector {
    /// Whether a GPU matches all keys that are set.
    pub fn matches(&self, pci: &str, vendor: &str, device: &str) -> bool {
        let holds =
            |pattern: &Option<NamePattern>, id| pattern.as_ref().is_none_or(|pattern| pattern.matches_id(id));
        holds(&self.pci, pci) && holds(&self.vendor, vendor) && holds(&self.device, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_matches_all_keys_that_are_set() {
        let pattern = |text: &str| Some(NamePattern::try_from(text.to_owned()).unwrap());
        let all =
            GpuSelector { pci: pattern("0000:[0-4]*"), vendor: pattern("10de"), device: pattern("23*") };
        for (gpu, is_one) in [
            (["0000:1b:00.0", "0x10de", "0x2330"], true),
            (["0000:9b:00.0", "0x10de", "0x2330"], false),
            (["0000:1b:00.0", "0x1002", "0x2330"], false),
            (["0000:1b:00.0", "0x10de", "0x20b0"], false),
        ] {
            let [pci, vendor, device] = gpu;
            assert_eq!(all.matches(pci, vendor, device), is_one, "{gpu:?}");
            assert!(GpuSelector::default().matches(pci, vendor, device));
        }
    }
}
