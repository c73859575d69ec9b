//! Exclusive mode: a VF's network device and its RDMA device are in a pod.

use serde_json::json;
use silkrail_tests::{chain::Chain, daemon::Daemon, kube_pod::KubePod, machine::LabMachine, scrape::Scrape};
use testkit::{TestPod, wait_until};

use super::table;

const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

/// A pod with a VF.
pub(super) struct Attached {
    chain: Chain,
    pub(super) device: String,
    pub(super) pci: String,
    pub(super) pod: KubePod,
    netns: TestPod,
}

pub(super) fn attach(machine: &LabMachine, index: usize, name: &str) -> Attached {
    let (vf, netns) = (machine.vf("eth0", index), machine.node.pod(name));
    let uid = UID.replace("0c9a5e3c", &format!("0c9a5e3{index}"));
    let pod = KubePod::new("train", name, &uid);
    let chain = Chain::new(machine, &vf, &netns, json!({})).args(&pod.cni_args());
    chain.add();
    Attached { chain, device: vf.rdma, pci: vf.pci, pod, netns }
}

fn daemon(machine: &LabMachine, more: &[&str]) -> Daemon {
    let state = machine.node.state_dir();
    Daemon::start(&[&["--state-dir", state.to_str().unwrap()], more].concat())
}

#[test]
fn every_counter_of_the_table_has_its_value_and_the_labels_of_its_pod() {
    let machine = LabMachine::exclusive();
    let (a, b) = (attach(&machine, 0, "job-0"), attach(&machine, 1, "job-1"));
    let (rows_a, rows_b) = (table::rows(1_000_000), table::rows(2_000_000));
    let _set = (table::set(&machine, &a.pci, &rows_a), table::set(&machine, &b.pci, &rows_b));
    let _speed = machine.simulate(&a.pci, "speed_mbps", "400000");
    let daemon = daemon(&machine, &[]);
    // A VF's driver looks for the carrier every two seconds; until then the link has no speed.
    let has_speed =
        |scrape: &Scrape| !scrape.of("rdma_vport_speed_mbps", &[("device", &a.device)]).is_empty();
    wait_until("the link has a carrier", || has_speed(&daemon.scrape()));
    let scrape = daemon.scrape();
    for (attached, rows) in [(&a, &rows_a), (&b, &rows_b)] {
        for row in rows {
            let name = format!("rdma_{}_total", row.metric);
            let mut labels = vec![("device", attached.device.as_str()), ("port", "1"), ("node", "lab")];
            labels.extend(row.priority.map(|priority| ("priority", priority)));
            assert_eq!(scrape.value(&name, &labels), row.value.to_string(), "{name}");
            assert_eq!(
                scrape.of(&name, &labels)[0].label("pod_name"),
                "",
                "{name}: the pod is in one series only"
            );
        }
        let owner = [&attached.pod.labels()[..], &[("owner", "pod")]].concat();
        let owned = scrape.of("rdma_device_owner_info", &owner);
        assert_eq!(
            (owned.len(), owned[0].label("device")),
            (1, attached.device.as_str()),
            "only its own device"
        );
    }
    let of_a = [("device", a.device.as_str())];
    assert_eq!(scrape.value("rdma_vport_speed_mbps", &of_a), "400000");
    assert_eq!(scrape.value("rdma_port_speed_bytes_per_second", &of_a), "50000000000");
    let info = scrape.of("rdma_port_info", &of_a);
    assert_eq!((info[0].label("netns"), info[0].label("netdev")), ("pod", "net1"));
    assert_eq!(scrape.value("rdma_netns_mode", &[("mode", "exclusive")]), "1");
    let info = scrape.of("rdma_device_info", &of_a);
    assert_eq!((info[0].label("is_vf"), info[0].label("pf_device")), ("true", "mlx5_0"));
    assert_eq!(info[0].label("pci_address"), a.pci);
    assert_eq!(scrape.value("rdma_pod_info", &[("pod_uid", &a.pod.uid)]), "1");
    assert!(
        scrape.of("rdma_scrape_collector_success", &[]).iter().all(|s| s.value == "1"),
        "{}",
        daemon.log()
    );
    // The next test would have to create the VFs again.
    [a, b].iter().for_each(|attached| attached.chain.del());
}

#[test]
fn pod_counters_start_at_the_first_scrape_and_remain_until_the_pod_is_gone() {
    let machine = LabMachine::exclusive();
    let a = attach(&machine, 0, "job-0");
    let counter = |value: &str| machine.simulate(&a.pci, "counters/out_of_sequence", value);
    let words = |value: &str| machine.simulate(&a.pci, "port_counters/port_xmit_data", value);
    let _before = (counter("500"), words("500"));
    let daemon = daemon(&machine, &[]);
    let labels = [("pod_namespace", "train"), ("pod_name", "job-0"), ("attribution", "exclusive-netns")];
    let first = daemon.scrape();
    assert_eq!(first.value("rdma_pod_out_of_sequence_total", &labels), "0", "earlier values do not count");
    let _now = (counter("542"), words("750"));
    let second = daemon.scrape();
    assert_eq!(second.value("rdma_pod_out_of_sequence_total", &labels), "42");
    assert_eq!(second.value("rdma_pod_transmit_bytes_total", &labels), "1000");
    let errors = [&labels[..], &[("error", "out_of_sequence")]].concat();
    assert_eq!(second.value("rdma_pod_errors_total", &errors), "42");

    let Attached { chain, device, pod, netns, .. } = a;
    chain.del();
    let on_host = daemon.scrape();
    let owner = on_host.of("rdma_device_owner_info", &[("device", &device)]);
    assert_eq!((owner.len(), owner[0].label("owner"), owner[0].label("pod_name")), (1, "host", ""));
    assert_eq!(
        on_host.value("rdma_pod_out_of_sequence_total", &labels),
        "42",
        "the log directory of the pod still exists"
    );
    let uid = pod.uid.clone();
    drop((pod, netns));
    let gone = daemon.scrape();
    assert!(gone.of("rdma_pod_info", &[("pod_uid", &uid)]).is_empty());
    assert!(gone.samples().iter().all(|sample| sample.label("pod_name").is_empty()));
}

#[test]
fn a_pod_with_several_attachments_is_read_once() {
    let machine = LabMachine::exclusive();
    let netns = machine.node.pod("job-0");
    let pod = KubePod::new("train", "job-0", UID);
    let mut devices = Vec::new();
    for (index, ifname) in [(0, "net1"), (1, "net2")] {
        let vf = machine.vf("eth0", index);
        let chain = Chain::new(&machine, &vf, &netns, json!({})).args(&pod.cni_args()).ifname(ifname);
        chain.add();
        devices.push((vf.rdma, chain));
    }
    let scrape = daemon(&machine, &[]).scrape();
    for (device, _) in &devices {
        assert_eq!(scrape.of("rdma_port_up", &[("device", device)]).len(), 1);
        let found = scrape.of("rdma_device_owner_info", &[("device", device)]);
        assert_eq!((found.len(), found[0].label("pod_name")), (1, "job-0"));
    }
    assert_eq!(scrape.of("rdma_pod_info", &[]).len(), 1);
    assert_eq!(scrape.of("rdma_pod_attachment_info", &pod.labels()).len(), 2);
    devices.iter().for_each(|(_, chain)| chain.del());
}

// An open socket would keep a namespace alive. The daemon has none between two scrapes.
#[test]
fn a_device_returns_to_the_host_when_its_namespace_is_deleted_while_monitored() {
    let machine = LabMachine::exclusive();
    let before = machine.rdma_devices();
    let a = attach(&machine, 0, "job-0");
    let daemon = daemon(&machine, &[]);
    assert_eq!(daemon.scrape().of("rdma_device_owner_info", &a.pod.labels()).len(), 1);
    a.netns.end();
    wait_until("the device is on the host", || machine.rdma_devices() == before);
    let scrape = daemon.scrape();
    assert!(scrape.of("rdma_device_owner_info", &a.pod.labels()).is_empty());
    assert_eq!(scrape.of("rdma_device_owner_info", &[("device", &a.device), ("owner", "host")]).len(), 1);
    assert_eq!(scrape.value("rdma_scrape_collector_success", &[("collector", "devices")]), "1");
    assert!(scrape.of("rdma_scrape_errors_total", &[]).is_empty(), "{}", daemon.log());
    a.chain.del();
}

#[test]
fn spiderpool_names_and_labels_are_exported_on_request() {
    let machine = LabMachine::exclusive();
    let a = attach(&machine, 0, "job-0");
    let rows = table::rows(1_000_000);
    let _set = table::set(&machine, &a.pci, &rows);
    let scrape = daemon(&machine, &["--compat=spiderpool"]).scrape();
    for row in &rows {
        let name = format!("rdma_{}_total", row.metric);
        let mut labels = vec![("ifname", a.device.as_str()), ("net_dev_name", "net1"), ("node_name", "lab")];
        labels.extend([("is_root", "false"), ("rdma_parent_name", "eth0")]);
        labels.extend(a.pod.labels());
        labels.extend(row.priority.map(|priority| ("priority", priority)));
        assert_eq!(scrape.value(&name, &labels), row.value.to_string(), "{name}");
    }
    assert_eq!(scrape.of("rdma_vport_speed_mbps_total", &a.pod.labels()).len(), 1);
    for pf in ["eth0", "eth1"] {
        let labels = [("is_root", "true"), ("net_dev_name", pf), ("rdma_parent_name", pf)];
        assert_eq!(scrape.of("rdma_vport_speed_mbps_total", &labels).len(), 1, "{pf}");
    }
}
