//! Functions that a process uses through VFIO or UIO.

use std::{
    fs,
    path::{Path, PathBuf},
};

use identifiers::PciAddress;
use sysfs::{Function, Sysfs};

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

    /// Returns the processes that have the function's IOMMU group or character device open.
    pub(crate) fn of(
        &self,
        sysfs: &Sysfs,
        function: PciAddress,
        driver: Option<&str>,
    ) -> Result<Vec<VfUser>, Error> {
        if !driver.is_some_and(|driver| driver.contains("vfio") || driver.contains("uio")) {
            return Ok(Vec::new());
        }
        let files = files(sysfs, function)?;
        let processes = numbers(&self.root.join("proc")).into_iter();
        let holders = processes.filter(|number| has_open(&self.root, *number, &files));
        Ok(holders.map(|number| VfUser::UserSpace { process: process(&self.root, number) }).collect())
    }
}

/// Returns the files that such a process opens: the VFIO group (`noiommu-` without an IOMMU), the VFIO device (since Linux
/// 6.6), or the UIO device.
fn files(sysfs: &Sysfs, function: PciAddress) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    if let Some(group) = sysfs.iommu_group(function)? {
        files.extend(["", "noiommu-"].map(|before| Path::new("/dev/vfio").join(format!("{before}{group}"))));
    }
    let dir = sysfs.dir(&Function::Pci(function));
    for (class, nodes) in [("vfio-dev", "/dev/vfio/devices"), ("uio", "/dev")] {
        let names = fs::read_dir(dir.join(class)).into_iter().flatten().flatten();
        files.extend(names.map(|name| Path::new(nodes).join(name.file_name())));
    }
    Ok(files)
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
        let users = || VfioUsers::at(root).of(&sysfs, vf, Some("vfio-pci")).unwrap();
        assert!(users().is_empty(), "bound, but not open");
        symlink("/dev/vfio/17", root.join("proc/42/fd/5")).unwrap();
        assert_eq!(users(), [VfUser::UserSpace { process: "qemu (pid 42)".into() }]);
        assert!(VfioUsers::at(root).of(&sysfs, vf, Some("mlx5_core")).unwrap().is_empty());
    }

    #[test]
    fn a_process_that_has_the_device_open_without_its_group_uses_the_vf() {
        let tree = InventoryFixture::new();
        let (root, sysfs) = (tree.root(), tree.sysfs());
        let vf: PciAddress = "0000:af:00.2".parse().unwrap();
        symlink("../../kernel/iommu_groups/17", tree.dir("0000:af:00.2").join("iommu_group")).unwrap();
        fs::create_dir_all(tree.dir("0000:af:00.2").join("vfio-dev/vfio3")).unwrap();
        fs::create_dir_all(tree.dir("0000:af:00.2").join("uio/uio5")).unwrap();
        fs::create_dir_all(root.join("proc/42/fd")).unwrap();
        for (driver, file) in [
            ("vfio-pci", "/dev/vfio/devices/vfio3"),
            ("vfio-pci", "/dev/vfio/noiommu-17"),
            ("igb_uio", "/dev/uio5"),
        ] {
            let descriptor = root.join("proc/42/fd/5");
            symlink(file, &descriptor).unwrap();
            let users = VfioUsers::at(root).of(&sysfs, vf, Some(driver)).unwrap();
            assert_eq!(users, [VfUser::UserSpace { process: "pid 42".into() }], "{file}");
            fs::remove_file(descriptor).unwrap();
        }
    }
}
