//! VFs that a process has by VFIO.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sysfs::Sysfs;

use super::User;
use crate::{Error, Vf};

/// The node's processes, of which some may have a VF open.
#[derive(Debug)]
pub(crate) struct UserSpace {
    root: PathBuf,
}

impl UserSpace {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The processes that have the VF's IOMMU group open.
    pub(crate) fn of(&self, sysfs: &Sysfs, vf: &Vf) -> Result<Vec<User>, Error> {
        if !vf.driver.as_deref().is_some_and(|driver| driver.contains("vfio")) {
            return Ok(Vec::new());
        }
        let Some(group) = sysfs.iommu_group(vf.pci)? else { return Ok(Vec::new()) };
        let file = Path::new("/dev/vfio").join(group);
        let processes = numbers(&self.root.join("proc")).into_iter();
        let holders = processes.filter(|number| has_open(&self.root, *number, &file));
        Ok(holders.map(|number| User::UserSpace { process: process(&self.root, number) }).collect())
    }
}

fn numbers(proc: &Path) -> Vec<u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// A process that ends meanwhile has nothing open.
fn has_open(root: &Path, number: u32, file: &Path) -> bool {
    let open = fs::read_dir(root.join(format!("proc/{number}/fd"))).into_iter().flatten().flatten();
    open.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == file))
}

/// A process in words: `train.py (pid 4711)`.
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
    use crate::tree::Tree;

    #[test]
    fn who_has_the_group_open_uses_the_vf() {
        let tree = Tree::new();
        tree.bind("0000:af:00.2", "vfio-pci");
        let (root, sysfs) = (tree.root(), tree.sysfs());
        fs::create_dir_all(root.join("proc/41/fd")).unwrap();
        fs::create_dir_all(root.join("proc/42/fd")).unwrap();
        fs::write(root.join("proc/42/comm"), "qemu\n").unwrap();
        symlink("../../kernel/iommu_groups/17", tree.dir("0000:af:00.2").join("iommu_group")).unwrap();
        let users = || UserSpace::at(root).of(&sysfs, &tree.vf("0000:af:00.2")).unwrap();
        assert!(users().is_empty(), "bound, but nobody has it");
        symlink("/dev/vfio/17", root.join("proc/42/fd/5")).unwrap();
        assert_eq!(users(), [User::UserSpace { process: "qemu (pid 42)".into() }]);
        tree.bind("0000:af:00.2", "mlx5_core");
        assert!(UserSpace::at(root).of(&sysfs, &tree.vf("0000:af:00.2")).unwrap().is_empty());
    }
}
