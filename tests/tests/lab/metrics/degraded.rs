//! Bad weather: hung firmware, devices that come and go, many devices, files that lie.

use std::{collections::BTreeSet, fs, process::Command, time::Instant};

use serde_json::json;
use silkrail_tests::{
    chain::Chain, daemon::Daemon, kube_pod::KubePod, machine::LabMachine, rxe::Rxe, scrape::Scrape,
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

#[test]
fn firmware_that_hangs_costs_its_own_counters_only() {
    let machine = LabMachine::shared();
    let (slow, other) = (machine.vf("eth0", 0), machine.vf("eth0", 1));
    let daemon = daemon(&machine, &["--device-timeout", "1"]);
    assert_eq!(success(&daemon.scrape(), "hw_counters"), "1");
    let hang = machine.simulate(&slow.pci, "slow_stats_ms", "60000");
    let during = daemon.scrape();
    assert_eq!((success(&during, "hw_counters"), success(&during, "ports")), ("0", "1"));
    let timeouts = [("collector", "hw_counters"), ("reason", "timeout")];
    assert_eq!(during.value("rdma_scrape_errors_total", &timeouts), "1");
    assert!(during.of("rdma_out_of_sequence_total", &[("device", &slow.rdma)]).is_empty());
    assert_eq!(during.of("rdma_out_of_sequence_total", &[("device", &other.rdma)]).len(), 1);
    assert_eq!(during.of("rdma_port_up", &[("device", &slow.rdma)]).len(), 1, "what was read before");

    // It is not asked again, so the next scrape is as fast as ever, and has the rest of the device.
    let next = daemon.scrape();
    assert_eq!(next.value("rdma_scrape_errors_total", &timeouts), "2");
    assert_eq!(next.of("rdma_symbol_error_total", &[("device", &slow.rdma)]).len(), 1);
    assert_eq!(daemon.ask("GET /healthz", &[]).status, 200);
    assert!(daemon.log().contains("the firmware may be hung"), "{}", daemon.log());

    drop(hang);
    wait_until("it answers again", || success(&daemon.scrape(), "hw_counters") == "1");
    assert_eq!(daemon.scrape().of("rdma_out_of_sequence_total", &[("device", &slow.rdma)]).len(), 1);
}

#[test]
fn a_device_that_hangs_when_it_is_first_looked_at_costs_only_itself() {
    let machine = LabMachine::shared();
    let (slow, other) = (machine.vf("eth0", 0), machine.vf("eth0", 1));
    let hang = machine.simulate(&slow.pci, "slow_board_id_ms", "60000");
    let daemon = daemon(&machine, &["--device-timeout", "5"]);
    let info = |scrape: &Scrape, device: &str| scrape.of("rdma_device_info", &[("device", device)]).len();
    let during = daemon.scrape();
    assert_eq!((info(&during, &slow.rdma), info(&during, &other.rdma)), (0, 1));
    assert_eq!((success(&during, "devices"), success(&during, "hw_counters")), ("0", "1"));
    assert!(daemon.log().contains(&format!("devices of RDMA device {}", slow.rdma)), "{}", daemon.log());

    // It is not asked again, so the next scrape does not wait for it.
    let began = Instant::now();
    let next = daemon.scrape();
    assert!(began.elapsed().as_secs_f32() < 5.0, "it waited for what hangs");
    assert_eq!((info(&next, &slow.rdma), info(&next, &other.rdma)), (0, 1));

    drop(hang);
    wait_until("it is there", || info(&daemon.scrape(), &slow.rdma) == 1);
    assert_eq!(success(&daemon.scrape(), "devices"), "1");
}

#[test]
fn a_scrape_that_cannot_wait_gets_the_last_reading_and_its_age() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth0", 0);
    let daemon = daemon(&machine, &["--device-timeout", "8"]);
    let before = daemon.scrape();
    let _hang = machine.simulate(&vf.pci, "slow_stats_ms", "60000");
    std::thread::sleep(std::time::Duration::from_millis(600)); // the last reading is no longer fresh
    let began = Instant::now();
    let answer = daemon.ask("GET /metrics", &[("X-Prometheus-Scrape-Timeout-Seconds", "2")]);
    assert!(began.elapsed().as_secs_f32() < 8.0);
    let during = Scrape::parse(&answer.text());
    let when = "rdma_exporter_snapshot_timestamp_seconds";
    assert_eq!(during.value(when, &[]), before.value(when, &[]));
}

#[test]
fn two_who_ask_at_once_get_one_reading() {
    let machine = LabMachine::shared();
    let daemon = daemon(&machine, &[]);
    daemon.scrape();
    std::thread::sleep(std::time::Duration::from_millis(600));
    let ask = || daemon.ask("GET /metrics", &[]).body;
    let (a, b) = std::thread::scope(|scope| {
        let (a, b) = (scope.spawn(ask), scope.spawn(ask));
        (a.join().unwrap(), b.join().unwrap())
    });
    assert!(a == b, "the bodies differ");
}

#[test]
fn devices_that_come_and_go_leave_nothing_stale() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth1", 0);
    let daemon = daemon(&machine, &[]);
    let before = daemon.scrape();
    let devices = |scrape: &Scrape| -> BTreeSet<String> {
        scrape.samples().iter().map(|sample| sample.label("device").to_owned()).collect()
    };
    for _ in 0..5 {
        let twins = machine.simulate(&vf.pci, "twins", "4");
        daemon.ask("GET /metrics", &[]);
        wait_until("the twins are there", || devices(&daemon.scrape()).len() == devices(&before).len() + 4);
        drop(twins);
        daemon.ask("GET /metrics", &[]);
        wait_until("the twins are gone", || devices(&daemon.scrape()) == devices(&before));
    }
    assert!(daemon.scrape().of("rdma_scrape_errors_total", &[]).is_empty(), "{}", daemon.log());
}

#[test]
fn a_device_has_the_name_it_has_now() {
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
fn two_devices_that_swap_their_names_keep_their_counters() {
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
    assert_eq!(both(&scrapes[0]), [None, None], "what was open was the other's");
    assert_eq!(both(&scrapes[1]), of("2000", "1000"));
}

#[test]
fn counters_that_cannot_be_read_cost_only_themselves() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth0", 0);
    let _refuse = machine.simulate(&vf.pci, "port_counters_refuse", "Y");
    let _words = machine.simulate(&vf.pci, "port_counters/port_rcv_data", "250");
    let daemon = daemon(&machine, &[]);
    let scrape = daemon.scrape();
    assert_eq!(scrape.value("rdma_port_receive_bytes_total", &[("device", &vf.rdma)]), "1000");
    assert!(scrape.of("rdma_symbol_error_total", &[("device", &vf.rdma)]).is_empty());
    assert_eq!(scrape.of("rdma_symbol_error_total", &[]).len(), 15, "the other devices'");
    assert_eq!(success(&scrape, "counters"), "1", "what the driver does not have is no failure");
    let refused = [("collector", "counters"), ("reason", "unsupported")];
    let errors = scrape.number("rdma_scrape_errors_total", &refused);
    assert!(errors >= 10.0);
    assert_eq!(
        daemon.scrape().number("rdma_scrape_errors_total", &refused),
        errors,
        "they are not asked again"
    );
    assert_eq!(daemon.log().matches("/ports/1/counters/symbol_error: ").count(), 1, "{}", daemon.log());
}

#[test]
fn a_port_that_is_switched_off_is_told_from_one_that_is_down() {
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
fn files_that_name_no_namespace_are_no_places() {
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
    assert_eq!(scrape.of("rdma_port_up", &[("device", &vf.rdma), ("pod_name", "job-0")]).len(), 1);
    assert_eq!((success(&scrape, "devices"), success(&scrape, "pods")), ("1", "0"), "{}", daemon.log());
    assert!(daemon.log().contains("half@net1.json"), "{}", daemon.log());
}

#[test]
fn two_hundred_and_fifty_six_devices_are_read_without_a_process() {
    let machine = LabMachine::shared();
    let functions: Vec<_> = fs::read_dir("/sys/kernel/debug/rdmasim").unwrap().flatten().collect();
    let functions: Vec<_> = functions.iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
    let _twins: Vec<_> = functions.iter().map(|pci| machine.simulate(pci, "twins", "15")).collect();
    wait_until("there are 256 devices", || machine.rdma_devices().len() == 256);
    let trace = machine.node.state_dir().with_extension("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=execve,fork,vfork,clone,clone3", "-o"]).arg(&trace);
    command.arg(silkrail_tests::daemon::executable()).args(["--state-dir"]).arg(machine.node.state_dir());
    command.args(["--device-timeout", "60"]);
    let daemon = Daemon::spawn(&mut command);
    let scrape = daemon.scrape();
    assert_eq!(scrape.of("rdma_device_info", &[]).len(), 256);
    assert_eq!(scrape.of("rdma_out_of_sequence_total", &[]).len(), 256);
    drop(daemon);
    let calls = fs::read_to_string(&trace).unwrap();
    let others = ["CLONE_THREAD", "+++", "---", " resumed>"];
    let started = |line: &&str| !others.iter().any(|other| line.contains(other));
    let started: Vec<_> = calls.lines().filter(started).collect();
    let [itself, fork, frontend] = started[..] else { panic!("itself and its frontend: {started:?}") };
    assert!(
        itself.contains("execve(") && fork.contains("VFORK") && frontend.contains("\"--frontend\""),
        "{started:?}"
    );
}

#[test]
fn an_excluded_device_is_not_asked_at_all() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth0", 0);
    let hang = machine.simulate(&vf.pci, "slow_stats_ms", "60000");
    let daemon = daemon(&machine, &["--device-exclude", &vf.rdma, "--device-timeout", "60"]);
    let scrape = daemon.scrape();
    assert!(scrape.samples().iter().all(|sample| sample.label("device") != vf.rdma));
    assert_eq!(scrape.of("rdma_device_info", &[]).len(), 15);
    drop(hang);
}
