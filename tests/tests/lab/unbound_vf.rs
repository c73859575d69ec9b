//! A VF whose driver is unbound temporarily.

use std::{
    fs,
    path::{Path, PathBuf},
};

use silkrail_tests::machine::{LabMachine, LabVf};
use testkit::{Observe, wait_until};

/// A VF without a driver; the driver is bound again when this value is dropped.
pub(crate) struct UnboundVf<'a> {
    machine: &'a LabMachine,
    vf: LabVf,
}

impl<'a> UnboundVf<'a> {
    pub(crate) fn from(machine: &'a LabMachine, vf: &LabVf) -> Self {
        fs::write("/sys/bus/pci/drivers/igbvf/unbind", &vf.pci).unwrap();
        Self { machine, vf: vf.clone() }
    }

    pub(crate) fn bind(self) {
        drop(self);
    }

    /// Loads a user-space driver, for example `vfio-pci` or `uio_pci_generic`, and binds it by `driver_override`.
    pub(crate) fn bind_to(&self, driver: &str) {
        self.machine.node.run("modprobe", &[driver]);
        fs::write(self.file("driver_override"), driver).unwrap();
        fs::write("/sys/bus/pci/drivers_probe", &self.vf.pci).unwrap();
        assert!(fs::read_link(self.file("driver")).unwrap().ends_with(driver));
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        Path::new("/sys/bus/pci/devices").join(&self.vf.pci).join(name)
    }
}

impl Drop for UnboundVf<'_> {
    fn drop(&mut self) {
        let _ = fs::write(self.file("driver_override"), "\n");
        let _ = fs::write(self.file("driver/unbind"), &self.vf.pci);
        let _ = fs::write("/sys/bus/pci/drivers/igbvf/bind", &self.vf.pci);
        let vf = || self.machine.vf(self.vf.pf, self.vf.index);
        wait_until("the VF has its devices again", || !vf().link.is_empty() && !vf().rdma.is_empty());
    }
}
