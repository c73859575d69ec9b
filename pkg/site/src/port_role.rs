//! What ports of one purpose have.

use dcb::WantedDcb;
use serde::{Deserialize, Serialize};

use crate::{NamePattern, NodePatterns, PortSelector};

/// The expectations of the ports that a selector matches. What is `None` is not judged by this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortRole {
    /// Its name, like `rail`.
    pub name: String,
    /// The nodes; all if empty.
    #[serde(default)]
    pub nodes: NodePatterns,
    /// Selects the ports.
    #[serde(rename = "match")]
    pub matches: PortSelector,
    /// The number of such ports on a node.
    pub ports: Option<usize>,
    /// Whether the ports have a cable to a switch that is up.
    pub cabled: Option<bool>,
    /// The rate in Gb/s.
    pub rate: Option<u32>,
    /// The MTU of the link in bytes.
    pub mtu: Option<u32>,
    /// The link layer.
    pub link_layer: Option<LinkLayer>,
    /// The firmware versions, of which the device has one.
    pub firmware: Option<Vec<NamePattern>>,
    /// The PCIe link of the card.
    pub pcie: Option<ExpectedPcie>,
    /// The DCB settings, as in the node file.
    pub dcb: Option<WantedDcb>,
}

/// The link layer of a port, as the kernel names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkLayer {
    /// Ethernet: RoCE, or iWARP.
    Ethernet,
    /// InfiniBand.
    InfiniBand,
}

/// The lowest values of a PCIe link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedPcie {
    /// The number of lanes.
    pub width: Option<u32>,
    /// The speed in GT/s.
    pub speed: Option<f64>,
}

impl PortRole {
    /// Whether a port is expected to have no cable, or one that is not used.
    pub fn is_uncabled(&self) -> bool {
        self.cabled == Some(false)
    }
}

impl LinkLayer {
    /// Returns the kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "Ethernet",
            Self::InfiniBand => "InfiniBand",
        }
    }
}
