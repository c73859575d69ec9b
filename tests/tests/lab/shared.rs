//! Shared mode: the kernel adds a pod's address to the GIDs of its parent's RDMA device.

use std::{fs, time::Instant};

use serde_json::{Value, json};
use testkit::{Answer, Call, Observe, TestNode, TestPod};

use silkrail_tests::machine::{LabMachine, gids, rdma_devices};

const REQUIRE: fn() -> Value = || json!({"require": true, "timeoutMs": 5000});

/// Returns the PCI address of a PF.
fn function(pf: &str) -> String {
    let link = fs::read_link(format!("/sys/class/net/{pf}/device")).unwrap();
    link.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Returns the pod map entry of the only attachment.
fn entry(node: &TestNode) -> Value {
    let dir = node.state_dir().join("podmap/v1");
    let files: Vec<_> = fs::read_dir(dir).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    serde_json::from_slice(&fs::read(files[0].path()).unwrap()).unwrap()
}

/// Checks that the pod's address is a GID when an ADD that requires RDMA returns.
fn address_is_a_gid(plugin: &str, master: &str, device: &str) {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let call = machine.plugin(plugin, &json!({"master": master, "rdma": REQUIRE()})).pod(&pod);
    let result = call.add().ok();
    assert_eq!(result["ips"][0]["address"], "172.81.0.100/16");
    let found = gids(device);
    assert!(found.contains(&("172.81.0.100".into(), "net1".into())), "{found:?}");
    assert_eq!(rdma_devices(&pod), machine.rdma_devices(), "a pod sees every device of the node");
    let entry = entry(&machine.node);
    assert_eq!(entry["rdma"]["mode"], "shared");
    assert_eq!(entry["rdma"]["ibdev"], device);
    assert_eq!(entry["rdma"]["gids"][0]["gid"], "::ffff:172.81.0.100");
    call.check_after(&result).done();
    call.del().done();
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn a_macvlan_pods_address_is_a_gid() {
    address_is_a_gid("macvlan", "eth0", "mlx5_0");
}

#[test]
fn an_ipvlan_pods_address_is_a_gid() {
    address_is_a_gid("ipvlan", "eth1", "mlx5_1");
}

#[test]
fn on_a_vlan_the_gid_belongs_to_the_physical_device() {
    let ip = |args: &str| {
        let status = std::process::Command::new("ip").args(args.split(' ')).status().unwrap();
        assert!(status.success(), "ip {args}");
    };
    ip("link add link eth0 name eth0.100 type vlan id 100");
    ip("link set eth0 up");
    ip("link set eth0.100 up");
    address_is_a_gid("macvlan", "eth0.100", "mlx5_0");
    ip("link del eth0.100");
}

#[test]
fn on_a_bond_the_gid_belongs_to_the_active_member() {
    let ip = |args: &str| {
        let status = std::process::Command::new("ip").args(args.split(' ')).status().unwrap();
        assert!(status.success(), "ip {args}");
    };
    ip("link add bond0 type bond mode active-backup miimon 100");
    ip("link set eth1 down");
    ip("link set eth1 master bond0");
    ip("link set bond0 up");
    testkit::wait_until("the bond has a carrier", || {
        fs::read_to_string("/sys/class/net/bond0/operstate").unwrap().trim() == "up"
    });
    address_is_a_gid("macvlan", "bond0", "mlx5_1");
    ip("link del bond0");
    ip("link set eth1 up");
}

#[test]
fn ipv4_and_ipv6_addresses_are_gids() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let pools = json!([
        {"name": "four", "subnet": "172.81.0.0/16", "ips": ["172.81.0.100-172.81.0.120"]},
        {"name": "six", "subnet": "fd00:81::/64", "ips": ["fd00:81::100-fd00:81::120"]}
    ]);
    let conf = json!({
        "master": "eth0", "rdma": REQUIRE(), "ipam": {"type": "silkrail-ipam", "pools": pools}
    });
    let call = machine.plugin("macvlan", &conf).pod(&pod);
    call.add().ok();
    let found: Vec<_> = gids("mlx5_0").into_iter().map(|(address, _)| address).collect();
    for address in ["172.81.0.100", "fd00:81::100"] {
        assert!(found.iter().any(|gid| gid == address), "{address} is missing: {found:?}");
    }
    call.del().done();
}

#[test]
fn invariant_9_add_waits_for_a_delayed_gid() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let _late = machine.simulate(&function("eth0"), "gid_delay_ms", "700");
    let call = machine.plugin("macvlan", &json!({"master": "eth0", "rdma": REQUIRE()})).pod(&pod);
    let started = Instant::now();
    call.add().ok();
    assert!(started.elapsed().as_millis() >= 500, "ADD did not wait: {:?}", started.elapsed());
    assert!(gids("mlx5_0").iter().any(|(address, _)| address == "172.81.0.100"));
    call.del().done();
}

#[test]
fn invariant_9_a_missing_gid_fails_the_add_and_leaves_nothing() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let before = machine.node.snapshot();
    {
        let _refuse = machine.simulate(&function("eth0"), "gid_refuse", "Y");
        let rdma = json!({"require": true, "timeoutMs": 600});
        let call = machine.plugin("macvlan", &json!({"master": "eth0", "rdma": rdma})).pod(&pod);
        let refusal = call.add().error(100);
        refusal.says(&["172.81.0.100", "did not become a RoCE v2 GID", "mlx5_0", "eth0"]);
        assert!(refusal.details.contains("rdma.require"), "{refusal:?}");
    }
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_8_the_wait_for_a_gid_counts_towards_the_time_limit_of_the_call() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let before = machine.node.snapshot();
    {
        let _refuse = machine.simulate(&function("eth0"), "gid_refuse", "Y");
        let rdma = json!({"require": true, "timeoutMs": 20000});
        let call = machine.plugin("macvlan", &json!({"master": "eth0", "rdma": rdma})).pod(&pod);
        let refusal = call.env("SILKRAIL_BUDGET", "1500:8000").add().error(100);
        refusal.says(&["172.81.0.100", "did not become a RoCE v2 GID", "within "]);
        assert!(refusal.details.contains("the 1.5 s that an ADD may wait are used up"), "{refusal:?}");
    }
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_9_without_an_rdma_device_a_pod_that_requires_one_does_not_start() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    machine.node.run_ip("link add plain type dummy");
    machine.node.run_ip("link set plain up");
    let before = machine.node.snapshot();
    let conf = |rdma: Value| machine.plugin("macvlan", &json!({"master": "plain", "rdma": rdma})).pod(&pod);
    conf(REQUIRE()).add().error(100).says(&["no RDMA device", "plain"]);
    machine.node.snapshot().assert_is(&before);
    conf(REQUIRE()).status().error(50).says(&["no RDMA device", "plain"]);
    conf(json!({})).add().ok();
    conf(json!({})).del().done();
    machine.node.run_ip("link del plain");
}

#[test]
fn invariant_9_in_exclusive_mode_a_pod_that_requires_rdma_does_not_start() {
    let machine = LabMachine::exclusive();
    let pod = machine.node.pod("a");
    let before = machine.node.snapshot();
    let conf = |rdma: Value| machine.plugin("macvlan", &json!({"master": "eth0", "rdma": rdma})).pod(&pod);
    conf(REQUIRE()).add().error(100).says(&["exclusive RDMA mode", "silkrail mode set shared"]);
    machine.node.snapshot().assert_is(&before);
    conf(json!({})).add().ok();
    conf(json!({})).del().done();
}

#[test]
fn two_macvlan_pods_reach_each_other() {
    let machine = LabMachine::shared();
    let pods: Vec<TestPod> = ["a", "b"].map(|name| machine.node.pod(name)).into();
    let calls: Vec<_> = pods
        .iter()
        .zip(["one", "two"])
        .map(|(pod, id)| {
            machine.plugin("macvlan", &json!({"master": "eth0", "rdma": REQUIRE()})).pod(pod).container(id)
        })
        .collect();
    for call in &calls {
        call.add().ok();
    }
    pods[0].run("busybox", &["ping", "-c", "1", "-W", "5", "172.81.0.101"]);
    pods[1].run("busybox", &["ping", "-c", "1", "-W", "5", "172.81.0.100"]);
    for call in &calls {
        call.del().done();
    }
}

/// Returns the names of the system calls of an ADD that open files, use netlink or sleep, as recorded by strace.
fn system_calls(call: &Call, add: impl FnOnce(&Call) -> Answer) -> Vec<String> {
    let file = "/run/system-calls";
    let calls = "-etrace=openat,readlink,readlinkat,statx,socket,sendto,recvfrom,clock_nanosleep";
    add(&call.clone().under(&["strace", "-f", "-qq", calls, "-o", file])).ok();
    let text = fs::read_to_string(file).unwrap();
    // Without the PID and the arguments, which differ between ADDs.
    let name = |line: &str| line.split_once(' ').unwrap().1.trim().split('(').next().unwrap().to_owned();
    text.lines().map(name).collect()
}

fn sleeps(calls: &[String]) -> usize {
    calls.iter().filter(|call| call.contains("nanosleep")).count()
}

#[test]
fn with_link_in_container_no_device_of_the_node_is_attributed_to_the_pod() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    // A link in the pod has the name and the index of a link on the host with an RDMA device.
    let index = machine.node.link("eth0").unwrap()["ifindex"].clone();
    pod.run_ip(&format!("link add eth0 index {index} type dummy"));
    pod.run_ip("link set eth0 up");
    let conf = json!({"master": "eth0", "linkInContainer": true});
    let call = machine.plugin("macvlan", &conf).pod(&pod);
    let calls = system_calls(&call, Call::add);
    assert_eq!(entry(&machine.node)["rdma"]["ibdev"], Value::Null);
    assert_eq!(sleeps(&calls), 0, "ADD waited for a GID that cannot appear");
    call.del().done();
}

/// A bind mount over a file or directory of sysfs, for as long as this value lives.
struct SysfsOverride<'a> {
    machine: &'a LabMachine,
    path: String,
}

impl<'a> SysfsOverride<'a> {
    fn new(machine: &'a LabMachine, path: &str, with: &str) -> Self {
        machine.node.run("mount", &["--bind", with, path]);
        Self { machine, path: path.to_owned() }
    }
}

impl Drop for SysfsOverride<'_> {
    fn drop(&mut self) {
        self.machine.node.run("umount", &[&self.path]);
    }
}

/// Checks that an ADD does not wait for a GID, and is refused immediately for `reason` if a GID is required.
fn check_no_wait_for_gid(machine: &LabMachine, reason: &str) {
    let pod = machine.node.pod("a");
    let _refuse = machine.simulate(&function("eth0"), "gid_refuse", "Y");
    let call = |rdma: Value| machine.plugin("macvlan", &json!({"master": "eth0", "rdma": rdma})).pod(&pod);
    let calls = system_calls(&call(json!({})), Call::add);
    assert_eq!(entry(&machine.node)["rdma"]["ibdev"], "mlx5_0");
    assert_eq!(sleeps(&calls), 0, "ADD waited for a GID that cannot appear");
    call(json!({})).del().done();
    let refusal = call(json!({"require": true, "timeoutMs": 60000})).add().error(100);
    refusal.says(&["mlx5_0", "cannot become a RoCE v2 GID", reason]);
}

#[test]
fn without_roce_v2_add_does_not_wait_for_a_gid_and_refuses_a_required_one() {
    let machine = LabMachine::shared();
    let (types, kind) = ("/run/types", "/run/node_type");
    fs::create_dir_all(types).unwrap();
    for index in 0..256 {
        fs::write(format!("{types}/{index}"), "IB/RoCE v1\n").unwrap();
    }
    fs::write(kind, "4: RNIC\n").unwrap();
    let device = "/sys/class/infiniband/mlx5_0";
    let _types = SysfsOverride::new(&machine, &format!("{device}/ports/1/gid_attrs/types"), types);
    check_no_wait_for_gid(&machine, "version 1 of RoCE");
    let _kind = SysfsOverride::new(&machine, &format!("{device}/node_type"), kind);
    check_no_wait_for_gid(&machine, "iWARP");
}

#[test]
fn the_cost_of_an_add_does_not_grow_with_rdma_ports_and_links() {
    let measure = |machine: &LabMachine| {
        ["plain", "eth0", "bond0"].map(|master| {
            let pod = machine.node.pod("a");
            // Above all indexes of the host, so that the search for a free index costs the same.
            pod.run_ip("link add eth0 index 100000 type dummy");
            let call = machine.plugin("macvlan", &json!({"master": master})).pod(&pod);
            let calls = system_calls(&call, Call::add);
            call.del().done();
            calls
        })
    };
    let add_links = |machine: &LabMachine| {
        machine.node.run_ip("link add plain type dummy");
        machine.node.run_ip("link add bond0 type bond mode active-backup miimon 100");
        machine.node.run_ip("link set eth1 down");
        machine.node.run_ip("link set eth1 master bond0");
        for link in ["plain", "bond0"] {
            machine.node.run_ip(&format!("link set {link} up"));
        }
        testkit::wait_until("the bond has a carrier", || {
            fs::read_to_string("/sys/class/net/bond0/operstate").unwrap().trim() == "up"
        });
    };
    let remove_links = |machine: &LabMachine| {
        machine.node.run_ip("link del bond0");
        machine.node.run_ip("link del plain");
        machine.node.run_ip("link set eth1 up");
    };
    let few = {
        let machine = LabMachine::bare();
        add_links(&machine);
        let few = measure(&machine);
        remove_links(&machine);
        few
    };
    let machine = LabMachine::shared();
    let batch = machine.node.state_dir().with_file_name("links");
    let links = (0..200).map(|number| format!("link add other{number} group 7 type dummy\n"));
    fs::write(&batch, links.collect::<String>()).unwrap();
    machine.node.run_ip(&format!("-batch {}", batch.display()));
    add_links(&machine);
    let many = measure(&machine);
    remove_links(&machine);
    machine.node.run_ip("link del group 7");
    let counts = |calls: &[Vec<String>; 3]| calls.each_ref().map(Vec::len);
    // The wait for the GID may read the GIDs once more or less.
    for (few, many) in counts(&few).into_iter().zip(counts(&many)) {
        assert!(many <= few + few / 10, "from {few} to {many}");
    }
    assert_eq!(counts(&few)[0], counts(&many)[0], "a master without RDMA");
}
