//! A pod as the Go plugins attach it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use testkit::{Call, FakeIpam, Observe, TestPod};

use silkrail_tests::machine::{LabMachine, LabVf};

/// The state directory of the Go plugins. The lab's root directory is a temporary copy.
pub(crate) const GO_STATE: &str = "/var/lib/cni";

/// A pod's attachment by the Go plugins, and the calls of Silkrail's plugins for it.
pub(crate) struct GoPod {
    pub(crate) sriov: Call,
    pub(crate) rdma: Call,
    /// State files of the Go plugins: for the rdma attachment, the sriov attachment, and the allocation of the VF.
    pub(crate) files: [PathBuf; 3],
    pub(crate) ipam: FakeIpam,
}

impl GoPod {
    /// Attaches a pod as the Go plugins do: applies `settings` of the configuration on the PF, moves the VF's link and RDMA
    /// device into the pod, and writes the state files.
    pub(crate) fn attach(machine: &LabMachine, vf: &LabVf, pod: &TestPod, settings: &Value) -> Self {
        let this = Self::new(machine, vf, pod);
        let noted = noted(machine, vf, settings);
        configure(machine, vf, settings);
        move_devices(machine, vf, pod, settings);
        let [rdma, sriov, allocation] = &this.files;
        write(rdma, &moved(vf).to_string());
        write(sriov, &noted.to_string());
        write(allocation, pod.path().to_str().unwrap());
        this
    }

    /// Returns the calls and the files for a pod that is not attached.
    pub(crate) fn new(machine: &LabMachine, vf: &LabVf, pod: &TestPod) -> Self {
        let container = format!("go-{}-{}", vf.pf, vf.index);
        let ipam = FakeIpam::install(&machine.node, "fake");
        let conf = json!({"deviceID": vf.pci, "ipam": {"type": "fake"}});
        let about = |call: Call| call.delegates_in(ipam.dir()).pod(pod).container(&container);
        let below = |path: String| Path::new(GO_STATE).join(path);
        Self {
            sriov: about(machine.plugin("sriov", &conf)),
            rdma: about(machine.plugin("rdma", &conf)),
            files: [
                below(format!("rdma/rail0-{container}-net1")),
                below(format!("sriov/{container}-net1")),
                below(format!("sriov/pci/{}", vf.pci)),
            ],
            ipam,
        }
    }

    pub(crate) fn sriov_file(&self) -> &Path {
        &self.files[1]
    }

    pub(crate) fn allocation(&self) -> &Path {
        &self.files[2]
    }

    /// Calls DEL of the chain, in reverse order.
    pub(crate) fn del(&self) {
        self.rdma.del().done();
        self.sriov.del().done();
        assert!(self.ipam.verbs().ends_with(&["DEL".to_owned()]), "the IPAM plugin is called");
    }

    pub(crate) fn has_no_files(&self) {
        for file in &self.files {
            assert!(!file.exists(), "{} is left", file.display());
        }
    }
}

impl Drop for GoPod {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
    }
}

/// Returns the content of the Go rdma plugin's state file.
pub(crate) fn moved(vf: &LabVf) -> Value {
    json!({
        "version": "1.0", "deviceID": vf.pci,
        "sandboxRdmaDevName": vf.rdma, "containerRdmaDevName": vf.rdma
    })
}

/// Returns the content of the Go sriov plugin's state file: the effective configuration, and the VF's former state.
pub(crate) fn noted(machine: &LabMachine, vf: &LabVf, settings: &Value) -> Value {
    let (info, link) = (machine.vf_info(vf), machine.node.link(&vf.link).unwrap());
    let mut file = json!({
        "cniVersion": "1.0.0", "name": "rail0", "type": "sriov",
        "ipam": {"type": "fake"}, "dns": {},
        "OrigVfState": {
            "HostIFName": vf.link, "SpoofChk": info["spoofchk"], "Trust": info["trust"],
            "AdminMAC": info["address"], "EffectiveMAC": link["address"],
            "Vlan": 0, "VlanQoS": 0, "VlanProto": 33024,
            "MinTxRate": 0, "MaxTxRate": 0, "LinkState": 0, "MTU": link["mtu"]
        },
        "Master": vf.pf, "MAC": "", "MTU": null, "vlan": null, "vlanQoS": null, "vlanProto": null,
        "deviceID": vf.pci, "VFID": vf.index, "min_tx_rate": null, "max_tx_rate": null,
        "runtimeConfig": {}, "logLevel": "info", "logFile": ""
    });
    file.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    file
}

/// Applies the settings on the PF, as the Go plugin does.
fn configure(machine: &LabMachine, vf: &LabVf, settings: &Value) {
    let set = |what: String| machine.node.run_ip(&format!("link set {} vf {} {what}", vf.pf, vf.index));
    if let Some(vlan) = settings["vlan"].as_u64() {
        set(format!("vlan {vlan} qos {}", settings["vlanQoS"].as_u64().unwrap_or_default()));
    }
    for key in ["spoofchk", "trust"] {
        if let Some(value) = settings[key].as_str() {
            set(format!("{key} {value}"));
        }
    }
    if let Some(mac) = settings["MAC"].as_str() {
        // Once there is an administrative address, this card refuses any other address of the link.
        machine.node.run_ip(&format!("link set {} address {mac}", vf.link));
        set(format!("mac {mac}"));
    }
}

/// Moves the link and the RDMA device into the pod.
fn move_devices(machine: &LabMachine, vf: &LabVf, pod: &TestPod, settings: &Value) {
    let netns = pod.path().to_str().unwrap();
    machine.node.run_ip(&format!("link set {} down", vf.link));
    machine.node.run_ip(&format!("link set {} netns {netns}", vf.link));
    pod.run_ip(&format!("link set {} name net1", vf.link));
    if let Some(mtu) = settings["podMtu"].as_u64() {
        pod.run_ip(&format!("link set net1 mtu {mtu}"));
    }
    pod.run_ip("link set net1 up");
    pod.run_ip("address add 10.9.0.2/24 dev net1");
    // `rdma` accepts only names of namespaces.
    fs::create_dir_all("/var/run/netns").unwrap();
    let name = format!("../../..{netns}");
    machine.node.run("rdma", &["dev", "set", &vf.rdma, "netns", &name]);
}

/// Sets the modification time of a file to a time before the boot.
pub(crate) fn age(machine: &LabMachine, file: &Path) {
    machine.node.run("touch", &["-d", "2001-01-01", file.to_str().unwrap()]);
}

pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
