//! silkraild with insufficient privileges: it reports what it cannot read, and exports the rest.

use std::{collections::BTreeSet, process::Command};

use silkrail_tests::{
    daemon::{Daemon, executable},
    kube_pod::KubePod,
    machine::LabMachine,
    rxe::{DEVICE, Rxe},
    scrape::Scrape,
};

const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

fn spawn(machine: &LabMachine, before: &[&str]) -> Daemon {
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(executable()).arg("--state-dir").arg(machine.node.state_dir());
    Daemon::spawn(&mut command)
}

fn success<'a>(scrape: &'a Scrape, collector: &str) -> &'a str {
    scrape.value("rdma_scrape_collector_success", &[("collector", collector)])
}

#[test]
fn without_privileges_it_exports_host_devices_and_reports_inaccessible_namespaces() {
    let machine = LabMachine::exclusive();
    let device = machine.vf("eth0", 0).rdma;
    let _attached = super::exclusive::attach(&machine, 0, "job-0");
    let unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
    let daemon = spawn(&machine, &unprivileged);
    let scrape = daemon.scrape();
    for name in
        ["rdma_port_up", "rdma_out_of_sequence_total", "rdma_symbol_error_total", "rdma_rx_pause_total"]
    {
        let found = scrape.of(name, &[]);
        let devices: BTreeSet<_> = found.iter().map(|sample| sample.label("device")).collect();
        assert_eq!(devices.len(), 15, "{name}: all but the pod's");
        assert!(!devices.contains(device.as_str()), "{name}");
    }
    assert_eq!((success(&scrape, "devices"), success(&scrape, "hw_counters")), ("0", "1"));
    let refused = [("collector", "devices"), ("reason", "permission")];
    assert_eq!(scrape.of("rdma_scrape_errors_total", &refused).len(), 1, "{}", daemon.log());
    assert_eq!(scrape.value("rdma_pod_info", &[("pod_name", "job-0")]), "1");
    assert_eq!(daemon.log().matches("WARN cannot enter network namespace").count(), 1, "{}", daemon.log());
}

#[test]
fn without_access_to_node_processes_it_warns_and_exports_the_rest() {
    let rxe = Rxe::new();
    let pod = KubePod::new("train", "a", UID);
    let _pair = super::shared::pingpong(&rxe, &pod, &pod);
    let own_pid_namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let daemon = spawn(&rxe.machine, &own_pid_namespace);
    let scrape = daemon.scrape();
    assert_eq!(success(&scrape, "resources"), "0");
    let hidden = [("collector", "resources"), ("reason", "permission")];
    assert_eq!(scrape.of("rdma_scrape_errors_total", &hidden).len(), 1);
    assert!(daemon.log().contains("hostPID: true"), "{}", daemon.log());
    assert!(scrape.of("rdma_pod_resources", &[]).is_empty());
    for collector in ["devices", "ports", "hw_counters", "counters", "ethtool", "gids", "pods", "mode"] {
        assert_eq!(success(&scrape, collector), "1", "{collector}");
    }
    assert!(scrape.number("rdma_sent_pkts_total", &[("device", DEVICE)]) > 0.0);
    let queue_pairs = [("device", DEVICE), ("resource", "qp")];
    assert_eq!(scrape.value("rdma_resources", &queue_pairs), "3", "the total of the device is exported");
}
