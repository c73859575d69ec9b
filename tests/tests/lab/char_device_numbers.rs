//! The numbers of `/dev/infiniband/{uverbs,umad}N`: a container gets the device nodes before its RDMA device is moved.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use testkit::{Observe, wait_until};

use silkrail_tests::{
    chain::Chain,
    cli,
    machine::{LabMachine, LabVf, PFS, SimulatedSetting, recreate_vfs},
    rxe::RxeProgram,
};

/// The file that a process locks while it moves an RDMA device.
const LOCK: &str = "/sys/bus/pci/drivers_probe";

/// Returns a machine whose RDMA devices have `uverbs` and `umad` devices.
fn machine() -> LabMachine {
    let machine = LabMachine::exclusive();
    machine.node.run("modprobe", &["ib_umad"]);
    assert!(machine.char_devices().values().all(|names| names.len() == 2), "{:?}", machine.char_devices());
    machine
}

/// Returns the character devices of a VF: `uverbs3`, `umad3`.
fn char_devices(machine: &LabMachine, vf: &LabVf) -> Vec<String> {
    machine.char_devices()[&vf.pci].clone()
}

fn exists(name: &str) -> bool {
    Path::new("/sys/class/infiniband_verbs").join(name).exists()
}

/// A VF without a driver; the driver is bound again when this value is dropped.
struct UnboundDriver<'a> {
    machine: &'a LabMachine,
    vf: LabVf,
}

impl<'a> UnboundDriver<'a> {
    fn from(machine: &'a LabMachine, vf: &LabVf) -> Self {
        fs::write("/sys/bus/pci/drivers/igbvf/unbind", &vf.pci).unwrap();
        Self { machine, vf: vf.clone() }
    }
}

impl Drop for UnboundDriver<'_> {
    fn drop(&mut self) {
        let _ = fs::write("/sys/bus/pci/drivers/igbvf/bind", &self.vf.pci);
        let vf = || self.machine.vf(self.vf.pf, self.vf.index);
        wait_until("the VF has its devices", || !vf().link.is_empty() && !vf().rdma.is_empty());
    }
}

#[test]
fn invariant_11_a_device_move_waits_for_the_lock() {
    let machine = machine();
    let before = machine.char_devices();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let ib_sriov = PathBuf::from("/var/run/cni/ib-sriov/cni.lock");
    fs::create_dir_all(ib_sriov.parent().unwrap()).unwrap();
    File::create(&ib_sriov).unwrap();
    for lock in [Path::new(LOCK), &ib_sriov] {
        let held = File::options().write(true).open(lock).unwrap();
        held.lock().unwrap();
        let rdma = chain.rdma().with("prevResult", &result);
        for verb in ["ADD", "DEL"] {
            thread::scope(|scope| {
                let call = scope.spawn(|| rdma.verb(verb));
                thread::sleep(Duration::from_millis(700));
                assert!(!call.is_finished(), "{verb} did not wait for {}", lock.display());
                assert_eq!(machine.vf("eth0", 0).rdma.is_empty(), verb == "DEL", "the move did not wait");
                held.unlock().unwrap();
                assert!(call.join().unwrap().status.success());
                held.lock().unwrap();
            });
        }
    }
    fs::remove_dir_all("/var/run/cni").unwrap();
    chain.del();
    assert_eq!(machine.char_devices(), before);
}

#[test]
fn a_device_that_is_renamed_while_its_move_waits_for_the_lock_is_moved_under_its_new_name() {
    let machine = machine();
    let before = machine.char_devices();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let former = machine.vf("eth0", 0).rdma;
    let held = File::options().write(true).open(LOCK).unwrap();
    held.lock().unwrap();
    let rdma = chain.rdma().with("prevResult", &result);
    thread::scope(|scope| {
        let call = scope.spawn(|| rdma.add());
        thread::sleep(Duration::from_millis(700));
        // As a rule of udev does (rdma_rename).
        machine.node.run("rdma", &["dev", "set", &former, "name", "renamed"]);
        held.unlock().unwrap();
        call.join().unwrap().ok();
    });
    let journal = machine.node.state_dir().join("attachments/pod-eth0-0@net1.rdma.journal");
    let journal = fs::read_to_string(journal).unwrap();
    assert!(journal.contains("\"renamed\"") && journal.contains("uverbs"), "{journal}");
    chain.del();
    assert_eq!(machine.vf("eth0", 0).rdma, "renamed");
    machine.node.run("rdma", &["dev", "set", "renamed", "name", &former]);
    assert_eq!(machine.char_devices(), before);
}

#[test]
fn an_unprivileged_user_cannot_block_device_moves() {
    let machine = machine();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"];
    // The command of conf/README.md.
    let line = format!("(flock --nonblock 9) 9>>{LOCK}");
    assert!(
        !machine.node.command("setpriv").args(user).args(["sh", "-c", &line]).status().unwrap().success()
    );
    machine.node.run("sh", &["-c", &line]);
    let mut setpriv = machine.node.command("setpriv");
    let mut holder =
        setpriv.args(user).args(["flock", "/sys/class/infiniband", "sleep", "60"]).spawn().unwrap();
    let is_held = || File::open("/sys/class/infiniband").unwrap().try_lock().is_err();
    wait_until("the user has locked the directory", is_held);
    let (add, del) = (chain.rdma().with("prevResult", &result).add(), chain.rdma().del());
    assert!(is_held(), "the user still holds the lock");
    holder.kill().unwrap();
    holder.wait().unwrap();
    for answer in [&add, &del] {
        assert!(answer.status.success() && answer.stderr.contains("/sys/class/infiniband"), "{answer:?}");
    }
    chain.del();
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn invariant_11_a_device_move_waits_for_devices_that_the_kernel_is_returning() {
    let machine = machine();
    let before = machine.char_devices();
    let vfs = [2, 3, 0].map(|index| machine.vf("eth0", index));
    let pods = ["a", "b", "c"].map(|name| machine.node.pod(name));
    let chains: Vec<_> =
        vfs.iter().zip(&pods).map(|(vf, pod)| Chain::new(&machine, vf, pod, json!({}))).collect();
    chains.iter().for_each(|chain| drop(chain.add()));
    let _slow = vfs.each_ref().map(|vf| machine.simulate(&vf.pci, "slow_enable_ms", "1500"));
    let [a, b, c] = pods;
    drop((a, b));
    let has_none = |vf: &LabVf| char_devices(&machine, vf).is_empty();
    wait_until("one of the devices has released its numbers", || vfs[..2].iter().any(has_none));
    chains[2].del();
    assert_eq!(machine.char_devices(), before, "the device was moved while the kernel returned another");
    drop(c);
    chains[..2].iter().for_each(Chain::del);
    assert_eq!(machine.char_devices(), before);
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn invariant_11_a_device_that_would_lose_its_numbers_is_not_moved() {
    let machine = machine();
    let before = machine.char_devices();
    let (lower, vf, pod) = (machine.vf("eth0", 1), machine.vf("eth0", 3), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let unbound = UnboundDriver::from(&machine, &lower);
    let refusal = chain.rdma().with("prevResult", &result).add().error(100);
    refusal.says(&[&vf.rdma, &before[&vf.pci][0], &before[&lower.pci][0], "lowest numbers that are free"]);
    assert!(refusal.details.contains("bind it again"), "{refusal:?}");
    assert_eq!(
        (machine.vf("eth0", 3).rdma, char_devices(&machine, &vf)),
        (vf.rdma.clone(), before[&vf.pci].clone())
    );
    drop(unbound);
    chain.rdma().with("prevResult", &result).add().ok();
    assert_eq!(machine.char_devices(), before);
    chain.del();
    assert_eq!(machine.char_devices(), before);
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn a_gap_that_stays_is_closed_by_free_vfs_so_that_others_keep_their_numbers() {
    let machine = machine();
    let before = machine.char_devices();
    let (lower, vf, pod) = (machine.vf("eth0", 1), machine.vf("eth0", 3), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    fs::write("/sys/bus/pci/drivers/igbvf/unbind", &lower.pci).unwrap();
    let rdma = chain.rdma().with("prevResult", &result);
    rdma.add().error(100).says(&["lowest numbers that are free"]);
    let renumber = |more: &str| {
        let state = machine.node.state_dir();
        let args = format!("vf renumber --json --state-dir {} {more}", state.display());
        cli::silkrail(&args).ended(0).json()
    };
    let planned = renumber("--dry-run");
    let to: BTreeSet<_> = planned[0]["to"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(to, before[&lower.pci].iter().map(String::as_str).collect(), "{planned}");
    assert_eq!(renumber("--yes"), planned);
    assert_eq!(char_devices(&machine, &vf), before[&vf.pci], "the VF of the pod has a claim");
    rdma.add().ok();
    assert_eq!(char_devices(&machine, &vf), before[&vf.pci]);
    chain.del();
    assert_eq!((char_devices(&machine, &vf), renumber("--yes")), (before[&vf.pci].clone(), json!([])));
    recreate_vfs(&PFS);
}

/// Two processes that read the counters of a slow device in turn, until it leaves the host. One reads when it does: the move ends only
/// after that read, and until then the device has released its numbers and has no new ones.
struct CounterReaders {
    slow: SimulatedSetting,
    _programs: [RxeProgram; 2],
}

impl CounterReaders {
    fn start(machine: &LabMachine, vf: &LabVf) -> Self {
        // Between two reads, ADD reads which optional counters are on.
        let slow = machine.simulate(&vf.pci, "slow_stats_ms", "2000");
        let read = format!("while rdma statistic show link {}/1; do :; done", vf.rdma);
        Self { slow, _programs: [(); 2].map(|()| RxeProgram::start("sh", &["-c", &read])) }
    }

    /// Waits until the device has released its numbers, and makes the move wait for `work`.
    fn during_move(&self, uverbs: &str, work: impl FnOnce()) {
        wait_until("the device has released its numbers", || !exists(uverbs));
        self.slow.set("60000");
        work();
        self.slow.set("0");
    }
}

#[test]
fn invariant_11_numbers_taken_by_another_device_fail_the_add_and_are_restored_once_free() {
    let machine = machine();
    machine.node.run("modprobe", &["rdma_rxe"]);
    let before = machine.char_devices();
    let (vf, pod) = (machine.vf("eth0", 2), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let rdma = chain.rdma().with("prevResult", &result);
    let uverbs = before[&vf.pci].iter().find(|name| name.starts_with("uverbs")).unwrap();

    let readers = CounterReaders::start(&machine, &vf);
    let answer = thread::scope(|scope| {
        let add = scope.spawn(|| rdma.add());
        readers.during_move(uverbs, || {
            machine.node.run("rdma", &["link", "add", "rxe0", "type", "rxe", "netdev", "eth1"]);
        });
        add.join().unwrap()
    });
    drop(readers);
    let refusal = answer.error(100);
    refusal.says(&[&vf.rdma, "and had", uverbs]);
    assert!(refusal.details.contains("restart the device plugin"), "{refusal:?}");
    assert_eq!(machine.vf("eth0", 2).rdma, vf.rdma, "the device is on the host");
    assert_ne!(char_devices(&machine, &vf), before[&vf.pci]);

    // The device plugin has allocated the former numbers.
    rdma.add().error(100).says(&[&vf.rdma, "and had", uverbs]);
    assert_eq!(machine.vf("eth0", 2).rdma, vf.rdma, "the device was not moved");
    machine.node.run("rdma", &["link", "delete", "rxe0"]);
    rdma.add().ok();
    assert_eq!(machine.char_devices(), before, "the numbers were restored");
    chain.del();
    assert_eq!(machine.char_devices(), before);
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn invariant_11_changed_numbers_are_reported_by_check_and_del_and_fail_the_next_add() {
    let machine = machine();
    let (lower, vf, pod) = (machine.vf("eth1", 0), machine.vf("eth1", 4), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.add();
    chain.check(&result);
    let before = char_devices(&machine, &vf);
    let unbound = UnboundDriver::from(&machine, &lower);
    // `rdma` accepts only names of namespaces. It does not take the lock.
    machine.node.run_ip("netns attach host 1");
    std::os::unix::fs::symlink(pod.path(), "/run/netns/pod").unwrap();
    pod.run("rdma", &["dev", "set", &vf.rdma, "netns", "host"]);
    machine.node.run("rdma", &["dev", "set", &vf.rdma, "netns", "pod"]);
    machine.node.run_ip("netns delete host");
    fs::remove_file("/run/netns/pod").unwrap();
    drop(unbound);
    assert_ne!(char_devices(&machine, &vf), before);

    chain.rdma().check_after(&result).error(103).says(&[&vf.rdma, &before[0]]);
    let answer = chain.rdma().del();
    assert!(answer.status.success() && answer.stderr.contains("other numbers than before"), "{answer:?}");
    let again = chain.rdma().with("prevResult", &result).add().error(100);
    again.says(&[&vf.rdma, &before[0]]);
    assert!(again.details.contains("renumbered"), "{again:?}");
    // The remedy: the VFs are created again, which gives them new numbers.
    chain.del();
    // They have consecutive numbers again.
    recreate_vfs(&PFS);
    let pod = machine.node.pod("b");
    let chain = Chain::new(&machine, &machine.vf("eth1", 4), &pod, json!({}));
    chain.add();
    chain.del();
}

#[test]
fn the_pod_map_records_the_device_numbers_of_a_pod() {
    let machine = machine();
    let (vf, pod) = (machine.vf("eth0", 5), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    let map = machine.node.state_dir().join("podmap/v1");
    let entry = fs::read_dir(map).unwrap().next().unwrap().unwrap().path();
    let entry: Value = serde_json::from_str(&fs::read_to_string(entry).unwrap()).unwrap();
    let recorded: Vec<String> = serde_json::from_value(entry["rdma"]["charDevices"].clone()).unwrap();
    let mut expected = char_devices(&machine, &vf);
    expected.sort();
    assert_eq!(recorded, expected);
    chain.del();
}

#[test]
fn an_infiniband_device_is_refused_with_the_reason() {
    let machine = machine();
    let (vf, pod) = (machine.vf("eth0", 6), machine.node.pod("a"));
    let _infiniband = machine.simulate(&vf.pci, "infiniband", "Y");
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let refusal = chain.rdma().with("prevResult", &result).add().error(7);
    refusal.says(&[&vf.rdma, "InfiniBand", "IPoIB"]);
    assert!(refusal.details.contains("ib-sriov"), "{refusal:?}");
    assert_eq!(machine.vf("eth0", 6).rdma, vf.rdma);
    assert!(pod.link("net1").is_some());
    chain.del();
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn invariant_11_loading_or_unloading_a_module_during_an_attachment_changes_no_number() {
    let machine = machine();
    let (vf, pod) = (machine.vf("eth1", 3), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    for change in [["ib_umad"].as_slice(), &["-r", "ib_umad"], &["ib_umad"]] {
        // The state before the change.
        let undo: &[&str] = if change.len() == 1 { &["-r", "ib_umad"] } else { &["ib_umad"] };
        machine.node.run("modprobe", undo);
        let result = chain.sriov().add().ok();
        let rdma = chain.rdma().with("prevResult", &result);
        rdma.add().ok();
        machine.node.run("modprobe", change);
        rdma.check().done();
        // A wait in vain sleeps 2 ms at a time, for two seconds.
        let file = "/run/sleeps";
        rdma.clone().under(&["strace", "-f", "-qq", "-etrace=clock_nanosleep", "-o", file]).del().done();
        let sleeps = fs::read_to_string(file).unwrap().lines().count();
        assert!(sleeps < 20, "DEL waited: it slept {sleeps} times");
        chain.del();
        assert!(machine.node.snapshot().state().is_empty(), "{:?}", machine.node.snapshot().state());
    }
}

#[test]
fn a_move_that_takes_longer_than_the_netlink_timeout_succeeds() {
    let machine = machine();
    let before = machine.char_devices();
    let (vf, pod) = (machine.vf("eth1", 4), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let uverbs = before[&vf.pci].iter().find(|name| name.starts_with("uverbs")).unwrap();
    let readers = CounterReaders::start(&machine, &vf);
    thread::scope(|scope| {
        let add = scope.spawn(|| chain.rdma().with("prevResult", &result).add());
        readers.during_move(uverbs, || {
            thread::sleep(Duration::from_secs(16));
            assert!(!add.is_finished(), "the move did not wait");
        });
        add.join().unwrap().ok();
    });
    drop(readers);
    chain.del();
    assert_eq!(machine.char_devices(), before);
}

#[test]
fn invariant_9_a_pod_that_requires_rdma_waits_for_its_port_and_its_gids() {
    let machine = machine();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 1), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let slow = machine.simulate(&vf.pci, "gid_delay_ms", "1500");
    let require = json!({"require": true, "timeoutMs": 20000});
    let rdma = chain.rdma().with("prevResult", &result).with("rdma", &require);
    rdma.add().ok();
    drop(slow);
    // When ADD returns, the port is active and the GIDs exist.
    let ports = pod.rdma("link show");
    assert_eq!(ports[0]["state"], "ACTIVE", "{ports:?}");
    assert!(pod_gids(&pod, &vf).contains(&"0000:0000:0000:0000:0000:ffff:ac51:0064".to_owned()));
    chain.del();
    drop(pod);
    wait_until("the node is in its former state", || machine.node.snapshot().difference(&before).is_empty());
}

#[test]
fn invariant_9_a_pod_that_requires_rdma_does_not_start_without_an_active_port_or_its_gid() {
    let machine = machine();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 2), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let require = |ms: u32| json!({"require": true, "timeoutMs": ms});
    let on_host = || machine.vf("eth1", 2).rdma == vf.rdma;
    {
        // Set before the addresses are added: the kernel creates their GIDs immediately, in any namespace of the device.
        let _refuse = machine.simulate(&vf.pci, "gid_refuse", "Y");
        let result = chain.sriov().add().ok();
        let rdma = chain.rdma().with("prevResult", &result).with("rdma", &require(2000));
        let refusal = rdma.add().error(100);
        refusal.says(&["172.81.0.100", &vf.rdma, "GID", "within 2"]);
        assert!(refusal.details.contains("rdma.require") && on_host(), "{refusal:?}");
        chain.del();
    }
    let result = chain.sriov().add().ok();
    pod.run("ip", &["link", "set", "net1", "down"]);
    let rdma = chain.rdma().with("prevResult", &result);
    let refusal = rdma.with("rdma", &require(500)).add().error(100);
    refusal.says(&["no port of RDMA device", &vf.rdma, "became active"]);
    assert!(on_host());
    // Without rdma.require, ADD does not wait for the port.
    rdma.add().ok();
    chain.del();
    drop(pod);
    wait_until("the node is in its former state", || machine.node.snapshot().difference(&before).is_empty());
}

/// Returns the GIDs of an RDMA device in a pod's namespace.
fn pod_gids(pod: &testkit::TestPod, vf: &LabVf) -> Vec<String> {
    let read = format!("mount -t sysfs none /mnt && cat /mnt/class/infiniband/{}/ports/1/gids/*", vf.rdma);
    let netns = format!("--net={}", pod.path().display());
    let output =
        std::process::Command::new("nsenter").args([&netns, "unshare", "-m", "sh", "-c", &read]).output();
    String::from_utf8(output.unwrap().stdout).unwrap().lines().map(str::to_owned).collect()
}
