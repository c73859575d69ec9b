//! Hardware counters of all drivers.

use super::{
    CommonMetric::{self, Bytes, Congestion, Error, Packets},
    Direction::{Receive, Transmit},
    MetricDescriptor,
    metric_descriptor::legal,
};

/// Returns the metric of a hardware counter. An unknown one is exposed as a counter.
pub(super) fn metric(word: &str) -> Option<MetricDescriptor> {
    let name = legal(word)?;
    let is_gauge = is_gauge(&name);
    let (role, rank) = role(&name).map_or((None, 0), |(role, rank)| (Some(role), rank));
    let help = help(&name).map_or_else(|| format!("Hardware counter {word} of the driver."), str::to_owned);
    let counter = MetricDescriptor::counter(&name, help);
    Some(MetricDescriptor {
        family: if is_gauge { Some(format!("rdma_{name}")) } else { counter.family },
        pod_family: (!is_gauge).then(|| format!("rdma_pod_{name}_total")),
        is_gauge,
        wraps: !is_gauge,
        role,
        rank,
        ..counter
    })
}

/// Whether it is a gauge. bnxt_re has numbers of objects among its counters, and mana its current rate.
fn is_gauge(name: &str) -> bool {
    name.starts_with("active_")
        || name.starts_with("watermark_")
        || matches!(name, "current_rate" | "num_qps_congested")
}

/// Maps the names that drivers use to the role and its rank.
fn role(name: &str) -> Option<(CommonMetric, u8)> {
    Some(match name {
        // The standard counters (rank 0) are preferred for bytes and packets of the function, if it has them.
        "rx_roce_only_bytes" | "ip4_in_octets" | "ip6_in_octets" | "rcvd_bytes" | "rx_bytes_cnt" => {
            (Bytes(Receive), 1)
        }
        "tx_roce_only_bytes" | "ip4_out_octets" | "ip6_out_octets" | "sent_bytes" | "tx_bytes_cnt" => {
            (Bytes(Transmit), 1)
        }
        "rx_bytes" => (Bytes(Receive), 2),
        "tx_bytes" => (Bytes(Transmit), 2),
        "rdma_rx_bytes" => (Bytes(Receive), 4),
        "rdma_tx_bytes" => (Bytes(Transmit), 4),
        "rx_roce_only_pkts" | "ip4_in_pkts" | "ip6_in_pkts" | "rcvd_pkts" | "rx_packets_cnt" => {
            (Packets(Receive), 1)
        }
        "tx_roce_only_pkts" | "ip4_out_pkts" | "ip6_out_pkts" | "sent_pkts" | "tx_packets_cnt" => {
            (Packets(Transmit), 1)
        }
        "rx_pkts" | "rx_pkt" | "rx_packets" => (Packets(Receive), 2),
        "tx_pkts" | "tx_pkt" | "tx_packets" => (Packets(Transmit), 2),
        "rdma_rx_packets" => (Packets(Receive), 4),
        "rdma_tx_packets" => (Packets(Transmit), 4),
        _ => (error(name).map(Error).or_else(|| congestion(name).map(Congestion))?, 0),
    })
}

fn error(name: &str) -> Option<&'static str> {
    Some(match name {
        "out_of_sequence" | "out_of_seq_request" | "oos_drop_count" | "responder_oos" => "out_of_sequence",
        "packet_seq_err" | "rcvd_seq_err" | "seq_err_naks_rcvd" | "requester_oos_nak" => "packet_seq_err",
        "implied_nak_seq_err" | "missing_resp" | "requester_implicit_nak" => "implied_nak",
        "local_ack_timeout_err" | "to_retransmits" | "completer_retry_err" | "requester_timeout" => {
            "ack_timeout"
        }
        "rnr_nak_retry_err" | "rnr_naks_rcvd" | "rcvd_rnr_err" | "requester_rnr_nak" => "rnr_nak",
        "out_of_buffer" | "rx_out_of_buffer" | "send_rnr_err" | "rx_drops" | "responder_rnr_nak" => {
            "rnr_no_wqe"
        }
        "req_transport_retries_exceeded"
        | "max_retry_exceeded"
        | "retry_exceeded_err"
        | "requester_retries_exceeded" => "retries_exceeded",
        "req_rnr_retries_exceeded" | "retry_rnr_exceeded_err" => "rnr_retries_exceeded",
        "req_remote_access_errors" | "resp_remote_access_errors" | "remote_access_err" => "remote_access",
        "req_remote_invalid_request" | "remote_invalid_req_err" => "remote_invalid_request",
        "resp_local_length_error" => "local_length",
        "req_cqe_error" | "resp_cqe_error" => "cqe_error",
        "req_cqe_flush_error" | "resp_cqe_flush_error" => "cqe_flush",
        "rx_icrc_encapsulated" => "icrc",
        "tx_roce_errors" | "tx_roce_discards" | "rx_roce_errors" | "rx_roce_discards" | "rx_err_pkt"
        | "tx_err_pkt" | "ip4_in_discards" | "ip6_in_discards" => "discard",
        _ => return None,
    })
}

fn congestion(name: &str) -> Option<&'static str> {
    Some(match name {
        "np_ecn_marked_roce_packets" | "rx_ecn_marked_pkts" | "rx_ecn_mrkd" | "received_ecns" => "ecn_marked",
        "np_cnp_sent" | "np_cnp_pkts" | "tx_cnp_pkts" | "tx_cnp_pkt" | "cnp_sent" | "sent_cnps" => "cnp_sent",
        "rp_cnp_handled" | "rx_cnp_pkts" | "rx_cnp_pkt" | "cnp_handled" | "received_cnps" => "cnp_handled",
        "rp_cnp_ignored" | "cnp_ignored" => "cnp_ignored",
        _ => return None,
    })
}

fn help(name: &str) -> Option<&'static str> {
    Some(match name {
        "rx_write_requests" => "RDMA WRITE requests received (requests, not packets).",
        "rx_read_requests" => "RDMA READ requests received.",
        "rx_atomic_requests" => "Atomic requests received.",
        "rx_dct_connect" => "Connection requests to dynamically connected targets received.",
        "out_of_buffer" => "Packets dropped because no receive work request was posted.",
        "out_of_sequence" => "Packets that arrived out of order.",
        "duplicate_request" => "Duplicate requests received.",
        "rnr_nak_retry_err" => "Receiver-not-ready NAKs received, within the retry limit.",
        "packet_seq_err" => "NAKs for a sequence error received; the packets are retransmitted.",
        "implied_nak_seq_err" => "Responses received whose sequence number revealed lost packets.",
        "local_ack_timeout_err" => "Acknowledgement timeouts of the sender; the packets are retransmitted.",
        "req_transport_retries_exceeded" => "Queue pairs that entered the error state after the last retry.",
        "req_rnr_retries_exceeded" => {
            "Queue pairs that entered the error state because the peer was never ready."
        }
        "resp_local_length_error" => "Messages received that were longer than the receive buffer.",
        "resp_cqe_error" => "Completions with an error on the responder side.",
        "req_cqe_error" => "Completions with an error on the requester side.",
        "req_remote_invalid_request" => "Requests that the peer rejected as invalid.",
        "req_remote_access_errors" => "Requests for which the peer refused access to its memory.",
        "resp_remote_access_errors" => "Requests received for memory without access permission.",
        "resp_cqe_flush_error" => "Completions flushed on the responder side; normal when a queue pair ends.",
        "req_cqe_flush_error" => "Completions flushed on the requester side; normal when a queue pair ends.",
        "roce_adp_retrans" => "Adaptive retransmissions.",
        "roce_adp_retrans_to" => "Adaptive retransmissions that timed out.",
        "roce_slow_restart" => "Times RoCE slow restart was used.",
        "roce_slow_restart_cnps" => "Congestion notifications generated by slow restart.",
        "roce_slow_restart_trans" => "Times slow restart was entered.",
        "np_ecn_marked_roce_packets" => "RoCEv2 packets received with a congestion mark (ECN).",
        "np_cnp_sent" => "Congestion notifications (CNP) sent to senders.",
        "rp_cnp_handled" => "Congestion notifications (CNP) received that reduced the send rate.",
        "rp_cnp_ignored" => "Congestion notifications (CNP) received and ignored.",
        "rx_icrc_encapsulated" => "RoCE packets received with an invalid checksum (ICRC).",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_names_of_a_driver_have_the_same_role() {
        // bnxt_re in Linux 6.12 and in 7.2.
        for (old, new) in [
            ("to_retransmits", "local_ack_timeout_err"),
            ("seq_err_naks_rcvd", "packet_seq_err"),
            ("rnr_naks_rcvd", "rnr_nak_retry_err"),
            ("missing_resp", "implied_nak_seq_err"),
            ("remote_invalid_req_err", "req_remote_invalid_request"),
            ("remote_access_err", "req_remote_access_errors"),
            ("oos_drop_count", "out_of_sequence"),
            ("rx_out_of_buffer", "out_of_buffer"),
            ("rx_cnp_pkts", "rp_cnp_handled"),
            ("rx_ecn_marked_pkts", "np_ecn_marked_roce_packets"),
            ("tx_cnp_pkts", "np_cnp_pkts"),
        ] {
            let (old, new) = (metric(old).unwrap(), metric(new).unwrap());
            assert!(old.role.is_some() && old.role == new.role, "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_level_is_a_gauge_without_total() {
        for (word, family) in [
            ("active_qps", "rdma_active_qps"),
            ("watermark_mrs", "rdma_watermark_mrs"),
            ("current_rate", "rdma_current_rate"),
            ("num_qps_congested", "rdma_num_qps_congested"),
        ] {
            let metric = metric(word).unwrap();
            assert!(metric.is_gauge && !metric.wraps && metric.pod_family.is_none());
            assert_eq!(metric.family.as_deref(), Some(family));
        }
    }

    #[test]
    fn each_direction_of_a_driver_has_its_name() {
        for (received, sent, rank) in [
            ("rx_roce_only_bytes", "tx_roce_only_bytes", 1),
            ("ip4_in_octets", "ip4_out_octets", 1),
            ("ip6_in_octets", "ip6_out_octets", 1),
            ("rcvd_bytes", "sent_bytes", 1),
            ("rx_bytes_cnt", "tx_bytes_cnt", 1),
            ("rx_bytes", "tx_bytes", 2),
            ("rdma_rx_bytes", "rdma_tx_bytes", 4),
        ] {
            let roles =
                [received, sent].map(|name| metric(name).unwrap()).map(|metric| (metric.role, metric.rank));
            assert_eq!(roles, [(Some(Bytes(Receive)), rank), (Some(Bytes(Transmit)), rank)], "{received}");
        }
        for (received, sent, rank) in [
            ("rx_roce_only_pkts", "tx_roce_only_pkts", 1),
            ("ip4_in_pkts", "ip4_out_pkts", 1),
            ("ip6_in_pkts", "ip6_out_pkts", 1),
            ("rcvd_pkts", "sent_pkts", 1),
            ("rx_packets_cnt", "tx_packets_cnt", 1),
            ("rx_pkts", "tx_pkts", 2),
            ("rx_pkt", "tx_pkt", 2),
            ("rx_packets", "tx_packets", 2),
            ("rdma_rx_packets", "rdma_tx_packets", 4),
        ] {
            let roles =
                [received, sent].map(|name| metric(name).unwrap()).map(|metric| (metric.role, metric.rank));
            assert_eq!(
                roles,
                [(Some(Packets(Receive)), rank), (Some(Packets(Transmit)), rank)],
                "{received}"
            );
        }
    }

    #[test]
    fn drivers_have_other_names_for_the_same_error() {
        for (error, names) in [
            (
                "out_of_sequence",
                &["out_of_sequence", "out_of_seq_request", "oos_drop_count", "responder_oos"][..],
            ),
            ("packet_seq_err", &["packet_seq_err", "rcvd_seq_err", "seq_err_naks_rcvd", "requester_oos_nak"]),
            ("implied_nak", &["implied_nak_seq_err", "missing_resp", "requester_implicit_nak"]),
            (
                "ack_timeout",
                &["local_ack_timeout_err", "to_retransmits", "completer_retry_err", "requester_timeout"],
            ),
            ("rnr_nak", &["rnr_nak_retry_err", "rnr_naks_rcvd", "rcvd_rnr_err", "requester_rnr_nak"]),
            (
                "rnr_no_wqe",
                &["out_of_buffer", "rx_out_of_buffer", "send_rnr_err", "rx_drops", "responder_rnr_nak"],
            ),
            (
                "retries_exceeded",
                &["req_transport_retries_exceeded", "max_retry_exceeded", "retry_exceeded_err"],
            ),
            ("rnr_retries_exceeded", &["req_rnr_retries_exceeded", "retry_rnr_exceeded_err"]),
            (
                "remote_access",
                &["req_remote_access_errors", "resp_remote_access_errors", "remote_access_err"],
            ),
            ("cqe_error", &["req_cqe_error", "resp_cqe_error"]),
            ("cqe_flush", &["req_cqe_flush_error", "resp_cqe_flush_error"]),
            (
                "discard",
                &["tx_roce_errors", "tx_roce_discards", "rx_roce_errors", "rx_roce_discards", "rx_err_pkt"],
            ),
        ] {
            for name in names {
                let metric = metric(name).unwrap();
                assert_eq!((metric.role, metric.rank, metric.wraps), (Some(Error(error)), 0, true), "{name}");
            }
        }
        for (event, names) in [
            ("ecn_marked", &["np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "received_ecns"][..]),
            (
                "cnp_sent",
                &["np_cnp_sent", "np_cnp_pkts", "tx_cnp_pkts", "tx_cnp_pkt", "cnp_sent", "sent_cnps"],
            ),
            ("cnp_handled", &["rp_cnp_handled", "rx_cnp_pkts", "rx_cnp_pkt", "cnp_handled", "received_cnps"]),
            ("cnp_ignored", &["rp_cnp_ignored", "cnp_ignored"]),
        ] {
            for name in names {
                assert_eq!(metric(name).unwrap().role, Some(Congestion(event)), "{name}");
            }
        }
    }

    #[test]
    fn an_unknown_firmware_name_is_a_counter() {
        let metric = metric("TxFrobnicated,7").unwrap();
        assert_eq!(metric.family.as_deref(), Some("rdma_tx_frobnicated_7_total"));
        assert!(metric.help.contains("TxFrobnicated,7") && metric.role.is_none() && !metric.is_gauge);
    }

    #[test]
    fn irdma_names_have_roles() {
        for (word, role) in [
            ("ip4InOctets", Bytes(Receive)),
            ("ip6OutPkts", Packets(Transmit)),
            ("cnpHandled", Congestion("cnp_handled")),
            ("RxECNMrkd", Congestion("ecn_marked")),
        ] {
            assert_eq!(metric(word).unwrap().role, Some(role), "{word}");
        }
    }
}
