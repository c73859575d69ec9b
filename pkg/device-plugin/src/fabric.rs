//! The fabric that the ports of a node are connected to, which only the operator knows.

use std::collections::BTreeMap;

use crate::NodeDevice;

/// The fabric that the ports of a node are connected to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fabric {
    /// The rail of each PF, by its link or PCI address; of a software device, by its link.
    pub rails: BTreeMap<String, u32>,
    /// The traffic class of RoCE packets: DSCP and ECN bits.
    pub traffic_class: Option<u8>,
}

impl Fabric {
    /// Adds what another file says. What is known already is kept.
    pub(crate) fn add(&mut self, other: Self) {
        for (pf, rail) in other.rails {
            self.rails.entry(pf).or_insert(rail);
        }
        self.traffic_class = self.traffic_class.or(other.traffic_class);
    }

    /// Returns the rail of a device.
    pub fn rail(&self, device: &NodeDevice) -> Option<u32> {
        let pf = device.own_or_pf();
        let names = pf.into_iter().flat_map(|pf| [Some(pf.pci.to_string()), pf.link.map(String::from)]);
        let links = device.links.iter().map(ToString::to_string);
        names.flatten().chain(links).find_map(|name| self.rails.get(&name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::vf;

    #[test]
    fn a_device_is_on_the_rail_of_its_pf() {
        let rails = |rails: &[(&str, u32)]| Fabric {
            rails: rails.iter().map(|&(name, rail)| (name.to_owned(), rail)).collect(),
            traffic_class: None,
        };
        let pf = NodeDevice { pf: None, links: vec!["p0".parse().unwrap()], ..vf("p0", 0) };
        let away = NodeDevice { links: Vec::new(), ..vf("p0", 0) };
        let software = NodeDevice { function: None, ..pf.clone() };
        for device in [vf("p0", 0), pf, away, software] {
            assert_eq!(rails(&[("p0", 3), ("p1", 4)]).rail(&device), Some(3), "{device:?}");
            assert_eq!(rails(&[("p1", 4)]).rail(&device), None);
        }
        assert_eq!(rails(&[("0000:af:00.0", 5)]).rail(&vf("p0", 0)), Some(5));
        let mut first = rails(&[("p0", 3)]);
        first.add(Fabric { traffic_class: Some(106), ..rails(&[("p0", 9), ("p1", 4)]) });
        assert_eq!(first, Fabric { traffic_class: Some(106), ..rails(&[("p0", 3), ("p1", 4)]) });
        first.add(Fabric { traffic_class: Some(8), ..Fabric::default() });
        assert_eq!(first.traffic_class, Some(106), "what is known is kept");
    }
}
