//! The counters that Spiderpool's exporter also exports, by name.

use silkrail_tests::machine::{LabMachine, SimulatedSetting};

/// Hardware counters, in sysfs `ports/1/hw_counters`.
pub(super) const HARDWARE: [&str; 29] = [
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "rx_dct_connect",
    "out_of_buffer",
    "out_of_sequence",
    "duplicate_request",
    "rnr_nak_retry_err",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "resp_local_length_error",
    "resp_cqe_error",
    "req_cqe_error",
    "req_remote_invalid_request",
    "req_remote_access_errors",
    "resp_remote_access_errors",
    "resp_cqe_flush_error",
    "req_cqe_flush_error",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_ignored",
    "rp_cnp_handled",
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
    "rx_icrc_encapsulated",
];

/// Statistics of the link, for each priority: `rx_prio3_pause`.
pub(super) const PRIORITY: [&str; 4] = ["rx_discards", "tx_discards", "rx_pause", "tx_pause"];

/// RDMA traffic of the function, in the ethtool statistics of its link.
pub(super) const TRAFFIC: [&str; 8] = [
    "rx_vport_rdma_unicast_packets",
    "rx_vport_rdma_unicast_bytes",
    "tx_vport_rdma_unicast_packets",
    "tx_vport_rdma_unicast_bytes",
    "rx_vport_rdma_multicast_packets",
    "rx_vport_rdma_multicast_bytes",
    "tx_vport_rdma_multicast_packets",
    "tx_vport_rdma_multicast_bytes",
];

/// A simulated counter of a function, and the metric, priority and value that it is exported as.
pub(super) struct CounterCase {
    pub(super) metric: &'static str,
    pub(super) priority: Option<&'static str>,
    pub(super) value: u64,
    setting: String,
}

/// Returns a row for each counter, with distinct values greater than `above`.
pub(super) fn rows(above: u64) -> Vec<CounterCase> {
    let hardware = HARDWARE.map(|metric| (metric, None, format!("counters/{metric}")));
    let traffic = TRAFFIC.map(|metric| (metric, None, format!("ethtool/{metric}")));
    let priority = PRIORITY.into_iter().flat_map(|metric| {
        ["0", "3", "7"].map(|number| {
            let (direction, name) = metric.split_once('_').unwrap();
            (metric, Some(number), format!("ethtool/{direction}_prio{number}_{name}"))
        })
    });
    let all = hardware.into_iter().chain(traffic).chain(priority);
    let number = |(at, (metric, priority, setting))| CounterCase {
        metric,
        priority,
        setting,
        value: above + 1000 * (at as u64 + 1) + 7,
    };
    all.enumerate().map(number).collect()
}

/// Sets a function's counters.
pub(super) fn set(machine: &LabMachine, pci: &str, rows: &[CounterCase]) -> Vec<SimulatedSetting> {
    rows.iter().map(|row| machine.simulate(pci, &row.setting, &row.value.to_string())).collect()
}
