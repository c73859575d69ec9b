//! The numbers of an RDMA device's character devices.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};
use sysfs::{Function, Sysfs};

use crate::Error;

/// The names of an RDMA device's character devices: `uverbs3`, `umad3`, `issm3`. A container gets them by their names,
/// before its RDMA device is moved to it.
///
/// # Kernel
/// `rdma_dev_change_netns` removes the device from every client and adds it again. `ib_uverbs` and `ib_umad` release their
/// numbers in between and take the lowest free ones. These are the same as before if no lower one is free, and no other
/// device moves at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[doc(alias = "uverbs")]
pub struct CharDevices(Vec<String>);

const UVERBS: &str = "uverbs";
const UMAD: &str = "umad";
const ISSM: &str = "issm";
const KINDS: [&str; 3] = [UVERBS, UMAD, ISSM];

impl CharDevices {
    /// Returns the character devices of a function's RDMA device, regardless of its namespace.
    ///
    /// # Errors
    /// [`Error::Sysfs`].
    pub fn of(sysfs: &Sysfs, function: &Function, device: &str) -> Result<Self, Error> {
        let mut all = sysfs.char_devices(function)?;
        all.retain(|(_, of)| of == device);
        let mut names: Vec<_> = all.into_iter().map(|(name, _)| name).collect();
        names.sort();
        Ok(Self(names))
    }

    /// Returns the character devices that the device would have after a move, if no other device moves.
    ///
    /// # Errors
    /// [`Error::Sysfs`].
    pub fn predict_after_move(&self, sysfs: &Sysfs) -> Result<Self, Error> {
        Ok(self.predict_among(&sysfs.all_uverbs()?.unwrap_or_default(), &sysfs.all_umads()?))
    }

    /// Returns the character devices that the device would have after a move, among these of the node, its own included.
    #[must_use]
    pub fn predict_among(&self, uverbs: &[String], umads: &[String]) -> Self {
        let uverbs = lowest_free(uverbs, &self.0, UVERBS);
        let umads = lowest_free(umads, &self.0, UMAD);
        // The umad and issm of a port have the same number.
        let issms = self.numbers(UMAD).into_iter().zip(&umads);
        let issms = issms.filter(|(now, _)| self.numbers(ISSM).contains(now)).map(|(_, then)| *then);
        let mut names: Vec<_> = named(ISSM, issms).collect();
        names.extend(named(UVERBS, uverbs).chain(named(UMAD, umads)));
        names.sort();
        Self(names)
    }

    /// Returns the number of its uverbs device.
    pub fn verbs_number(&self) -> Option<u32> {
        self.numbers(UVERBS).pop_last()
    }

    /// Whether the numbers are equal. A kind that one of the two lacks is not compared: its module (`ib_umad`) was loaded or
    /// removed in between.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        KINDS.iter().all(|kind| {
            let (ours, theirs) = (self.numbers(kind), other.numbers(kind));
            ours.is_empty() || theirs.is_empty() || ours == theirs
        })
    }

    /// Whether there are as many of each kind as in `former`, for the kinds whose module is loaded. After a move the kernel
    /// creates them one by one.
    ///
    /// # Errors
    /// [`Error::Sysfs`].
    pub fn has_same_kinds_as(&self, former: &Self, sysfs: &Sysfs) -> Result<bool, Error> {
        let has_umad = sysfs.has_umad()?;
        Ok(KINDS.iter().all(|kind| {
            let is_loaded = *kind == UVERBS || has_umad;
            !is_loaded || self.numbers(kind).len() >= former.numbers(kind).len()
        }))
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Whether the device has a uverbs device, without which no process can use it.
    pub fn has_uverbs(&self) -> bool {
        !self.numbers(UVERBS).is_empty()
    }

    /// Whether the device has no character devices.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn numbers(&self, kind: &str) -> BTreeSet<u32> {
        numbers(&self.0, kind)
    }
}

/// Returns the numbers that a device with the names `own` would get if it took new ones.
fn lowest_free(all: &[String], own: &[String], kind: &str) -> Vec<u32> {
    let own = numbers(own, kind);
    let others = &numbers(all, kind) - &own;
    (0..).filter(|number| !others.contains(number)).take(own.len()).collect()
}

fn numbers(names: &[String], kind: &str) -> BTreeSet<u32> {
    names.iter().filter_map(|name| name.strip_prefix(kind)?.parse().ok()).collect()
}

fn named(kind: &str, numbers: impl IntoIterator<Item = u32>) -> impl Iterator<Item = String> {
    numbers.into_iter().map(move |number| format!("{kind}{number}"))
}

impl fmt::Display for CharDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() { f.write_str("none") } else { f.write_str(&self.0.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn devices(names: &[&str]) -> CharDevices {
        CharDevices(names.iter().map(|&name| name.to_owned()).collect())
    }

    /// Creates a sysfs with these character devices.
    fn sysfs(names: &[&str]) -> (tempfile::TempDir, Sysfs) {
        let tree = tempfile::tempdir().unwrap();
        for name in names {
            let class = if name.starts_with(UVERBS) { "infiniband_verbs" } else { "infiniband_mad" };
            fs::create_dir_all(tree.path().join("class").join(class).join(name)).unwrap();
        }
        fs::write(tree.path().join("class/infiniband_verbs/abi_version"), "6\n").unwrap();
        let sysfs = Sysfs::at(tree.path());
        (tree, sysfs)
    }

    #[test]
    fn a_device_without_a_gap_below_it_keeps_its_numbers() {
        let (_tree, sysfs) = sysfs(&["uverbs0", "uverbs1", "uverbs2", "umad0", "umad1", "issm1"]);
        for own in [["umad1", "uverbs2"].as_slice(), &["issm1", "umad1", "uverbs1"], &["uverbs0"], &[]] {
            let own = devices(own);
            assert_eq!(own.predict_after_move(&sysfs).unwrap(), own);
        }
    }

    #[test]
    fn a_device_with_a_gap_below_it_takes_the_gaps_numbers() {
        let (_tree, sysfs) = sysfs(&["uverbs0", "uverbs2", "uverbs10", "umad1", "umad2", "issm2", "umad3"]);
        let moved = |own: &[&str]| devices(own).predict_after_move(&sysfs).unwrap();
        assert_eq!(moved(&["umad1", "uverbs2"]), devices(&["umad0", "uverbs1"]));
        assert_eq!(moved(&["uverbs0"]), devices(&["uverbs0"]));
        assert_eq!(
            moved(&["issm2", "umad2", "umad3", "uverbs10"]),
            devices(&["issm0", "umad0", "umad2", "uverbs1"])
        );
    }

    #[test]
    fn a_kind_whose_module_was_loaded_or_removed_is_not_compared() {
        let before = devices(&["uverbs3"]);
        let after = devices(&["issm3", "umad3", "uverbs3"]);
        assert!(before.matches(&after) && after.matches(&before) && after.matches(&after));
        for other in [["uverbs4"].as_slice(), &["umad4", "uverbs3"], &["issm4", "umad3", "uverbs3"]] {
            assert!(!devices(other).matches(&after) && !after.matches(&devices(other)), "{other:?}");
        }
        let (tree, sysfs) = sysfs(&["uverbs3"]);
        assert!(before.has_same_kinds_as(&after, &sysfs).unwrap(), "ib_umad is not loaded");
        assert!(!devices(&[]).has_same_kinds_as(&before, &sysfs).unwrap());
        fs::create_dir_all(tree.path().join("class/infiniband_mad")).unwrap();
        assert!(!before.has_same_kinds_as(&after, &sysfs).unwrap(), "they are still missing");
        assert!(after.has_same_kinds_as(&before, &sysfs).unwrap());
        // A device with two ports.
        let two = devices(&["umad3", "umad4", "uverbs3"]);
        assert!(!devices(&["umad3", "uverbs3"]).has_same_kinds_as(&two, &sysfs).unwrap());
        assert!(!two.matches(&devices(&["umad3", "umad5", "uverbs3"])));
    }

    #[test]
    fn each_of_several_devices_of_a_function_has_its_own() {
        let (tree, sysfs) = sysfs(&["uverbs3"]);
        let function: Function = "0000:af:00.3".parse().unwrap();
        for (class, name, of) in [
            ("infiniband_verbs", "uverbs3", "mlx5_3"),
            ("infiniband_verbs", "uverbs4", "mlx5_3twin"),
            ("infiniband_mad", "issm3", "mlx5_3"),
            ("infiniband_mad", "umad3", "mlx5_3"),
            ("infiniband_mad", "umad4", "mlx5_3twin"),
        ] {
            let dir = tree.path().join("bus/pci/devices/0000:af:00.3").join(class).join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("ibdev"), format!("{of}\n")).unwrap();
        }
        let of = |device| CharDevices::of(&sysfs, &function, device).unwrap();
        assert_eq!(of("mlx5_3"), devices(&["issm3", "umad3", "uverbs3"]));
        assert_eq!(of("mlx5_3twin").names(), ["umad4", "uverbs4"]);
        assert!(of("mlx5_9").is_empty());
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        let names: Vec<_> = (0..12).map(|number| format!("uverbs{number}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let (_tree, sysfs) = sysfs(&names);
        let last = devices(&["uverbs11"]);
        assert_eq!(last.predict_after_move(&sysfs).unwrap(), last);
    }
}
