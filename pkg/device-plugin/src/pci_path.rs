//! Where a device is in the PCI hierarchy.

use std::{fmt, path::Path};

use identifiers::PciAddress;

/// The PCI bridges and functions from the root to a device, as in the path of its directory in sysfs.
///
/// Two devices that communicate peer-to-peer do so below their nearest common bridge. The more components of their paths are
/// common, the fewer links between them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciPath {
    /// The root, such as `pci0000:ae`.
    root: String,
    functions: Vec<PciAddress>,
}

impl PciPath {
    /// Returns the path of a directory such as `/sys/devices/pci0000:ae/0000:ae:00.0/0000:af:00.2`; `None` if it is not in
    /// the PCI hierarchy.
    pub fn of(directory: &Path) -> Option<Self> {
        let names = || directory.components().filter_map(|part| part.as_os_str().to_str());
        let root = names().find(|name| name.starts_with("pci"))?.to_owned();
        let functions = names().filter_map(|name| name.parse().ok()).collect();
        Some(Self { root, functions })
    }

    /// Returns how many components two paths have in common: 0 for different roots, 1 for the same root.
    pub fn common(&self, other: &Self) -> usize {
        if self.root != other.root {
            return 0;
        }
        1 + self.functions.iter().zip(&other.functions).take_while(|(one, two)| one == two).count()
    }
}

impl PciPath {
    /// Returns the number of components, with the root.
    pub(crate) fn len(&self) -> usize {
        1 + self.functions.len()
    }
}

impl fmt::Display for PciPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        self.functions.iter().try_for_each(|function| write!(f, "/{function}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> PciPath {
        PciPath::of(Path::new(text)).unwrap()
    }

    #[test]
    fn devices_below_one_switch_have_more_in_common() {
        let nic = path("/sys/devices/pci0000:ae/0000:ae:00.0/0000:af:00.0/0000:b0:00.0/0000:b1:00.0");
        let gpu = path("/sys/devices/pci0000:ae/0000:ae:00.0/0000:af:00.0/0000:b0:01.0/0000:b2:00.0");
        let far = path("/sys/devices/pci0000:ae/0000:ae:01.0/0000:c1:00.0");
        let elsewhere = path("/sys/devices/pci0000:16/0000:16:00.0");
        assert_eq!([&nic, &gpu, &far, &elsewhere].map(|other| nic.common(other)), [5, 3, 1, 0]);
        assert_eq!(elsewhere.to_string(), "pci0000:16/0000:16:00.0");
        assert_eq!(PciPath::of(Path::new("/sys/devices/virtual/net/lo")), None);
    }
}
