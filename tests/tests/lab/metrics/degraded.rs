//! Degraded operation: hung firmware, devices that are added and removed, many devices, invalid files.

use std::{collections::BTreeSet, fs};

use serde_json::json;
use silkrail_tests::{
    chain::Chain, daemon::Daemon, kube_pod::KubePod, machine::LabMachine, process_trace::ProcessTrace,
    rxe::Rxe, scrape::Scrape,
};
use testkit::{Observe, wait_until};

const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

fn daemon(machine: &LabMachine, more: &[&str]) -> Daemon {
    let state = machine.node.state_dir();
    Daemon::start(&[&["--state-dir", state.to_str().unwrap()], more].concat())
}

fn success<'a>(scrape: &'a Scrape, collector: &str) -> &'a str {
    scrape.value("rdma_scrape_collector_success", &[("collector", collector)])
}

/// Returns the number of the daemon's threads that read hardware counters, or wait for the lock of such a read.
fn readers_of_counters(daemon: &Daemon) -> usize {
    let threads = fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap().flatten();
    let is_reader = |stack: String| ["hw_stat", "stat_get"].iter().any(|function| stack.contains(function));
    threads.filter(|it| fs::read_to_string(it.path().join("stack")).is_ok_and(is_reader)).count()
}

#[test]
fn hung_firmware_removes_only_the_counters_of_its_device() {
    let machine = LabMachine::shared();
    let (slow, other) = (machine.vf("eth0", 0), machine.vf("eth0", 1));
    let daemon = daemon(&machine, &["--device-timeout", "5"]);
    let before = daemon.scrape();
    assert_eq!(success(&before, "hw_counters"), "1");
    let hang = machine.simulate(&slow.pci, "slow_stats_ms", "60000");
    let during = daemon.scrape();
    assert_eq!((success(&during, "hw_counters"), success(&during, "ports")), ("0", "1"));
    let timeouts = |scrape: &Scrape| -> f64 {
        let labels = [("collector", "hw_counters"), ("reason", "timeout")];
        scrape.of("rdma_scrape_errors_total", &labels).iter().map(|it| it.value.parse::<f64>().unwrap()).sum()
    };
    assert!(timeouts(&during) > timeouts(&before), "{}", daemon.log());
    assert!(during.of("rdma_out_of_sequence_total", &[("device", &slow.rdma)]).is_empty());
    assert_eq!(during.of("rdma_out_of_sequence_total", &[("device", &other.rdma)]).len(), 1);
    assert_eq!(
        during.of("rdma_port_up", &[("device", &slow.rdma)]).len(),
        1,
        "the port was read before the hang"
    );

    // The hung counters are not read again: the next scrape does not wait for them, and contains the rest of the device.
    let next = daemon.scrape();
    assert!(timeouts(&next) > timeouts(&during), "{}", daemon.log());
    wait_until("only the first read is blocked", || readers_of_counters(&daemon) == 1);
    assert_eq!(next.of("rdma_symbol_error_total", &[("device", &slow.rdma)]).len(), 1);
    assert_eq!(daemon.request("GET /healthz", &[]).status, 200);
    let hung =
        format!("hw_counters of RDMA device {}: timed out after 5 s; the firmware may be hung", slow.rdma);
    assert!(daemon.log().contains(&hung), "{}", daemon.log());

    drop(hang);
    wait_until("the counters are read again", || success(&daemon.scrape(), "hw_counters") == "1");
    assert_eq!(daemon.scrape().of("rdma_out_of_sequence_total", &[("device", &slow.rdma)]).len(), 1);
}

#[test]
fn a_device_that_hangs_on_its_first_read_affects_no_other() {
    let machine = LabMachine::shared();
    let (slow, other) = (machine.vf("eth0", 0), machine.vf("eth0", 1));
    let hang = machine.simulate(&slow.pci, "slow_board_id_ms", "60000");
    let daemon = daemon(&machine, &["--device-timeout", "5"]);
    let info = |scrape: &Scrape, device: &str| scrape.of("rdma_device_info", &[("device", device)]).len();
    let during = daemon.scrape();
    assert_eq!((info(&during, &slow.rdma), info(&during, &other.rdma)), (0, 1));
    assert_eq!((success(&during, "devices"), success(&during, "hw_counters")), ("0", "1"));
    assert!(daemon.log().contains(&format!("devices of RDMA device {}", slow.rdma)), "{}", daemon.log());

    // The device is not read again, so the next scrape does not wait for it, and there is no second timeout.
    let timeouts = || daemon.log().matches(&format!("devices of RDMA device {}", slow.rdma)).count();
    let before = timeouts();
    let next = daemon.scrape();
    assert_eq!(timeouts(), before, "{}", daemon.log());
    assert_eq!((info(&next, &slow.rdma), info(&next, &other.rdma)), (0, 1));

    drop(hang);
    wait_until("the device is exported", || info(&daemon.scrape(), &slow.rdma) == 1);
    assert_eq!(success(&daemon.scrape(), "devices"), "1");
}

#[test]
fn a_scrape_with_a_short_timeout_gets_the_last_collection_and_its_age() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth0", 0);
    let daemon = daemon(&machine, &["--device-timeout", "8"]);
    let before = daemon.scrape();
    let _hang = machine.simulate(&vf.pci, "slow_stats_ms", "60000");
    std::thread::sleep(std::time::Duration::from_millis(600)); // the last collection is no longer fresh
    let response = daemon.request("GET /metrics", &[("X-Prometheus-Scrape-Timeout-Seconds", "2")]);
    let during = Scrape::parse(&response.text());
    let timestamp = "rdma_exporter_snapshot_timestamp_seconds";
    assert_eq!(during.value(timestamp, &[]), before.value(timestamp, &[]));
}

#[test]
fn two_concurrent_scrapes_share_one_collection() {
    let machine = LabMachine::shared();
    let daemon = daemon(&machine, &[]);
    daemon.scrape();
    std::thread::sleep(std::time::Duration::from_millis(600)); // the last collection is no longer fresh
    // The collection takes longer than the second request may be late.
    let _slow = machine.simulate(&machine.vf("eth0", 0).pci, "slow_stats_ms", "3000");
    let request = || daemon.request("GET /metrics", &[]).body;
    let (a, b) = std::thread::scope(|scope| {
        let (a, b) = (scope.spawn(request), scope.spawn(request));
        (a.join().unwrap(), b.join().unwrap())
    });
    assert!(a == b, "the bodies differ");
}

#[test]
fn added_and_removed_devices_leave_no_stale_series() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth1", 0);
    let daemon = daemon(&machine, &[]);
    let before = daemon.scrape();
    let devices = |scrape: &Scrape| -> BTreeSet<String> {
        scrape.samples().iter().map(|sample| sample.label("device").to_owned()).collect()
    };
    for _ in 0..5 {
        let twins = machine.simulate(&vf.pci, "twins", "4");
        daemon.request("GET /metrics", &[]);
        wait_until("the added devices are exported", || {
            devices(&daemon.scrape()).len() == devices(&before).len() + 4
        });
        drop(twins);
        daemon.request("GET /metrics", &[]);
        wait_until("the removed devices are gone", || devices(&daemon.scrape()) == devices(&before));
    }
    assert!(daemon.scrape().of("rdma_scrape_errors_total", &[]).is_empty(), "{}", daemon.log());
}

#[test]
fn a_renamed_device_is_reported_under_its_new_name() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth1", 1);
    let daemon = daemon(&machine, &[]);
    assert_eq!(daemon.scrape().of("rdma_port_up", &[("device", &vf.rdma)]).len(), 1);
    machine.node.run("rdma", &["dev", "set", &vf.rdma, "name", "rail_0"]);
    let scrape = daemon.scrape();
    machine.node.run("rdma", &["dev", "set", "rail_0", "name", &vf.rdma]);
    assert!(scrape.samples().iter().all(|sample| sample.label("device") != vf.rdma));
    assert_eq!(scrape.of("rdma_symbol_error_total", &[("device", "rail_0")]).len(), 1);
}

#[test]
fn two_devices_that_swap_names_keep_their_counters() {
    let machine = LabMachine::shared();
    let (a, b) = (machine.vf("eth0", 0), machine.vf("eth0", 1));
    let _words = [(&a, "250"), (&b, "500")]
        .map(|(vf, words)| machine.simulate(&vf.pci, "port_counters/port_rcv_data", words));
    let daemon = daemon(&machine, &[]);
    let bytes = |scrape: &Scrape, device: &str| {
        let found = scrape.of("rdma_port_receive_bytes_total", &[("device", device)]);
        found.first().map(|sample| sample.value.clone())
    };
    let both = |scrape: &Scrape| [bytes(scrape, &a.rdma), bytes(scrape, &b.rdma)];
    let of = |a: &str, b: &str| [Some(a.to_owned()), Some(b.to_owned())];
    assert_eq!(both(&daemon.scrape()), of("1000", "2000"));
    let swap = || {
        for (from, to) in [(&*a.rdma, "rail_0"), (&*b.rdma, &*a.rdma), ("rail_0", &*b.rdma)] {
            machine.node.run("rdma", &["dev", "set", from, "name", to]);
        }
    };
    swap();
    let scrapes = [(); 2].map(|()| daemon.scrape());
    swap();
    assert_eq!(both(&scrapes[0]), [None, None], "the open files belong to the other device");
    assert_eq!(both(&scrapes[1]), of("2000", "1000"));
}

#[test]
fn an_unreadable_counter_affects_no_other() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth0", 0);
    let _refuse = machine.simulate(&vf.pci, "port_counters_refuse", "Y");
    let _words = machine.simulate(&vf.pci, "port_counters/port_rcv_data", "250");
    let daemon = daemon(&machine, &[]);
    let scrape = daemon.scrape();
    assert_eq!(scrape.value("rdma_port_receive_bytes_total", &[("device", &vf.rdma)]), "1000");
    assert!(scrape.of("rdma_symbol_error_total", &[("device", &vf.rdma)]).is_empty());
    assert_eq!(scrape.of("rdma_symbol_error_total", &[]).len(), 15, "of the other devices");
    assert_eq!(success(&scrape, "counters"), "1", "an unsupported counter is not a failure");
    let refused = [("collector", "counters"), ("reason", "unsupported")];
    let errors = scrape.number("rdma_scrape_errors_total", &refused);
    assert!(errors >= 10.0);
    assert_eq!(
        daemon.scrape().number("rdma_scrape_errors_total", &refused),
        errors,
        "unsupported counters are not read again"
    );
    assert_eq!(daemon.log().matches("/ports/1/counters/symbol_error: ").count(), 1, "{}", daemon.log());
}

#[test]
fn a_disabled_port_is_distinguished_from_a_port_that_is_down() {
    let machine = LabMachine::shared();
    let rxe = Rxe::on(machine);
    let daemon = daemon(&rxe.machine, &[]);
    let port = [("device", "rxe0"), ("port", "1")];
    let up = daemon.scrape();
    assert_eq!(
        ["rdma_port_up", "rdma_port_state", "rdma_port_physical_state"]
            .map(|n| up.value(n, &port).to_owned()),
        ["1", "4", "5"]
    );
    let downed = up.number("rdma_link_downed_total", &port);
    rxe.machine.node.run_ip("link set eth0 down");
    let down = daemon.scrape();
    rxe.machine.node.run_ip("link set eth0 up");
    assert_eq!(
        ["rdma_port_up", "rdma_port_state", "rdma_port_physical_state"]
            .map(|n| down.value(n, &port).to_owned()),
        ["0", "1", "3"]
    );
    assert_eq!(down.number("rdma_link_downed_total", &port), downed + 1.0);
}

#[test]
fn pod_map_entries_without_a_valid_namespace_are_ignored() {
    let machine = LabMachine::exclusive();
    let (vf, netns) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let pod = KubePod::new("train", "job-0", UID);
    let chain = Chain::new(&machine, &vf, &netns, json!({})).args(&pod.cni_args());
    chain.add();
    let dir = machine.node.state_dir().join("podmap/v1");
    let entry = fs::read_dir(&dir).unwrap().flatten().next().unwrap().path();
    let text = fs::read_to_string(&entry).unwrap();
    for (name, path) in [("file", "/etc/hostname"), ("gone", "/nonexistent"), ("other", "/proc/self/ns/net")]
    {
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["container"]["netnsPath"] = path.into();
        value["container"]["netnsIno"] = 4.into();
        fs::write(dir.join(format!("{name}@net1.json")), value.to_string()).unwrap();
    }
    fs::write(dir.join("half@net1.json"), "{").unwrap();
    let daemon = daemon(&machine, &[]);
    let scrape = daemon.scrape();
    assert_eq!(scrape.of("rdma_device_owner_info", &[("device", &vf.rdma), ("pod_name", "job-0")]).len(), 1);
    assert_eq!((success(&scrape, "devices"), success(&scrape, "pods")), ("1", "0"), "{}", daemon.log());
    assert!(daemon.log().contains("half@net1.json"), "{}", daemon.log());
}

#[test]
fn two_hundred_and_fifty_six_devices_are_read_without_a_subprocess() {
    let machine = LabMachine::shared();
    let functions: Vec<_> = fs::read_dir("/sys/kernel/debug/rdmasim").unwrap().flatten().collect();
    let functions: Vec<_> = functions.iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
    let _twins: Vec<_> = functions.iter().map(|pci| machine.simulate(pci, "twins", "15")).collect();
    wait_until("there are 256 devices", || machine.rdma_devices().len() == 256);
    let trace = ProcessTrace::new();
    let mut command = trace.command(&silkrail_tests::daemon::executable());
    command.arg("--state-dir").arg(machine.node.state_dir()).args(["--device-timeout", "60"]);
    let daemon = Daemon::spawn(&mut command);
    let scrape = daemon.scrape();
    assert_eq!(scrape.of("rdma_device_info", &[]).len(), 256);
    assert_eq!(scrape.of("rdma_out_of_sequence_total", &[]).len(), 256);
    let programs = trace.programs();
    let [program, children @ ..] = &programs[..] else { panic!("no program") };
    assert!(program.ends_with("/silkraild"), "{programs:?}");
    assert_eq!(children, ["/proc/self/exe"; 2], "the frontend and the writer");
    assert_eq!(trace.processes(), 2, "only these");
}

#[test]
fn an_excluded_device_is_never_read() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth0", 0);
    let hang = machine.simulate(&vf.pci, "slow_stats_ms", "60000");
    let daemon = daemon(&machine, &["--device-exclude", &vf.rdma, "--device-timeout", "60"]);
    let scrape = daemon.scrape();
    assert!(scrape.samples().iter().all(|sample| sample.label("device") != vf.rdma));
    assert_eq!(scrape.of("rdma_device_info", &[]).len(), 15);
    drop(hang);
}
