//! The lab's virtual machine: two PFs with seven VFs each, and an RDMA device for every function.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use testkit::{Call, Observe, TestNode};

use crate::netns_holders::NetnsHolders;

/// Serializes the tests of the machine, also without `--test-threads=1`.
static ONE: Mutex<()> = Mutex::new(());

/// The machine in one of the two RDMA modes.
#[derive(Debug)]
pub struct LabMachine {
    /// The machine as a node.
    pub node: TestNode,
    _one: MutexGuard<'static, ()>,
}

impl Drop for LabMachine {
    fn drop(&mut self) {
        // A failed test may leave its settings on VFs: the next one creates them again.
        if thread::panicking() {
            for pf in PFS {
                let _ = fs::write(sriov_numvfs(pf), "0");
            }
        }
    }
}

/// A VF on the host.
#[derive(Debug, Clone)]
pub struct LabVf {
    /// Link of its PF: `eth0`.
    pub pf: &'static str,
    /// Index on its PF, from 0.
    pub index: usize,
    /// PCI address: `0000:01:10.0`.
    pub pci: String,
    /// Link; empty if it is not on the host.
    pub link: String,
    /// RDMA device; empty if it is not on the host.
    pub rdma: String,
}

/// A scalable function.
#[derive(Debug, Clone)]
pub struct LabScalableFunction {
    /// Its auxiliary device: `mlx5_core.sf.0`.
    pub name: String,
    /// PCI address of its PF.
    pub pf_pci: String,
}

impl LabScalableFunction {
    /// Returns its link; empty if it is not on the host.
    pub fn link(&self) -> String {
        first(&self.dir("net"))
    }

    /// Returns its RDMA device; empty if it is not on the host.
    pub fn rdma(&self) -> String {
        first(&self.dir("infiniband"))
    }

    fn dir(&self, class: &str) -> PathBuf {
        Path::new("/sys/bus/auxiliary/devices").join(&self.name).join(class)
    }
}

/// Links of the machine's PFs.
pub const PFS: [&str; 2] = ["eth0", "eth1"];

impl LabMachine {
    /// Returns the machine in exclusive mode, with all VFs: each RDMA device is in one network namespace.
    pub fn exclusive() -> Self {
        Self::in_mode("exclusive")
    }

    /// Returns the machine in shared mode, with all VFs: every network namespace sees every RDMA device.
    pub fn shared() -> Self {
        Self::in_mode("shared")
    }

    /// Returns the machine in shared mode and without VFs, as after a boot.
    pub fn bare() -> Self {
        let machine = Self::without_vf_check("shared");
        set_vfs(0, &PFS);
        machine
    }

    fn in_mode(mode: &str) -> Self {
        let machine = Self::without_vf_check(mode);
        machine.create_vfs(&PFS);
        // The kernel returns the RDMA devices of a deleted namespace after the links, and deletes twins in the background.
        for vf in machine.vfs() {
            let devices = Path::new("/sys/bus/pci/devices").join(&vf.pci).join("infiniband");
            wait(&format!("{vf:?} has the devices that it had before the last test"), || {
                !machine.vf(vf.pf, vf.index).link.is_empty() && names(&devices).len() == 1
            });
        }
        machine
    }

    /// Creates all VFs of these PFs, and again those of a PF that has one with the name that it had in a pod: it keeps it if its
    /// namespace was deleted without a DEL.
    pub(crate) fn create_vfs(&self, pfs: &[&'static str]) {
        set_vfs(7, pfs);
        for pf in pfs {
            if (0..7).any(|index| !self.vf(pf, index).link.starts_with("eth")) {
                recreate_vfs(&[pf]);
            }
        }
    }

    /// Returns the machine in this mode, with any number of VFs.
    pub(crate) fn without_vf_check(mode: &str) -> Self {
        assert!(std::env::var_os("SILKRAIL_LAB").is_some(), "these tests need the lab: run hack/test lab");
        let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let node = TestNode::of_this_machine();
        // Without DAD, link-local addresses are never tentative, which would change snapshots after a second.
        set_sysctl("net/core/devconf_inherit_init_net", "1");
        set_sysctl("net/ipv6/conf/default/accept_dad", "0");
        for pf in PFS {
            set_sysctl(&format!("net/ipv6/conf/{pf}/accept_dad"), "0");
            set_up(pf);
        }
        set_rdma_mode(mode);
        Self { node, _one: one }
    }

    /// Returns a VF of a PF.
    pub fn vf(&self, pf: &'static str, index: usize) -> LabVf {
        vf(pf, index).unwrap()
    }

    /// Returns all 14 VFs.
    pub fn vfs(&self) -> Vec<LabVf> {
        PFS.into_iter()
            .flat_map(|pf| (0..7).map(move |index| (pf, index)))
            .map(|(pf, i)| self.vf(pf, i))
            .collect()
    }

    /// Creates a scalable function of a PF. Dropping the setting removes it.
    pub fn scalable_function(&self, pf: &'static str) -> (LabScalableFunction, SimulatedSetting) {
        let device = fs::read_link(format!("/sys/class/net/{pf}/device")).unwrap();
        let device = device.file_name().unwrap().to_str().unwrap();
        let created = self.simulate(device, "scalable_functions", "1");
        let dir = Path::new("/sys/bus/pci/devices").join(device);
        let name = names(&dir).into_iter().find(|name| name.starts_with("mlx5_core.sf.")).unwrap();
        (LabScalableFunction { name, pf_pci: device.to_owned() }, created)
    }

    /// Returns the VF's element of `vfinfo_list` of its PF, as `ip -j link` prints it.
    pub fn vf_info(&self, vf: &LabVf) -> Value {
        self.node.link(vf.pf).unwrap()["vfinfo_list"][vf.index].clone()
    }

    /// Returns a call of a plugin with the keys `settings` and, unless they contain an `ipam`, a pool.
    pub fn plugin(&self, plugin: &str, settings: &Value) -> Call {
        let mut conf = json!({
            "cniVersion": "1.1.0",
            "name": "rail0",
            "type": plugin,
            "ipam": {"type": "silkrail-ipam", "pools": [pool()]}
        });
        conf.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        self.node.plugin(plugin).conf(&conf)
    }

    /// Returns the names of the RDMA devices in the host namespace, sorted.
    pub fn rdma_devices(&self) -> Vec<String> {
        rdma_devices(&self.node)
    }

    /// Returns the character devices of every RDMA device, by PCI address: `uverbsN`, `umadN`, `issmN`. They are visible on
    /// the host in any namespace of the RDMA device.
    pub fn char_devices(&self) -> BTreeMap<String, Vec<String>> {
        let of = |pci: &str| {
            let dir = Path::new("/sys/bus/pci/devices").join(pci);
            ["infiniband_verbs", "infiniband_mad"].iter().flat_map(|class| names(&dir.join(class))).collect()
        };
        let pfs = PFS.map(|pf| {
            let device = fs::read_link(format!("/sys/class/net/{pf}/device")).unwrap();
            device.file_name().unwrap().to_str().unwrap().to_owned()
        });
        let all = self.vfs().into_iter().map(|vf| vf.pci).chain(pfs);
        all.map(|pci| (pci.clone(), of(&pci))).collect()
    }

    /// Changes a setting of the simulated RDMA device of a function.
    pub fn simulate(&self, pci: &str, setting: &str, value: &str) -> SimulatedSetting {
        let path = Path::new("/sys/kernel/debug/rdmasim").join(pci).join(setting);
        let before = fs::read_to_string(&path).unwrap().trim().to_owned();
        fs::write(&path, value).unwrap();
        SimulatedSetting { path, before }
    }
}

/// How long the kernel may need to delete the namespaces of an earlier test.
const RDMA_MODE_TIMEOUT: Duration = Duration::from_secs(60);

/// Sets the RDMA mode, which needs that no other network namespace exists.
fn set_rdma_mode(mode: &str) {
    let deadline = Instant::now() + RDMA_MODE_TIMEOUT;
    while !is_in_mode(mode) {
        let output = Command::new("rdma").args(["system", "set", "netns", mode]).output().unwrap();
        if output.status.success() {
            return;
        }
        let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(Instant::now() < deadline, "RDMA mode {mode}: {refusal}{}", NetnsHolders::find());
        thread::sleep(Duration::from_millis(100));
    }
}

/// How long a PF may have no carrier after its VFs were created or deleted, and their drivers may need.
const VFS_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates this many VFs on each of the PFs, and waits until they are usable, as `lab-vfs` does. In the emulator each of its
/// processes takes a twentieth of a second.
///
/// # Panics
/// If they are not usable within a minute.
pub fn set_vfs(count: usize, pfs: &[&'static str]) {
    for pf in pfs {
        set_up(pf);
        let sriov = sriov_numvfs(pf);
        if read(&sriov) == count.to_string() {
            continue;
        }
        // A VF whose driver starts while its PF is down cannot communicate with it until the driver is bound again.
        if count > 0 {
            wait(&format!("{pf} has a carrier"), || has_carrier(pf));
        }
        for count in [0, count] {
            if read(&sriov) != count.to_string() {
                fs::write(&sriov, count.to_string()).unwrap();
            }
        }
    }
    if count == 0 {
        return;
    }
    for pf in pfs {
        let vfs = || (0..count).filter_map(|index| vf(pf, index)).collect::<Vec<_>>();
        let is_complete = |vf: &LabVf| !vf.link.is_empty() && !vf.rdma.is_empty();
        let are_complete = || vfs().iter().filter(|vf| is_complete(vf)).count() == count;
        wait(&format!("{count} VFs of {pf} have their devices"), are_complete);
        let silent = silent_vfs(pf);
        for vf in vfs().iter().filter(|vf| silent.contains(&vf.index)) {
            for file in ["unbind", "bind"] {
                fs::write(Path::new("/sys/bus/pci/drivers/igbvf").join(file), &vf.pci).unwrap();
            }
        }
        wait(&format!("{count} VFs of {pf} have their devices"), are_complete);
        wait(&format!("{pf} has a carrier"), || has_carrier(pf));
    }
}

/// The file with the number of VFs of a PF.
fn sriov_numvfs(pf: &str) -> PathBuf {
    Path::new("/sys/class/net").join(pf).join("device/sriov_numvfs")
}

/// Returns the VFs of a PF that could not communicate with it: it has no MAC address of them.
fn silent_vfs(pf: &str) -> Vec<usize> {
    let output = Command::new("ip").args(["-details", "-json", "link", "show", "dev", pf]).output().unwrap();
    let links: Value = serde_json::from_slice(&output.stdout).unwrap();
    let vfs = links[0]["vfinfo_list"].as_array().cloned().unwrap_or_default();
    (0..vfs.len()).filter(|index| vfs[*index]["address"] == "00:00:00:00:00:00").collect()
}

/// Deletes the VFs of PFs and creates seven on each.
pub fn recreate_vfs(pfs: &[&'static str]) {
    set_vfs(0, pfs);
    set_vfs(7, pfs);
}

/// Waits for VFs. Drivers in the emulator may need longer than other parts of the kernel.
fn wait(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + VFS_TIMEOUT;
    while !is() {
        assert!(Instant::now() < deadline, "timed out after {VFS_TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn has_carrier(link: &str) -> bool {
    read(&Path::new("/sys/class/net").join(link).join("carrier")) == "1"
}

/// Sets a link up, if it is down.
fn set_up(link: &str) {
    if !is_up(link) {
        let status = Command::new("ip").args(["link", "set", link, "up"]).status().unwrap();
        assert!(status.success(), "{link} cannot be set up");
    }
}

/// Returns a VF of a PF, if it exists.
fn vf(pf: &'static str, index: usize) -> Option<LabVf> {
    let link = fs::read_link(format!("/sys/class/net/{pf}/device/virtfn{index}")).ok()?;
    let pci = link.file_name()?.to_str()?.to_owned();
    let below = |dir: &str| first(&Path::new("/sys/bus/pci/devices").join(&pci).join(dir));
    Some(LabVf { pf, index, link: below("net"), rdma: below("infiniband"), pci })
}

/// Sets a sysctl of the host namespace, without a process.
fn set_sysctl(name: &str, value: &str) {
    fs::write(Path::new("/proc/sys").join(name), value).unwrap();
}

fn is_up(link: &str) -> bool {
    let flags = read(&Path::new("/sys/class/net").join(link).join("flags"));
    u32::from_str_radix(flags.trim_start_matches("0x"), 16).is_ok_and(|flags| flags & 1 == 1)
}

/// Whether the machine is in an RDMA mode. The parameter is the kernel's variable.
fn is_in_mode(mode: &str) -> bool {
    let shared = read(Path::new("/sys/module/ib_core/parameters/netns_mode"));
    shared == if mode == "shared" { "Y" } else { "N" }
}

/// Returns the content of a file of sysfs; empty if it cannot be read.
fn read(path: &Path) -> String {
    fs::read_to_string(path).map(|text| text.trim_end().to_owned()).unwrap_or_default()
}

/// A changed setting of a simulated device; dropping it restores the former value.
#[derive(Debug)]
pub struct SimulatedSetting {
    path: PathBuf,
    before: String,
}

impl SimulatedSetting {
    /// Returns the current value of a number.
    ///
    /// # Panics
    /// If it is not a number.
    pub fn value(&self) -> u64 {
        read(&self.path).parse().unwrap()
    }

    /// Sets another value.
    ///
    /// # Panics
    /// If `rdmasim` refuses the value.
    pub fn set(&self, value: &str) {
        fs::write(&self.path, value).unwrap();
    }
}

impl Drop for SimulatedSetting {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

/// Returns whether this machine, in the lab or not, has a VF.
pub fn has_vf() -> bool {
    let devices = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    devices.into_iter().any(|device| device.path().join("physfn").exists())
}

/// Returns the pool of the example configurations.
pub fn pool() -> Value {
    json!({
        "name": "v4-81",
        "subnet": "172.81.0.0/16",
        "ips": ["172.81.0.100-172.81.0.120"],
        "gateway": "172.81.0.1"
    })
}

/// Returns the names of the RDMA devices that are visible in a namespace, sorted.
pub fn rdma_devices(place: &impl Observe) -> Vec<String> {
    let mut names: Vec<_> =
        place.rdma("dev show").iter().map(|dev| dev["ifname"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Returns the RoCE v2 GIDs of an RDMA device as IP addresses, with their links.
pub fn gids(device: &str) -> Vec<(String, String)> {
    let port = PathBuf::from(format!("/sys/class/infiniband/{device}/ports/1"));
    let read = |what: &str, index: usize| fs::read_to_string(port.join(what).join(index.to_string())).ok();
    (0..255)
        .filter(|index| read("gid_attrs/types", *index).is_some_and(|kind| kind.trim() == "RoCE v2"))
        .filter_map(|index| {
            let gid: std::net::Ipv6Addr = read("gids", index)?.trim().parse().ok()?;
            let address = gid.to_ipv4_mapped().map_or_else(|| gid.to_string(), |v4| v4.to_string());
            Some((address, read("gid_attrs/ndevs", index)?.trim().to_owned()))
        })
        .collect()
}

fn first(dir: &Path) -> String {
    names(dir).into_iter().next().unwrap_or_default()
}

/// Returns the names in a directory, sorted; empty if it does not exist.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
