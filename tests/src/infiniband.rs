//! The lab's virtual machine with InfiniBand: one of its PFs and the VFs of it have IPoIB links.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use testkit::{Call, Observe, wait_until};

use crate::machine::{LabMachine, set_vfs};

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
const VFS: usize = 3;

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
        machine.create_vfs(&["eth0"]);
        set_vfs(0, &["eth1"]);
        let pf = file_name(&fs::read_link("/sys/class/net/eth1/device").unwrap());
        let mut this = Self { machine, pf, vfs: Vec::new() };
        drive(&this.pf);
        this.create_vfs();
        this
    }

    /// Creates VFs as `lab-ib` does, whose processes take several seconds in the emulator.
    fn create_vfs(&mut self) {
        let pf = device(&self.pf);
        fs::write(pf.join("sriov_drivers_autoprobe"), "0").unwrap();
        fs::write(pf.join("sriov_numvfs"), VFS.to_string()).unwrap();
        let link = self.pf_link();
        let guids: Vec<_> = (0..VFS)
            .flat_map(|vf| {
                let guid = format!("02:00:00:00:00:00:00:{:02x}", vf + 1);
                ["node_guid", "port_guid"].map(|which| format!("link set {link} vf {vf} {which} {guid}"))
            })
            .collect();
        run_ip_batch(&guids);
        for vf in 0..VFS {
            let function = file_name(&fs::read_link(pf.join(format!("virtfn{vf}"))).unwrap());
            drive(&function);
            self.vfs.push(function);
        }
    }

    /// Removes the VFs, so that the PF alone remains.
    pub fn remove_vfs(&mut self) {
        fs::write(device(&self.pf).join("sriov_numvfs"), "0").unwrap();
        self.vfs.clear();
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
        let link = self.pf_link();
        run_ip_batch(
            &["node_guid", "port_guid"].map(|which| format!("link set {link} vf {index} {which} {guid}")),
        );
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
        let pf = device(&self.pf);
        let _ = fs::write(pf.join("driver/unbind"), &self.pf);
        let _ = fs::write(pf.join("sriov_drivers_autoprobe"), "1");
        let _ = fs::write(pf.join("driver_override"), "\n");
        let _ = fs::write("/sys/bus/pci/drivers/igb/bind", &self.pf);
        wait_until("eth1 is an Ethernet PF", || Path::new("/sys/class/net/eth1").exists());
    }
}

/// Binds a function to the lab's driver of InfiniBand functions.
fn drive(function: &str) {
    let device = device(function);
    fs::write(device.join("driver_override"), "rdmasim_ib").unwrap();
    if device.join("driver").exists() {
        fs::write(device.join("driver/unbind"), function).unwrap();
    }
    fs::write("/sys/bus/pci/drivers/rdmasim_ib/bind", function).unwrap();
}

fn device(pci: &str) -> PathBuf {
    Path::new("/sys/bus/pci/devices").join(pci)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Runs several commands in one process.
fn run_ip_batch(commands: &[String]) {
    let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    ip.stdin.take().unwrap().write_all(commands.join("\n").as_bytes()).unwrap();
    assert!(ip.wait().unwrap().success(), "{commands:?}");
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
