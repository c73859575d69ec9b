//! Functions that a process uses through VFIO or UIO.

use std::{
    fs,
    path::{Path, PathBuf},
};

use identifiers::PciAddress;
use sysfs::Sysfs;

use super::evidence::VfUser;
use crate::Error;

/// The node's processes, to find those that have a function open.
#[derive(Debug)]
pub(crate) struct VfioUsers {
    root: PathBuf,
}

impl VfioUsers {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the processes that have one of the function's nodes of VFIO or UIO open.
    pub(crate) fn of(&self, sysfs: &Sysfs, function: PciAddress) -> Result<Vec<VfUser>, Error> {
        let Some(nodes) = sysfs.user_space_nodes(&function.into())? else { return Ok(Vec::new()) };
        let files: Vec<_> = nodes.iter().map(|node| Path::new("/dev").join(node)).collect();
        let processes = numbers(&self.root.join("proc")).into_iter();
        let holders = processes.filter(|number| has_open(&self.root, *number, &files));
        Ok(holders.map(|number| VfUser::UserSpace { process: process(&self.root, number) }).collect())
    }
}

fn numbers(proc: &Path) -> Vec<u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Whether a process has one of the files open; false if it exits in the meantime.
fn has_open(root: &Path, number: u32, files: &[PathBuf]) -> bool {
    let open = fs::read_dir(root.join(format!("proc/{number}/fd"))).into_iter().flatten().flatten();
    open.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| files.contains(&target)))
}

/// Returns the name of a process, such as `train.py (pid 4711)`.
pub(super) fn process(root: &Path, number: u32) -> String {
    let name = fs::read_to_string(root.join(format!("proc/{number}/comm"))).unwrap_or_default();
    match name.trim() {
        "" => format!("pid {number}"),
        name => format!("{name} (pid {number})"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::test_fixture::InventoryFixture;

    #[test]
    fn a_process_that_has_the_group_open_uses_the_vf() {
        let tree = InventoryFixture::new();
        tree.bind("0000:af:00.2", "vfio-pci");
        let (root, sysfs) = (tree.root(), tree.sysfs());
        fs::create_dir_all(root.join("proc/41/fd")).unwrap();
        fs::create_dir_all(root.join("proc/42/fd")).unwrap();
        fs::write(root.join("proc/42/comm"), "qemu\n").unwrap();
        symlink("../../kernel/iommu_groups/17", tree.dir("0000:af:00.2").join("iommu_group")).unwrap();
        let vf: PciAddress = "0000:af:00.2".parse().unwrap();
        let users = || VfioUsers::at(root).of(&sysfs, vf).unwrap();
        assert!(users().is_empty(), "bound, but not open");
        symlink("/dev/vfio/17", root.join("proc/42/fd/5")).unwrap();
        assert_eq!(users(), [VfUser::UserSpace { process: "qemu (pid 42)".into() }]);
        tree.bind("0000:af:00.2", "mlx5_core");
        assert!(users().is_empty());
        tree.bind("0000:af:00.2", "vfio-pci");
        symlink("/dev/null", root.join("proc/41/fd/0")).unwrap();
        symlink("/dev/vfio/17", root.join("proc/41/fd/1")).unwrap();
        let both = ["pid 41", "qemu (pid 42)"].map(|process| VfUser::UserSpace { process: process.into() });
        assert_eq!(users(), both);
    }

    #[test]
    fn a_process_that_has_the_device_open_without_its_group_uses_the_vf() {
        let tree = InventoryFixture::new();
        let (root, sysfs) = (tree.root(), tree.sysfs());
        let vf: PciAddress = "0000:af:00.2".parse().unwrap();
        symlink("../../kernel/iommu_groups/17", tree.dir("0000:af:00.2").join("iommu_group")).unwrap();
        fs::create_dir_all(root.join("proc/42/fd")).unwrap();
        for (driver, entry, file) in [
            ("pds_vfio_pci", "vfio-dev/vfio3", "/dev/vfio/devices/vfio3"),
            ("igb_uio", "uio/uio5", "/dev/uio5"),
        ] {
            tree.bind("0000:af:00.2", driver);
            fs::create_dir_all(tree.dir("0000:af:00.2").join(entry)).unwrap();
            let descriptor = root.join("proc/42/fd/5");
            symlink(file, &descriptor).unwrap();
            let users = VfioUsers::at(root).of(&sysfs, vf).unwrap();
            assert_eq!(users, [VfUser::UserSpace { process: "pid 42".into() }], "{file}");
            fs::remove_file(descriptor).unwrap();
        }
    }
}
