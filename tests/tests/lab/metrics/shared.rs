//! Shared mode: pods use the node's devices. Attribution of objects and traffic to pods.

use std::fs;

use serde_json::json;
use silkrail_tests::{
    daemon::Daemon,
    kube_pod::KubePod,
    machine::LabMachine,
    rxe::{DEVICE, Rxe, RxeProgram, listens},
    scrape::Scrape,
};
use testkit::{Observe, wait_until};

use super::table;

const A: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";
const B: &str = "77777777-7b1f-4f0e-9d75-1f4f2bb1a2c3";

/// Opens the uverbs device and creates a context, as libibverbs does for a device with a provider; a simulated device has
/// none. Then it sleeps.
const OPEN: &str = r#"
    open(my $verbs, "+<", $ARGV[0]) or die "$ARGV[0]: $!";
    my $answer = "\0" x 64;
    my $command = pack("L S S Q", 0, 4, 2, unpack("Q", pack("p", $answer)));
    syswrite($verbs, $command) == length $command or die "make a context: $!";
    sleep 600;
"#;

pub(super) fn open(pod: &KubePod, device: &str) -> RxeProgram {
    let verbs = fs::read_dir(format!("/sys/class/infiniband/{device}/device/infiniband_verbs")).unwrap();
    let uverbs = verbs.flatten().next().unwrap().file_name().into_string().unwrap();
    pod.run("perl", &["-e", OPEN, &format!("/dev/infiniband/{uverbs}")])
}

pub(super) fn wait_for_context(machine: &LabMachine, device: &str, count: u64) {
    wait_until("the device is open", || {
        let all = machine.node.rdma("resource show");
        all.iter().any(|one| one["ifname"] == device && one["ctx"] == count)
    });
}

fn daemon(machine: &LabMachine) -> Daemon {
    Daemon::start(&["--state-dir", machine.node.state_dir().to_str().unwrap()])
}

pub(super) fn pci(pf: &str) -> String {
    let link = fs::read_link(format!("/sys/class/net/{pf}/device")).unwrap();
    link.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn every_counter_of_the_table_has_its_value_and_increments_of_the_sole_user() {
    let machine = LabMachine::shared();
    let (netns, pod) = (machine.node.pod("a"), KubePod::new("train", "shared-0", A));
    let call = machine.plugin("macvlan", &json!({"master": "eth0", "rdma": {"require": true}}));
    let call = call.pod(&netns).args(&pod.cni_args());
    call.add().ok();
    let _user = open(&pod, "mlx5_0");
    wait_for_context(&machine, "mlx5_0", 1);
    let pci = pci("eth0");
    let (first, second) = (table::rows(1_000_000), table::rows(5_000_000));
    let _first = table::set(&machine, &pci, &first);
    let daemon = daemon(&machine);
    daemon.scrape();
    let _second = table::set(&machine, &pci, &second);
    let scrape = daemon.scrape();
    for (row, before) in second.iter().zip(&first) {
        let mut labels = vec![("device", "mlx5_0"), ("port", "1")];
        labels.extend(row.priority.map(|priority| ("priority", priority)));
        let node = scrape.of(&format!("rdma_{}_total", row.metric), &labels);
        assert_eq!(node[0].value, row.value.to_string(), "{}", row.metric);
        assert_eq!(node[0].label("pod_name"), "", "the device belongs to the node");
        if table::TRAFFIC.contains(&row.metric) {
            continue; // metrics of a pod's traffic have the same names for all drivers
        }
        labels.extend(pod.labels());
        labels.push(("attribution", "sole-user"));
        let name = format!("rdma_pod_{}_total", row.metric);
        assert_eq!(scrape.value(&name, &labels), (row.value - before.value).to_string(), "{name}");
    }
    assert_eq!(scrape.value("rdma_vport_speed_mbps", &[("device", "mlx5_0")]), "1000");
    let attached = [&pod.labels()[..], &[("device", "mlx5_0"), ("mode", "shared")]].concat();
    assert_eq!(
        scrape.value("rdma_pod_attachment_info", &attached),
        "1",
        "the attachment of the pod to the device"
    );
    call.del().done();
}

#[test]
fn objects_of_a_pod_are_counted_as_by_the_rdma_tool() {
    let rxe = Rxe::new();
    let (a, b) = (KubePod::new("train", "a", A), KubePod::new("train", "b", B));
    let [_server, client] = pingpong(&rxe, &a, &b);
    let daemon = daemon(&rxe.machine);
    let scrape = daemon.scrape();
    let of_a = with(&a, &[("device", DEVICE)]);
    for (resource, kind) in [("qp", "qp"), ("cq", "cq"), ("pd", "pd"), ("mr", "mr"), ("ctx", "ctx")] {
        let printed = rxe.printed(kind);
        let own = printed.iter().filter(|object| object["pid"] == client.pid()).count();
        assert_eq!(own, 1, "{kind}: {printed:?}");
        assert_eq!(scrape.value("rdma_pod_resources", &[&of_a[..], &[("resource", resource)]].concat()), "1");
    }
    assert_eq!(
        scrape.value("rdma_pod_queue_pairs", &[&of_a[..], &[("type", "rc"), ("state", "rts")]].concat()),
        "1"
    );
    assert_eq!(scrape.value("rdma_pod_registered_memory_bytes", &of_a), "4096");
    assert_eq!(scrape.value("rdma_pod_resources", &with(&b, &[("device", DEVICE), ("resource", "qp")])), "1");
    assert_eq!(
        scrape.value("rdma_resources", &[("device", DEVICE), ("resource", "qp")]),
        "3",
        "including the one of the kernel"
    );
}

#[test]
fn traffic_is_attributed_to_the_sole_user_until_there_is_another() {
    let rxe = Rxe::new();
    let (a, b) = (KubePod::new("train", "a", A), KubePod::new("train", "b", B));
    let pair = pingpong(&rxe, &a, &a);
    let daemon = daemon(&rxe.machine);
    let labels = with(&a, &[("attribution", "sole-user")]);
    let alone = scrape_with_traffic(&daemon, &labels);
    let sent = alone.number("rdma_pod_transmit_packets_total", &labels);
    assert!(sent <= alone.number("rdma_port_transmit_packets_total", &[("device", DEVICE)]));

    let _other = pingpong_on(&rxe, &b, &b, "18600");
    let first = daemon.scrape();
    let of_both = with(&a, &[("attribution", "sole-user")]);
    let kept = first.number("rdma_pod_transmit_packets_total", &of_both);
    let total = |s: &Scrape| s.number("rdma_port_transmit_packets_total", &[("device", DEVICE)]);
    let mut second = daemon.scrape();
    wait_until("there was more traffic", || {
        second = daemon.scrape();
        total(&second) > total(&first)
    });
    assert_eq!(
        second.number("rdma_pod_transmit_packets_total", &of_both),
        kept,
        "the traffic cannot be attributed"
    );
    assert!(second.of("rdma_pod_transmit_packets_total", &b.labels()).is_empty());
    drop(pair);
}

#[test]
fn a_host_network_pod_is_attributed_and_a_node_process_is_not() {
    let rxe = Rxe::new();
    let a = KubePod::new("kube-system", "hostnetwork", A);
    let [server, _client] = pingpong_on(&rxe, &a, &a, "18515");
    let daemon = daemon(&rxe.machine);
    assert_eq!(daemon.scrape().number("rdma_pod_resources", &with(&a, &[("resource", "qp")])), 2.0);
    drop((server, _client));
    let [_server, _client] = rxe.pingpong("ibv_rc_pingpong", &[]);
    wait_until("both ends have a queue pair", || rxe.printed("qp").len() == 3);
    let scrape = daemon.scrape();
    assert!(scrape.of("rdma_pod_resources", &[("device", DEVICE)]).is_empty());
    assert_eq!(scrape.value("rdma_resources", &[("device", DEVICE), ("resource", "qp")]), "3");
}

#[test]
fn objects_of_an_ended_process_disappear_and_its_traffic_remains_attributed() {
    let rxe = Rxe::new();
    let a = KubePod::new("train", "a", A);
    let pair = pingpong(&rxe, &a, &a);
    let daemon = daemon(&rxe.machine);
    let sent =
        scrape_with_traffic(&daemon, &a.labels()).number("rdma_pod_transmit_packets_total", &a.labels());
    drop(pair);
    wait_until("the objects are gone", || rxe.printed("qp").len() == 1);
    let scrape = daemon.scrape();
    assert!(scrape.of("rdma_pod_resources", &a.labels()).is_empty());
    assert!(scrape.number("rdma_pod_transmit_packets_total", &a.labels()) >= sent);
}

#[test]
fn gids_of_macvlan_and_ipvlan_pods_are_attributed_to_them() {
    let machine = LabMachine::shared();
    let pods = [KubePod::new("train", "mac", A), KubePod::new("train", "ip", B)];
    let spaces = [machine.node.pod("mac"), machine.node.pod("ip")];
    for (index, (plugin, master)) in [("macvlan", "eth0"), ("ipvlan", "eth1")].into_iter().enumerate() {
        let settings = json!({"master": master, "rdma": {"require": true}});
        let call = machine.plugin(plugin, &settings).pod(&spaces[index]).args(&pods[index].cni_args());
        call.container(plugin).add().ok();
    }
    let scrape = daemon(&machine).scrape();
    for (pod, device) in pods.iter().zip(["mlx5_0", "mlx5_1"]) {
        let labels = [&pod.labels()[..], &[("device", device), ("port", "1")]].concat();
        let own = scrape.number("rdma_pod_gid_entries", &labels);
        assert!(own >= 1.0);
        assert!(
            own < scrape.number("rdma_port_gid_entries", &[("device", device)]),
            "GIDs of the host are not counted"
        );
        assert_eq!(scrape.value("rdma_port_gid_capacity", &[("device", device)]), "255");
        assert_eq!(scrape.value("rdma_resource_limit", &[("device", device), ("resource", "gid")]), "255");
    }
}

#[test]
fn the_rdma_cgroup_controller_is_read_where_it_is_enabled() {
    let rxe = Rxe::new();
    enable_rdma_cgroups();
    let a = KubePod::new("train", "a", A);
    let _pair = pingpong(&rxe, &a, &a);
    let scrape = daemon(&rxe.machine).scrape();
    let labels = with(&a, &[("device", DEVICE)]);
    assert_eq!(scrape.value("rdma_pod_cgroup_handles", &labels), "2");
    assert!(scrape.number("rdma_pod_cgroup_objects", &labels) >= 8.0, "PD, CQ, MR and QP, twice");
}

pub(super) fn enable_rdma_cgroups() {
    for dir in ["/sys/fs/cgroup", "/sys/fs/cgroup/kubepods.slice"] {
        fs::create_dir_all(dir).unwrap();
        fs::write(format!("{dir}/cgroup.subtree_control"), "+rdma").unwrap();
    }
}

pub(super) fn with<'a>(pod: &'a KubePod, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&pod.labels()[..], more].concat()
}

/// Returns the metrics after a pod's traffic has been counted.
fn scrape_with_traffic(daemon: &Daemon, labels: &[(&str, &str)]) -> Scrape {
    let mut last = daemon.scrape();
    wait_until("there was traffic", || {
        last = daemon.scrape();
        last.of("rdma_pod_transmit_packets_total", labels).iter().any(|sample| sample.value != "0")
    });
    last
}

/// Starts a ping-pong between two pods, and returns the programs of the server and the client.
pub(super) fn pingpong(rxe: &Rxe, client: &KubePod, server: &KubePod) -> [RxeProgram; 2] {
    pingpong_on(rxe, client, server, "18515")
}

pub(super) fn pingpong_on(rxe: &Rxe, client: &KubePod, server: &KubePod, port: &str) -> [RxeProgram; 2] {
    let gid = rxe.gid().unwrap().to_string();
    let common = ["-d", DEVICE, "-g", &gid, "-n", "100000000", "-p", port];
    let before = rxe.printed("qp").len();
    let server = server.run("ibv_rc_pingpong", &common);
    wait_until("the server listens", || listens(port.parse().unwrap()));
    let client = client.run("ibv_rc_pingpong", &[&common[..], &["127.0.0.1"]].concat());
    wait_until("both ends are connected", || {
        let all = rxe.printed("qp");
        all.len() == before + 2 && all.iter().filter(|qp| qp["state"] == "RTS").count() > before
    });
    [server, client]
}
