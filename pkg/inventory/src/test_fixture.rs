//! A simulated node in a directory, with a PF and two VFs that the machine of the tests need not have.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use sysfs::Sysfs;
use tempfile::TempDir;

#[derive(Debug)]
pub(crate) struct InventoryFixture(TempDir);

impl InventoryFixture {
    pub(crate) fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (function, class) in
            [("0000:af:00.0", "0x020000"), ("0000:af:00.2", "0x020000"), ("0000:af:00.3", "0x020000")]
        {
            fs::create_dir_all(tree.dir(function)).unwrap();
            fs::write(tree.dir(function).join("class"), class).unwrap();
            tree.bind(function, "mlx5_core");
        }
        for (index, vf) in ["0000:af:00.2", "0000:af:00.3"].iter().enumerate() {
            symlink(format!("../{vf}"), tree.dir("0000:af:00.0").join(format!("virtfn{index}"))).unwrap();
            symlink("../0000:af:00.0", tree.dir(vf).join("physfn")).unwrap();
            fs::create_dir_all(tree.dir(vf).join("net").join(format!("silkrail-none{index}"))).unwrap();
        }
        for (file, text) in [("sriov_numvfs", "2"), ("sriov_totalvfs", "8"), ("sriov_drivers_autoprobe", "1")]
        {
            fs::write(tree.dir("0000:af:00.0").join(file), text).unwrap();
        }
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.root().join("sys"))
    }

    pub(crate) fn dir(&self, function: &str) -> PathBuf {
        self.root().join("sys/bus/pci/devices").join(function)
    }

    /// Binds a function to a driver.
    pub(crate) fn bind(&self, function: &str, driver: &str) {
        let link = self.dir(function).join("driver");
        let _ = fs::remove_file(&link);
        symlink(format!("../../drivers/{driver}"), link).unwrap();
    }
}
