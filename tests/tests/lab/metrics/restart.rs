//! Counters over restarts of the daemon.

use std::process::Command;

use silkrail_tests::{
    daemon::{COUNTERS_FILE, Daemon, executable},
    machine::LabMachine,
    scrape::Scrape,
};

/// A daemon that keeps its counters in a file of the test.
fn daemon(machine: &LabMachine, file: &std::path::Path) -> Daemon {
    let mut command = Command::new(executable());
    command.arg("--state-dir").arg(machine.node.state_dir()).env(COUNTERS_FILE, file);
    Daemon::spawn(&mut command)
}

fn values(scrape: &Scrape, device: &str) -> (u64, u64) {
    let labels = [("device", device), ("port", "1")];
    let value = |name: &str| scrape.value(name, &labels).parse().unwrap();
    (value("rdma_out_of_sequence_total"), value("rdma_port_statistics_resets_total"))
}

#[test]
fn a_32_bit_counter_has_no_spike_when_the_daemon_is_killed_and_starts_again() {
    let machine = LabMachine::shared();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run/counters.json");
    let (pci, device) = (super::shared::pci("eth0"), "mlx5_0");
    // Raw values of the card, and the exposed ones: it wraps around twice, once while no daemon runs, and is then reset.
    let steps = [
        (4_294_967_290_u64, 4_294_967_290_u64, 0),
        (4, 4_294_967_300, 0),
        (3_000_000_000, 7_294_967_296, 0),
        (7, 8_589_934_599, 0),
        (9, 8_589_934_601, 0),
        (2, 2, 1),
    ];
    let mut running = daemon(&machine, &file);
    for (step, (raw, exposed, resets)) in steps.into_iter().enumerate() {
        let _value = machine.simulate(&pci, "counters/out_of_sequence", &raw.to_string());
        // Killed before and after the reading, in turn.
        if step % 2 == 1 {
            drop(running);
            running = daemon(&machine, &file);
        }
        assert_eq!(values(&running.scrape(), device), (exposed, resets), "step {step}: {}", running.log());
        drop(running);
        running = daemon(&machine, &file);
        assert_eq!(values(&running.scrape(), device), (exposed, resets), "step {step}, after a restart");
    }
    assert!(!running.log().contains("WARN"), "{}", running.log());
}

#[test]
fn counters_are_exported_with_a_warning_if_the_file_cannot_be_written() {
    let machine = LabMachine::shared();
    let running = daemon(&machine, std::path::Path::new("/proc/counters.json"));
    let scrape = running.scrape();
    assert_eq!(scrape.value("rdma_scrape_collector_success", &[("collector", "hw_counters")]), "1");
    running.scrape();
    assert_eq!(running.log().matches("are lost at the next restart").count(), 1, "{}", running.log());
}
