//! The lab's virtual machine with InfiniBand: one of its PFs and the VFs of it have IPoIB links.

use std::{fs, path::Path};

use serde_json::{Value, json};
use testkit::{Call, Observe, wait_until};

use crate::machine::LabMachine;

/// The machine while `eth1` is an InfiniBand PF. Dropping it makes it an Ethernet PF again.
#[derive(Debug)]
pub struct InfinibandMachine {
    /// The machine. Its methods for VFs must not be used.
    pub machine: LabMachine,
    /// PCI address of the PF.
    pub pf: String,
    vfs: Vec<String>,
}

/// An InfiniBand VF on the host.
#[derive(Debug, Clone)]
pub struct InfinibandVf {
    /// Index on its PF, from 0.
    pub index: usize,
    /// PCI address.
    pub pci: String,
    /// IPoIB link; empty if it is not on the host.
    pub link: String,
    /// RDMA device; empty if it is not on the host.
    pub rdma: String,
}

/// The number of VFs.
const VFS: &str = "3";

impl InfinibandMachine {
    /// Returns the machine in exclusive mode.
    pub fn exclusive() -> Self {
        Self::of(LabMachine::without_vf_check("exclusive"))
    }

    /// Returns the machine in shared mode.
    pub fn shared() -> Self {
        Self::of(LabMachine::without_vf_check("shared"))
    }

    fn of(machine: LabMachine) -> Self {
        machine.node.run("lab-vfs", &["7", "eth0"]);
        let printed = machine.node.run("lab-ib", &[VFS]);
        let mut functions = printed.lines().map(str::to_owned);
        let pf = functions.next().unwrap();
        Self { machine, pf, vfs: functions.collect() }
    }

    /// Returns a VF.
    pub fn vf(&self, index: usize) -> InfinibandVf {
        let pci = self.vfs[index].clone();
        InfinibandVf { index, link: below(&pci, "net"), rdma: below(&pci, "infiniband"), pci }
    }

    /// Returns the PF's IPoIB link.
    pub fn pf_link(&self) -> String {
        below(&self.pf, "net")
    }

    /// Returns the VF's element of `vfinfo_list` of its PF, as `ip -j link` prints it.
    pub fn vf_info(&self, index: usize) -> Value {
        self.machine.node.link(&self.pf_link()).unwrap()["vfinfo_list"][index].clone()
    }

    /// Sets both GUIDs of a VF and binds its driver again.
    pub fn set_guid(&self, index: usize, guid: &str) {
        for which in ["node_guid", "port_guid"] {
            self.machine.node.run_ip(&format!("link set {} vf {index} {which} {guid}", self.pf_link()));
        }
        let driver = Path::new("/sys/bus/pci/drivers/rdmasim_ib");
        for file in ["unbind", "bind"] {
            fs::write(driver.join(file), &self.vfs[index]).unwrap();
        }
    }

    /// Returns a call of a plugin: see [`LabMachine::plugin`].
    pub fn plugin(&self, plugin: &str, settings: &Value) -> Call {
        self.machine.plugin(plugin, settings)
    }

    /// Returns the character devices of a VF's RDMA device, in any namespace.
    pub fn char_devices(&self, index: usize) -> Vec<String> {
        let dir = Path::new("/sys/bus/pci/devices").join(&self.vfs[index]);
        let classes = ["infiniband_verbs", "infiniband_mad"];
        classes.iter().flat_map(|class| names(&dir.join(class))).collect()
    }
}

impl Drop for InfinibandMachine {
    fn drop(&mut self) {
        self.machine.node.run("lab-ib", &["off", &self.pf]);
        wait_until("eth1 is an Ethernet PF", || Path::new("/sys/class/net/eth1").exists());
    }
}

/// Returns the settings of a call for a VF.
pub fn settings(vf: &InfinibandVf, more: &Value) -> Value {
    let mut conf = json!({"deviceID": vf.pci});
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    conf
}

fn below(pci: &str, dir: &str) -> String {
    let dir = Path::new("/sys/bus/pci/devices").join(pci).join(dir);
    names(&dir).into_iter().next().unwrap_or_default()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
