//! A sysfs tree for tests: an mlx5 card with two VFs, the second one in a pod, and a scalable function.
//!
//! The layout is that of the kernel: devices are below `devices/`, all other entries are symbolic links to them.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::Sysfs;

const SLOT: &str = "devices/pci0000:ae/0000:ae:00.0";
const PF: &str = "0000:af:00.0";

#[derive(Debug)]
pub(crate) struct SysfsFixture {
    _dir: TempDir,
    pub(crate) sysfs: Sysfs,
}

impl SysfsFixture {
    pub(crate) fn mlx5() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = Self { sysfs: Sysfs::at(dir.path()), _dir: dir };
        tree.function(PF, "1");
        tree.file(&format!("{SLOT}/{PF}/sriov_numvfs"), "2\n");
        tree.file(&format!("{SLOT}/{PF}/sriov_totalvfs"), "8\n");
        for (index, vf) in ["0000:af:00.2", "0000:af:00.3"].iter().enumerate() {
            tree.function(vf, "-1");
            tree.symlink(&format!("../{vf}"), &format!("{SLOT}/{PF}/virtfn{index}"));
            tree.symlink(&format!("../{PF}"), &format!("{SLOT}/{vf}/physfn"));
        }
        tree.link("ens6f0np0", PF, Some("p0"));
        tree.link("ens6f0v0", "0000:af:00.2", None);
        tree.file("devices/virtual/net/lo/address", "00:00:00:00:00:00\n");
        tree.symlink("../../devices/virtual/net/lo", "class/net/lo");
        tree.rdma_device("mlx5_0", PF, Some("uverbs0"));
        tree.rdma_device("mlx5_2", "0000:af:00.2", Some("uverbs2"));
        tree.dir(&format!("{SLOT}/0000:af:00.3/infiniband"));
        tree.dir(&format!("{SLOT}/0000:af:00.3/infiniband_verbs/uverbs3"));
        tree.scalable_function("mlx5_core.sf.2", "en6f0s88", "mlx5_4");
        tree.gids("mlx5_0");
        tree.file("module/ib_core/parameters/netns_mode", "Y\n");
        tree
    }

    /// Adds a link to a PCI function.
    pub(crate) fn link(&self, name: &str, pci: &str, port: Option<&str>) {
        let device = format!("{SLOT}/{pci}/net/{name}");
        self.dir(&device);
        self.file(&format!("{device}/ifindex"), "7\n");
        if let Some(port) = port {
            self.file(&format!("{device}/phys_port_name"), &format!("{port}\n"));
        }
        self.symlink(&format!("../../../{pci}"), &format!("{device}/device"));
        self.symlink(&format!("../../{device}"), &format!("class/net/{name}"));
    }

    fn function(&self, pci: &str, numa_node: &str) {
        let device = format!("{SLOT}/{pci}");
        self.file(&format!("{device}/numa_node"), &format!("{numa_node}\n"));
        self.symlink("../../../../bus/pci", &format!("{device}/subsystem"));
        self.dir("bus/pci/drivers/mlx5_core");
        self.symlink("../../../../bus/pci/drivers/mlx5_core", &format!("{device}/driver"));
        self.symlink(&format!("../../../{device}"), &format!("bus/pci/devices/{pci}"));
    }

    fn rdma_device(&self, name: &str, pci: &str, uverbs: Option<&str>) {
        let device = format!("{SLOT}/{pci}/infiniband/{name}");
        self.dir(&device);
        if let Some(uverbs) = uverbs {
            self.file(&format!("{SLOT}/{pci}/infiniband_verbs/{uverbs}/ibdev"), &format!("{name}\n"));
        }
        self.symlink(&format!("../../../{pci}"), &format!("{device}/device"));
        self.symlink(&format!("../../{device}"), &format!("class/infiniband/{name}"));
    }

    fn scalable_function(&self, name: &str, link: &str, rdma: &str) {
        let device = format!("{SLOT}/{PF}/{name}");
        self.dir(&format!("{device}/infiniband/{rdma}"));
        self.dir(&format!("{device}/net/{link}"));
        self.symlink("../../../../../bus/auxiliary", &format!("{device}/subsystem"));
        self.symlink(&format!("../../../{name}"), &format!("{device}/net/{link}/device"));
        self.symlink(&format!("../../{device}/net/{link}"), &format!("class/net/{link}"));
        self.symlink(&format!("../../../{device}"), &format!("bus/auxiliary/devices/{name}"));
    }

    /// Adds a GID table with 16 entries, 4 of them in use. Entry 10 belongs to the macvlan link of a pod.
    fn gids(&self, device: &str) {
        let local = "fe80:0000:0000:0000:0ac0:ebff:fe01:0203";
        let pod = "0000:0000:0000:0000:0000:ffff:ac51:0064";
        let used = [
            (0, local, "IB/RoCE v1", "ens6f0np0"),
            (1, local, "RoCE v2", "ens6f0np0"),
            (4, pod, "IB/RoCE v1", "net1"),
            (10, pod, "RoCE v2", "net1"),
        ];
        let port = format!("class/infiniband/{device}/ports/1");
        self.file(&format!("{port}/link_layer"), "Ethernet\n");
        for index in 0..16 {
            self.file(&format!("{port}/gids/{index}"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
        }
        for (index, gid, kind, link) in used {
            self.file(&format!("{port}/gids/{index}"), &format!("{gid}\n"));
            self.file(&format!("{port}/gid_attrs/types/{index}"), &format!("{kind}\n"));
            self.file(&format!("{port}/gid_attrs/ndevs/{index}"), &format!("{link}\n"));
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        let path = self.sysfs.root().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        path
    }

    pub(crate) fn dir(&self, path: &str) {
        fs::create_dir_all(self.at(path)).unwrap();
    }

    /// Writes a file.
    pub(crate) fn file(&self, path: &str, text: &str) {
        fs::write(self.at(path), text).unwrap();
    }

    pub(crate) fn symlink(&self, target: &str, path: &str) {
        symlink(target, self.at(path)).unwrap();
    }
}
