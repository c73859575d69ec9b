//! Standard counters, which InfiniBand performance management (PMA) defines for all drivers.

use super::{
    CommonMetric::{Bytes, Error, Packets},
    Direction::{Receive, Transmit},
    MetricDescriptor,
    metric_descriptor::legal,
};

/// The unit of `port_xmit_data` and `port_rcv_data` in bytes, also for RoCE (InfiniBand specification, PortCounters).
const DATA_COUNTER_UNIT: u64 = 4;

/// Returns the metric of a standard counter.
pub(super) fn metric(word: &str) -> Option<MetricDescriptor> {
    let name = legal(word)?;
    let help = help(&name).map_or_else(|| format!("Standard counter {word} of the port."), str::to_owned);
    let counter = MetricDescriptor::counter(&name, help);
    Some(match name.as_str() {
        // Exposed only in bytes: a family in words of four bytes would be misread.
        "port_rcv_data" => {
            MetricDescriptor { family: None, role: Some(Bytes(Receive)), scale: DATA_COUNTER_UNIT, ..counter }
        }
        "port_xmit_data" => MetricDescriptor {
            family: None,
            role: Some(Bytes(Transmit)),
            scale: DATA_COUNTER_UNIT,
            ..counter
        },
        "port_rcv_packets" => MetricDescriptor { family: None, role: Some(Packets(Receive)), ..counter },
        "port_xmit_packets" => MetricDescriptor { family: None, role: Some(Packets(Transmit)), ..counter },
        "port_rcv_errors" | "port_xmit_discards" => {
            MetricDescriptor { role: Some(Error("discard")), ..counter }
        }
        _ => counter,
    })
}

fn help(name: &str) -> Option<&'static str> {
    Some(match name {
        "symbol_error" => "Minor errors on the wire. 16 bits: stays at 65535.",
        "link_error_recovery" => "Times the link recovered from an error. 8 bits: stays at 255.",
        "link_downed" => "Times the link went down. 8 bits: stays at 255.",
        "port_rcv_errors" => "Packets received with an error. 16 bits: stays at 65535.",
        "port_rcv_remote_physical_errors" => {
            "Packets received with a bad-packet marker. 16 bits: stays at 65535."
        }
        "port_rcv_switch_relay_errors" => "Packets that a switch could not forward. 16 bits: stays at 65535.",
        "port_xmit_discards" => "Packets discarded instead of sent. 16 bits: stays at 65535.",
        "port_xmit_constraint_errors" => {
            "Packets not sent because of a partition or a limit. 8 bits: stays at 255."
        }
        "port_rcv_constraint_errors" => {
            "Packets dropped because of a partition or a limit. 8 bits: stays at 255."
        }
        "local_link_integrity_errors" => "Times the link had too many errors. 4 bits: stays at 15.",
        "excessive_buffer_overrun_errors" => "Times buffers overran repeatedly. 4 bits: stays at 15.",
        "vl15_dropped" => "Management packets dropped. 16 bits: stays at 65535.",
        "port_xmit_wait" => "Ticks in which data waited for credits: congestion on InfiniBand.",
        "unicast_xmit_packets" => "Unicast packets sent.",
        "unicast_rcv_packets" => "Unicast packets received.",
        "multicast_xmit_packets" => "Multicast packets sent.",
        "multicast_rcv_packets" => "Multicast packets received.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_counted_in_words_of_four_bytes() {
        let data = metric("port_xmit_data").unwrap();
        assert_eq!((data.role, data.scale, data.family), (Some(Bytes(Transmit)), 4, None));
        for (name, role, scale) in [
            ("port_rcv_data", Bytes(Receive), 4),
            ("port_rcv_packets", Packets(Receive), 1),
            ("port_xmit_packets", Packets(Transmit), 1),
            ("port_rcv_errors", Error("discard"), 1),
            ("port_xmit_discards", Error("discard"), 1),
        ] {
            let metric = metric(name).unwrap();
            assert_eq!((metric.role, metric.scale, metric.rank), (Some(role), scale, 0), "{name}");
        }
    }

    #[test]
    fn a_saturating_counter_has_a_hint_and_does_not_wrap() {
        let errors = metric("symbol_error").unwrap();
        assert!(errors.help.contains("stays at 65535") && !errors.wraps, "{errors:?}");
        assert_eq!(metric("VL15_dropped").unwrap().family.as_deref(), Some("rdma_vl15_dropped_total"));
    }
}
