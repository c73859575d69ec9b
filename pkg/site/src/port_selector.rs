//! The selection of ports.

use serde::{Deserialize, Serialize};

use crate::NamePattern;

/// A selector of RDMA ports. A port must match all keys that are set. The keys are those of the node file, with patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortSelector {
    /// The PCI address, like `0000:af:00.*`.
    pub pci: Option<NamePattern>,
    /// The name of the link, like `ens*np0`.
    pub link: Option<NamePattern>,
    /// The name of the RDMA device, like `mlx5_[0-7]`.
    pub rdma: Option<NamePattern>,
    /// The port of the RDMA device, from 1.
    pub port: Option<u32>,
    /// The PCI vendor ID, like `15b3`.
    pub vendor: Option<NamePattern>,
    /// The PCI device ID, like `1021`.
    pub device: Option<NamePattern>,
    /// The driver, like `mlx5_core`.
    pub driver: Option<NamePattern>,
}

/// What a port is selected by. `None`: it has none, or it is not known.
#[derive(Debug, Clone, Copy, Default)]
pub struct PortIdentity<'a> {
    /// The PCI address of its function.
    pub pci: Option<&'a str>,
    /// The name of its link.
    pub link: Option<&'a str>,
    /// The name of its RDMA device.
    pub rdma: Option<&'a str>,
    /// Its number.
    pub port: Option<u32>,
    /// The PCI vendor ID.
    pub vendor: Option<&'a str>,
    /// The PCI device ID.
    pub device: Option<&'a str>,
    /// The driver of its function.
    pub driver: Option<&'a str>,
}

impl PortSelector {
    /// Whether a port matches all keys that are set.
    pub fn matches(&self, port: &PortIdentity<'_>) -> bool {
        let holds = |pattern: &Option<NamePattern>, name: Option<&str>| {
            pattern.as_ref().is_none_or(|pattern| name.is_some_and(|name| pattern.matches(name)))
        };
        holds(&self.link, port.link)
            && holds(&self.rdma, port.rdma)
            && self.port.is_none_or(|number| port.port == Some(number))
            && self.matches_function(port)
    }

    /// Whether the PCI function of a port matches, whatever the names of its link and its RDMA device are.
    pub fn matches_function(&self, port: &PortIdentity<'_>) -> bool {
        let holds = |pattern: &Option<NamePattern>, name: Option<&str>| {
            pattern.as_ref().is_none_or(|pattern| name.is_some_and(|name| pattern.matches_id(name)))
        };
        holds(&self.pci, port.pci)
            && holds(&self.vendor, port.vendor)
            && holds(&self.device, port.device)
            && holds(&self.driver, port.driver)
    }
}

impl std::fmt::Display for PortSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = [
            ("pci", self.pci.as_ref().map(ToString::to_string)),
            ("link", self.link.as_ref().map(ToString::to_string)),
            ("rdma", self.rdma.as_ref().map(ToString::to_string)),
            ("port", self.port.map(|port| port.to_string())),
            ("vendor", self.vendor.as_ref().map(ToString::to_string)),
            ("device", self.device.as_ref().map(ToString::to_string)),
            ("driver", self.driver.as_ref().map(ToString::to_string)),
        ];
        let said: Vec<_> =
            said.into_iter().filter_map(|(key, value)| Some(format!("{key}: {}", value?))).collect();
        write!(f, "{{{}}}", said.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Option<NamePattern> {
        Some(text.to_owned().try_into().unwrap())
    }

    #[test]
    fn a_port_matches_all_keys_that_are_set() {
        let port = PortIdentity {
            pci: Some("0000:af:00.0"),
            link: Some("ens6f0np0"),
            rdma: Some("mlx5_0"),
            port: Some(1),
            vendor: Some("0x15b3"),
            device: Some("0x1021"),
            driver: Some("mlx5_core"),
        };
        let all = PortSelector {
            pci: pattern("0000:AF:*"),
            link: pattern("ens*np0"),
            rdma: pattern("mlx5_[0-7]"),
            port: Some(1),
            vendor: pattern("15B3"),
            device: pattern("0x1021"),
            driver: pattern("mlx5*"),
        };
        assert!(all.matches(&port) && all.matches_function(&port));
        let unknown = PortIdentity::default();
        for (other, is_of_function) in [
            (PortIdentity { pci: Some("0000:b0:00.0"), ..port }, false),
            (PortIdentity { pci: unknown.pci, ..port }, false),
            (PortIdentity { link: Some("ens6f1np1"), ..port }, true),
            (PortIdentity { link: unknown.link, ..port }, true),
            (PortIdentity { rdma: Some("mlx5_8"), ..port }, true),
            (PortIdentity { port: Some(2), ..port }, true),
            (PortIdentity { port: unknown.port, ..port }, true),
            (PortIdentity { vendor: Some("0x14e4"), ..port }, false),
            (PortIdentity { device: Some("0x1019"), ..port }, false),
            (PortIdentity { driver: Some("ice"), ..port }, false),
        ] {
            assert_eq!(
                (all.matches(&other), all.matches_function(&other)),
                (false, is_of_function),
                "{other:?}"
            );
        }
        assert!(PortSelector::default().matches(&unknown));
    }
}
