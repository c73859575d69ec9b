//! Pods as the Go plugins of InfiniBand attach them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use testkit::{Call, FakeIpam, Observe, TestPod};

use silkrail_tests::infiniband::{InfinibandMachine, InfinibandVf};

use crate::go_pod::{GO_STATE, write};

/// A pod's attachment by ib-sriov-cni.
pub(crate) struct GoIbPod {
    pub(crate) vf: InfinibandVf,
    pub(crate) file: PathBuf,
    state: Value,
}

impl GoIbPod {
    /// Does what the Go plugin does, in its order, and writes its state file. `keys` are those of the configuration, with
    /// `guid` for `infinibandGUID`.
    pub(crate) fn attach(machine: &InfinibandMachine, index: usize, pod: &TestPod, keys: &Value) -> Self {
        let vf = machine.vf(index);
        let (node, netns) = (&machine.machine.node, pod.path().to_str().unwrap());
        if let Some(state) = keys["link_state"].as_str() {
            node.run_ip(&format!("link set {} vf {index} state {state}", machine.pf_link()));
        }
        let former = machine.vf_info(index)["port guid"].clone();
        if let Some(guid) = keys["guid"].as_str() {
            machine.set_guid(index, guid);
        }
        let isolation = keys["rdmaIsolation"] == true;
        if isolation {
            // `rdma` accepts only names of namespaces.
            fs::create_dir_all("/var/run/netns").unwrap();
            node.run("rdma", &["dev", "set", &vf.rdma, "netns", &format!("../../..{netns}")]);
        }
        move_link(machine, pod, &machine.vf(index).link);
        let moved = if isolation { vf.rdma.as_str() } else { "" };
        let state = json!({
            "cniVersion": "1.0.0", "name": "rail0", "type": "ib-sriov", "ipam": {"type": "fake"}, "dns": {},
            "Master": machine.pf_link(), "deviceID": vf.pci, "VFID": index, "HostIFNames": vf.link,
            "HostIFGUID": if keys["guid"].is_string() { former } else { json!("") }, "ContIFNames": "net1",
            "link_state": keys["link_state"].as_str().unwrap_or_default(), "rdmaIsolation": isolation,
            "RdmaNetState": {
                "version": if isolation { "1.0" } else { "" }, "deviceID": if isolation { &vf.pci } else { "" },
                "sandboxRdmaDevName": moved, "containerRdmaDevName": moved
            },
            "runtimeConfig": {}, "vfioPciMode": false, "pkey": ""
        });
        let file = Path::new(GO_STATE).join("ib-sriov/go-ib-net1");
        let this = Self { vf, file, state };
        this.write_file();
        this
    }

    pub(crate) fn write_file(&self) {
        write(&self.file, &self.state.to_string());
    }

    /// Returns the calls of Silkrail's plugin for the pod.
    pub(crate) fn call(&self, machine: &InfinibandMachine, pod: &TestPod, ipam: &FakeIpam) -> Call {
        let conf = json!({"deviceID": self.vf.pci, "ipam": {"type": "fake"}});
        machine.plugin("ib-sriov", &conf).delegates_in(ipam.dir()).pod(pod).container("go-ib")
    }
}

impl Drop for GoIbPod {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// A pod's attachment by ipoib-cni, which keeps no state.
pub(crate) struct GoIpoibPod {
    /// What the ADD printed. libcni passes it to DEL.
    result: Value,
}

impl GoIpoibPod {
    /// Creates the link on the host under a random name, and moves it.
    pub(crate) fn attach(machine: &InfinibandMachine, pod: &TestPod) -> Self {
        let parent = machine.pf_link();
        machine.machine.node.run_ip(&format!(
            "link add link {parent} name vethd1c7a09e type ipoib pkey 0x7fff mode datagram umcast 1"
        ));
        move_link(machine, pod, "vethd1c7a09e");
        let netns = pod.path().to_str().unwrap();
        let mac = pod.link("net1").unwrap()["address"].clone();
        let interface = json!({"name": "net1", "mac": mac, "sandbox": netns});
        Self { result: json!({"cniVersion": "1.0.0", "interfaces": [interface], "dns": {}}) }
    }

    /// Returns the calls of Silkrail's plugin for the pod.
    pub(crate) fn call(&self, machine: &InfinibandMachine, pod: &TestPod, ipam: &FakeIpam) -> Call {
        let conf = json!({"cniVersion": "1.0.0", "master": machine.pf_link(), "ipam": {"type": "fake"}});
        let call = machine.plugin("ipoib", &conf).delegates_in(ipam.dir()).pod(pod).container("go-ipoib");
        call.with("prevResult", &self.result)
    }
}

/// Moves a link into the pod under the name of the attachment.
fn move_link(machine: &InfinibandMachine, pod: &TestPod, link: &str) {
    machine.machine.node.run_ip(&format!("link set {link} netns {}", pod.path().display()));
    pod.run_ip(&format!("link set {link} name net1"));
    pod.run_ip("link set net1 up");
    pod.run_ip("address add 10.9.0.2/24 dev net1");
}
