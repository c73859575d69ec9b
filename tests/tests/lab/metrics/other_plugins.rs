//! Devices that another program moved: pods of the Go plugins, which the pod map does not have, and processes outside of Kubernetes.

use std::{fs, os::unix::fs::symlink, process::Command};

use serde_json::json;
use silkrail_tests::{
    daemon::Daemon,
    kube_pod::KubePod,
    machine::{LabMachine, LabVf},
    rxe::RxeProgram,
    scrape::Scrape,
};
use testkit::{Observe, TestPod, wait_until};

use crate::go_pod::GoPod;

const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

fn daemon(machine: &LabMachine) -> Daemon {
    Daemon::start(&["--state-dir", machine.node.state_dir().to_str().unwrap()])
}

/// A program in a pod's network namespace and cgroup, as the runtime starts it.
fn sandbox(pod: &KubePod, netns: &TestPod) -> RxeProgram {
    pod.run("nsenter", &[&format!("--net={}", netns.path().display()), "sleep", "600"])
}

/// A process with a VF's RDMA device in a namespace without a name, as a job of Slurm has it.
pub(super) fn job_with(machine: &LabMachine, vf: &LabVf) -> RxeProgram {
    let job = RxeProgram::spawn(Command::new("unshare").args(["--net", "sleep", "600"]));
    wait_until("the job has its namespace", || {
        fs::read_to_string(format!("/proc/{}/comm", job.pid())).is_ok_and(|comm| comm.trim() == "sleep")
    });
    fs::create_dir_all("/run/netns").unwrap();
    symlink(format!("/proc/{}/ns/net", job.pid()), "/run/netns/moving").unwrap();
    machine.node.run("rdma", &["dev", "set", &vf.rdma, "netns", "moving"]);
    fs::remove_file("/run/netns/moving").unwrap();
    job
}

/// Every device of the machine has its series, each once.
fn has_all(scrape: &Scrape, devices: &[String]) {
    let mut seen: Vec<&str> =
        scrape.of("rdma_device_info", &[]).iter().map(|sample| sample.label("device")).collect();
    seen.sort_unstable();
    assert_eq!(seen, devices);
    assert_eq!(scrape.value("rdma_devices_unseen", &[]), "0");
    assert!(scrape.of("rdma_scrape_errors_total", &[]).is_empty());
}

#[test]
fn devices_of_pods_and_processes_that_others_attached_are_in_the_metrics() {
    let machine = LabMachine::exclusive();
    let mut devices: Vec<String> = machine.rdma_devices();
    devices.sort_unstable();
    let (of_pod, of_process) = (machine.vf("eth0", 0), machine.vf("eth1", 1));
    let (netns, pod) = (machine.node.pod("go"), KubePod::new("train", "job-0", UID));
    let running = sandbox(&pod, &netns);
    let former = daemon(&machine);
    has_all(&former.scrape(), &devices);
    let go = GoPod::attach(&machine, &of_pod, &netns, &json!({}));
    machine.node.run_ip(&format!("link set {} up", of_process.link));
    let job = job_with(&machine, &of_process);
    let labels = [
        ("device", of_pod.rdma.as_str()),
        ("owner", "pod"),
        ("pod_name", "job-0"),
        ("pod_namespace", "train"),
    ];
    let restarted = daemon(&machine);
    for daemon in [&former, &restarted] {
        // A search is part of each collection, also of the first one.
        let scrape = daemon.scrape();
        has_all(&scrape, &devices);
        assert_eq!(scrape.of("rdma_device_owner_info", &labels).len(), 1);
        assert_eq!(scrape.of("rdma_port_up", &[("device", &of_pod.rdma)]).len(), 1);
        let owner = scrape.of("rdma_device_owner_info", &[("device", &of_process.rdma)]);
        assert_eq!(
            (owner.len(), owner[0].label("owner"), owner[0].label("command")),
            (1, "process", "sleep")
        );
        assert!(owner[0].label("cgroup").starts_with('/'), "{}", owner[0].label("cgroup"));
        let attributed = scrape.of("rdma_pod_info", &[("pod_uid", UID)]);
        assert_eq!(attributed.len(), 1);
    }
    // The devices return, and so does the next pod's.
    drop(job);
    machine.node.run_ip(&format!("link set {} down", of_process.link));
    wait_until("the device is on the host", || machine.rdma_devices().contains(&of_process.rdma));
    go.del();
    drop(running);
    for daemon in [&former, &restarted] {
        let scrape = daemon.scrape();
        has_all(&scrape, &devices);
        let owners = scrape.of("rdma_device_owner_info", &[]);
        assert_eq!(
            owners.len(),
            scrape.of("rdma_device_owner_info", &[("owner", "host")]).len(),
            "{owners:?}"
        );
    }
}

#[test]
fn a_device_whose_namespace_cannot_be_found_is_counted_and_explained() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 2);
    let _job = job_with(&machine, &vf);
    let state = machine.node.state_dir();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]);
    command.arg(silkrail_tests::daemon::executable()).args(["--state-dir", state.to_str().unwrap()]);
    let daemon = Daemon::spawn(&mut command);
    let scrape = daemon.scrape();
    assert_eq!(scrape.value("rdma_devices_unseen", &[]), "1");
    assert!(scrape.of("rdma_device_info", &[("device", &vf.rdma)]).is_empty());
    let log = daemon.log();
    assert!(log.contains("CAP_SYS_PTRACE") && log.contains(&vf.rdma), "{log}");
}
