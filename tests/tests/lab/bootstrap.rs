//! `silkrail apply` and `silkrail vf`: the node file, applied to a node.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use silkrail_tests::{
    chain::Chain,
    cli::{self, CommandOutput},
    machine::{LabMachine, PFS},
};
use testkit::{Binaries, Observe};

/// A machine without VFs, in shared mode. Dropping it removes everything that `silkrail apply` leaves outside the state
/// directory.
struct MachineWithoutVfs(LabMachine);

impl MachineWithoutVfs {
    fn new() -> Self {
        let _ = fs::remove_dir_all("/var/lib/silkrail/bootstrap");
        Self(LabMachine::bare())
    }

    fn state_option(&self) -> String {
        format!("--state-dir {}", self.0.node.state_dir().display())
    }

    /// Writes a node file.
    fn file(&self, text: &str) -> PathBuf {
        let path = self.0.node.state_dir().with_extension("yaml");
        fs::write(&path, text).unwrap();
        path
    }

    fn apply(&self, file: &str, options: &str) -> CommandOutput {
        let path = self.file(file);
        cli::silkrail(&format!("apply {} {} {options}", path.display(), self.state_option()))
    }
}

impl Drop for MachineWithoutVfs {
    fn drop(&mut self) {
        let _ = fs::remove_file("/etc/modprobe.d/ib_core.conf");
        let _ = fs::remove_dir_all("/var/lib/silkrail/bootstrap");
        for pf in PFS {
            let _ = fs::write(format!("/sys/class/net/{pf}/device/sriov_drivers_autoprobe"), "1");
            let _ = fs::write(format!("/sys/class/net/{pf}/device/sriov_numvfs"), "0");
        }
    }
}

/// A node file for all PFs of the machine.
const NODE_FILE: &str = "
rdmaMode: exclusive
pfs:
  - match: {link: eth0}
    vfs: 7
    vf: {trust: true, spoofCheck: false}
  - match: {link: eth1}
    vfs: 7
";

fn attribute(pf: &str, name: &str) -> String {
    fs::read_to_string(format!("/sys/class/net/{pf}/device/{name}")).unwrap().trim().to_owned()
}

/// Returns the `vfinfo_list` of a PF, as `ip -j link` prints it.
fn vf_infos(machine: &LabMachine, pf: &str) -> Vec<Value> {
    machine.node.link(pf).unwrap()["vfinfo_list"].as_array().unwrap().clone()
}

/// Returns the node GUIDs of all RDMA devices, as `rdma -j dev` prints them.
fn guids(machine: &LabMachine) -> Vec<String> {
    let devices: Value = serde_json::from_str(&machine.node.run("rdma", &["-j", "dev", "show"])).unwrap();
    devices
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["node_guid"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_vf_with_another_mac_than_set_by_its_pf_is_corrected_in_the_same_run() {
    let bare = MachineWithoutVfs::new();
    // Simulates a driver that generates a MAC address because its PF does not reply in time.
    let change_mac =
        "until name=$(ls /sys/class/net/eth0/device/virtfn0/net 2>/dev/null) && [ -n \"$name\" ] &&
                   ip link set \"$name\" address 02:00:00:00:00:99 2>/dev/null; do :; done";
    let mut driver = bare.0.node.command("sh").args(["-c", change_mac]).spawn().unwrap();
    let done = bare.apply(NODE_FILE, "--detailed-exitcode").ended(11);
    assert!(driver.wait().unwrap().success());
    assert!(done.stderr.contains("unbind the driver, so that it reads the address again"), "{done:?}");
    let vf = bare.0.vf("eth0", 0);
    let info = vf_infos(&bare.0, "eth0").remove(0);
    let set_by_pf = info["address"].as_str().or(info["mac"].as_str()).unwrap().to_owned();
    assert_eq!(bare.0.node.link(&vf.link).unwrap()["address"], set_by_pf.as_str());
    bare.apply(NODE_FILE, "--detailed-exitcode").ended(0);
}

#[test]
fn one_node_file_configures_exclusive_mode_and_fourteen_vfs_and_a_second_run_changes_nothing() {
    let bare = MachineWithoutVfs::new();
    let machine = &bare.0;
    let dry = bare.apply(NODE_FILE, "--dry-run").ended(0);
    assert!(dry.stdout.contains("create 7 VFs") && dry.stdout.contains("Nothing was done"), "{dry:?}");
    assert_eq!((attribute("eth0", "sriov_numvfs").as_str(), machine.rdma_devices().len()), ("0", 2));

    let done = bare.apply(NODE_FILE, "--detailed-exitcode").ended(11);
    assert!(machine.node.run("rdma", &["system", "show"]).starts_with("netns exclusive"), "{done:?}");
    let written = fs::read_to_string("/etc/modprobe.d/ib_core.conf").unwrap();
    assert!(written.contains("options ib_core netns_mode=0"), "{written}");
    let macs: Vec<String> = PFS
        .iter()
        .flat_map(|pf| vf_infos(machine, pf))
        .map(|vf| vf["address"].as_str().or(vf["mac"].as_str()).unwrap().to_owned())
        .collect();
    assert_eq!(macs.len(), 14);
    assert!(macs.iter().all(|mac| mac != "00:00:00:00:00:00"), "{macs:?}");
    for vf in vf_infos(machine, "eth0") {
        assert_eq!((&vf["trust"], &vf["spoofchk"]), (&json!(true), &json!(false)), "{vf}");
    }
    for vf in machine.vfs() {
        let mac = machine.node.link(&vf.link).unwrap()["address"].as_str().unwrap().to_owned();
        assert!(macs.contains(&mac), "{vf:?} has {mac}, which its PF did not set");
    }
    assert_eq!(machine.rdma_devices().len(), 16);
    assert!(guids(machine).iter().all(|guid| guid != "0000:0000:0000:0000"));
    assert_eq!(attribute("eth0", "sriov_drivers_autoprobe"), "1");
    let ready = machine.node.state_dir().join("ready.json");
    let ready_file: Value = serde_json::from_slice(&fs::read(&ready).unwrap()).unwrap();
    assert_eq!((&ready_file["rdmaMode"], &ready_file["vfs"]), (&json!("exclusive"), &json!(14)));

    machine.node.run("modprobe", &["rdma_ucm"]);
    let plugins = Binaries::find();
    let doctor = format!("doctor --json {} --cni-bin {}", bare.state_option(), plugins.dir().display());
    let report = cli::silkrail(&doctor).ended(0).json();
    let severe = |finding: &&Value| finding["severity"] != "info";
    assert_eq!(report["findings"].as_array().unwrap().iter().filter(severe).count(), 0, "{report:#}");

    // PCI addresses, names and indexes of VFs, and times of files: an object that is created again has another index or time.
    let facts = || {
        let time = |path: &str| fs::metadata(path).unwrap().modified().unwrap();
        let vfs: Vec<_> =
            machine.vfs().iter().map(|vf| (vf.pci.clone(), vf.link.clone(), vf.rdma.clone())).collect();
        let indexes: Vec<_> =
            machine.vfs().iter().map(|vf| machine.node.link(&vf.link).unwrap()["ifindex"].clone()).collect();
        (vfs, indexes, time("/etc/modprobe.d/ib_core.conf"), time(ready.to_str().unwrap()))
    };
    let before = facts();
    let second = bare.apply(NODE_FILE, "--detailed-exitcode").ended(0);
    assert_eq!(facts(), before);
    assert_eq!(second.stdout.matches("nothing to do").count(), 3, "{}", second.stdout);
    assert_eq!(second.stderr, "");

    // VFs that are created again get the same MAC addresses.
    bare.apply(&NODE_FILE.replace("vfs: 7", "vfs: 0"), "").ended(0);
    assert_eq!(machine.rdma_devices().len(), 2);
    bare.apply(NODE_FILE, "").ended(0);
    let again: Vec<String> = PFS
        .iter()
        .flat_map(|pf| vf_infos(machine, pf))
        .map(|vf| vf["address"].as_str().or(vf["mac"].as_str()).unwrap().to_owned())
        .collect();
    assert_eq!(again, macs);
}

#[test]
fn vfs_in_use_are_neither_removed_nor_changed() {
    let machine = LabMachine::exclusive();
    let (vf, netns) = (machine.vf("eth0", 2), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &netns, json!({}));
    chain.add();
    let state = format!("--state-dir {}", machine.node.state_dir().display());
    for command in ["vf delete eth0", "vf create eth0 3", "vf delete eth0 --allow-recreate --force-pf"] {
        let refused = cli::silkrail(&format!("{command} {state}")).ended(3);
        assert!(refused.stdout.contains(&format!("VF 2 ({})", vf.pci)), "{refused:?}");
        assert!(refused.stdout.contains("its link is in another network namespace"), "{refused:?}");
        assert!(refused.stdout.contains("its RDMA device is in another network namespace"), "{refused:?}");
        assert!(refused.stdout.contains("attachment "), "{refused:?}");
    }
    let listed = cli::silkrail(&format!("vf list --json {state}")).ended(0).json();
    let kinds = |index: usize| -> Vec<String> {
        let users = listed[0]["vfs"][index]["usedBy"].as_array().unwrap().clone();
        users.iter().map(|user| user["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(2), ["attachment", "linkElsewhere", "rdmaElsewhere"]);
    assert!(kinds(3).is_empty());
    chain.del();
    let free = cli::silkrail(&format!("vf list --json {state}")).ended(0).json();
    assert_eq!(free[0]["vfs"][2]["usedBy"], json!([]));
}

#[test]
fn a_vf_with_an_upper_link_or_an_address_on_the_host_is_in_use() {
    let bare = MachineWithoutVfs::new();
    let machine = &bare.0;
    cli::silkrail(&format!("vf create eth0 4 {}", bare.state_option())).ended(0);
    let uses: [(usize, &str, String); 3] = [
        (0, "upper", "link add link VF name busy0 type macvlan mode bridge".into()),
        (1, "address", "address add 172.16.5.1/24 dev VF".into()),
        (2, "upper", "link add link VF name busy2 type vlan id 7".into()),
    ];
    for (index, kind, command) in &uses {
        let vf = machine.vf("eth0", *index);
        machine.node.run_ip(&command.replace("VF", &vf.link));
        let listed = cli::silkrail(&format!("vf list --json {}", bare.state_option())).ended(0).json();
        assert_eq!(listed[0]["vfs"][*index]["usedBy"][0]["kind"], *kind, "{listed}");
        cli::silkrail(&format!("vf delete eth0 {}", bare.state_option())).ended(3);
    }
    machine.node.run_ip("link delete busy0");
    machine.node.run_ip("link delete busy2");
    let vf = machine.vf("eth0", 1).link;
    machine.node.run_ip(&format!("address del 172.16.5.1/24 dev {vf}"));
    cli::silkrail(&format!("vf delete eth0 {}", bare.state_option())).ended(0);
    assert_eq!(attribute("eth0", "sriov_numvfs"), "0");
}

#[test]
fn a_killed_run_is_completed_by_the_next() {
    let bare = MachineWithoutVfs::new();
    let machine = &bare.0;
    let file = "pfs:\n  - {match: {link: eth1}, vfs: 3}\n";
    bare.apply(file, "").ended(0);
    let macs = vf_infos(machine, "eth1");
    // The state after a run that was killed after it had created the VFs: no VF has a driver, and autoprobe is off.
    cli::silkrail(&format!("vf delete eth1 {}", bare.state_option())).ended(0);
    let state_file = format!("/var/lib/silkrail/bootstrap/{}.json", pci_of("eth1"));
    let text = fs::read_to_string(&state_file).unwrap().replace("\"complete\":true", "\"complete\":false");
    fs::write(&state_file, text).unwrap();
    fs::write("/sys/class/net/eth1/device/sriov_drivers_autoprobe", "0").unwrap();
    fs::write("/sys/class/net/eth1/device/sriov_numvfs", "3").unwrap();
    assert!(machine.vf("eth1", 0).link.is_empty());

    bare.apply(file, "--detailed-exitcode").ended(11);
    assert_eq!(attribute("eth1", "sriov_drivers_autoprobe"), "1");
    let address = |vf: &Value| vf["address"].as_str().or(vf["mac"].as_str()).unwrap().to_owned();
    let now: Vec<_> = vf_infos(machine, "eth1").iter().map(address).collect();
    assert_eq!(now, macs.iter().map(address).collect::<Vec<_>>());
    assert!((0..3).all(|index| !machine.vf("eth1", index).rdma.is_empty()));
    bare.apply(file, "--detailed-exitcode").ended(0);
}

fn pci_of(pf: &str) -> String {
    let link = fs::read_link(format!("/sys/class/net/{pf}/device")).unwrap();
    link.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn errors_are_reported_before_any_change() {
    let bare = MachineWithoutVfs::new();
    let pf = |text: &str| format!("pfs:\n  - {{match: {{link: eth0}}, {text}}}\n");
    for (file, code, expected) in [
        (pf("numvf: 4"), 2, "pfs[0].numvf: unknown key"),
        (pf("vfs: 8"), 2, "requested 8 VFs, but its firmware supports 7"),
        (
            "pfs:\n  - {match: {link: eth9}, vfs: 1}\n".into(),
            2,
            "{link: eth9} matches no PF; available: eth0",
        ),
        ("rdmaMode: Exclusive\n".into(), 2, "rdmaMode: "),
        (format!("{}  - {{match: {{driver: igb}}, vfs: 1}}\n", pf("vfs: 1")), 2, "is also matched by pfs[0]"),
        (pf("vfs: 2, externallyManaged: true"), 3, "has 0 VFs, expected at least 2"),
    ] {
        let ran = bare.apply(&file, "").ended(code);
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(expected), "{expected}: {ran:?}");
        assert_eq!(attribute("eth0", "sriov_numvfs"), "0");
    }
    let missing = cli::silkrail("apply /nonexistent.yaml").ended(1);
    assert!(missing.stderr.contains("/nonexistent.yaml"), "{missing:?}");
    let unknown = cli::silkrail(&format!("vf create eth9 1 {}", bare.state_option())).ended(2);
    for part in ["there is no PF \"eth9\"", "available: eth0, eth1"] {
        assert!(unknown.stderr.contains(part), "{unknown:?}");
    }
}

#[test]
fn a_pf_that_the_node_depends_on_is_protected() {
    let bare = MachineWithoutVfs::new();
    let node = &bare.0.node;
    node.run_ip("address add 172.16.9.1/24 dev eth0");
    node.run_ip("route add default via 172.16.9.2");
    let refused = cli::silkrail(&format!("vf create eth0 2 {}", bare.state_option())).ended(3);
    assert!(refused.stdout.contains("the node's default route uses eth0"), "{refused:?}");
    cli::silkrail(&format!("vf create eth0 2 --force-pf {}", bare.state_option())).ended(0);
    node.run_ip("route del default");
    node.run_ip("address del 172.16.9.1/24 dev eth0");
    node.run_ip("link add bond7 type bond");
    node.run_ip("link set eth1 down");
    node.run_ip("link set eth1 master bond7");
    let refused = cli::silkrail(&format!("vf create eth1 2 {}", bare.state_option())).ended(3);
    node.run_ip("link delete bond7");
    node.run_ip("link set eth1 up");
    assert!(refused.stdout.contains("eth1 belongs to bond7"), "{refused:?}");
}

#[test]
fn with_pods_on_the_node_vfs_are_created_and_the_mode_requires_a_reboot() {
    let bare = MachineWithoutVfs::new();
    let _pod = bare.0.node.pod("other");
    let ran = bare.apply(NODE_FILE, "").ended(10);
    assert!(ran.stdout.contains("still shared, not exclusive"), "{ran:?}");
    assert_eq!(attribute("eth1", "sriov_numvfs"), "7");
    assert!(!bare.0.node.state_dir().join("ready.json").exists(), "the node is not ready");
}
