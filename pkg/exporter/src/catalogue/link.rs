//! Statistics of a port's link: those that concern RDMA traffic or affect it.

use super::{
    CommonMetric::{
        self, Bytes, Discards, Packets, PauseFrames, PauseMicroseconds, PriorityBytes, PriorityPackets,
    },
    Direction::{self, Receive, Transmit},
    MetricDescriptor,
};

/// Returns the metric of a statistic; `None` if it is not exposed.
pub(super) fn metric(name: &str) -> Option<MetricDescriptor> {
    vport(name).or_else(|| priority(name)).or_else(|| other(name))
}

/// RDMA traffic of the function, such as `rx_vport_rdma_unicast_bytes`. Other `vport` statistics do not count RDMA.
fn vport(name: &str) -> Option<MetricDescriptor> {
    let (direction, rest) = direction(name)?;
    let (cast, unit) = rest.strip_prefix("vport_rdma_")?.split_once('_')?;
    let role = match (cast, unit) {
        ("unicast" | "multicast", "bytes") => Bytes(direction),
        ("unicast" | "multicast", "packets") => Packets(direction),
        _ => return None,
    };
    let help = format!("RDMA {cast} {unit} of the function, {}.", past(direction));
    // The standard counters have the same values, and more drivers have them.
    Some(MetricDescriptor { role: Some(role), rank: 3, ..MetricDescriptor::counter(name, help) })
}

/// Statistics of each priority. Only those of mlx5 have families of their own: the common ones have the values of all drivers.
fn priority(name: &str) -> Option<MetricDescriptor> {
    let PriorityStatistic { direction, priority, what } = PriorityStatistic::parse(name)?;
    let number: u8 = priority.parse().ok().filter(|number| *number < 8)?;
    let way = if direction == Receive { "rx" } else { "tx" };
    let (family, role, help): (_, Option<CommonMetric>, _) = match what {
        "pause" => (format!("{way}_pause"), Some(PauseFrames(direction)), pause_help(direction)),
        "pfc_frames" => (String::new(), Some(PauseFrames(direction)), String::new()),
        "pause_duration" => (String::new(), Some(PauseMicroseconds(direction)), String::new()),
        "bytes" => (String::new(), Some(PriorityBytes(direction)), String::new()),
        "packets" => (String::new(), Some(PriorityPackets(direction)), String::new()),
        "discards" => {
            let help = format!("Packets of a priority discarded on the {} side.", direction.name());
            (format!("{way}_discards"), Some(Discards(direction)), help)
        }
        "buf_discard" | "cong_discard" | "marked" | "pause_transition" => {
            (format!("{way}_prio_{what}"), None, format!("Statistic {way}_prioN_{what} of the link."))
        }
        _ => return None,
    };
    let counter = MetricDescriptor::counter(&family, help);
    Some(MetricDescriptor {
        pod_family: role.filter(|_| !family.is_empty()).map(|_| format!("rdma_pod_{family}_total")),
        family: counter.family.filter(|_| !family.is_empty()),
        priority: Some(number.to_string()),
        role,
        ..counter
    })
}

/// A statistic of a priority, with its name in mlx5.
struct PriorityStatistic<'a> {
    direction: Direction,
    priority: &'a str,
    what: &'a str,
}

impl<'a> PriorityStatistic<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let parsers = [Self::parse_mlx5, Self::parse_bnxt, Self::parse_ice, Self::parse_hns3];
        parsers.into_iter().find_map(|parse| parse(name))
    }

    /// mlx5: `rx_prio3_pause_duration`.
    fn parse_mlx5(name: &'a str) -> Option<Self> {
        let (direction, rest) = direction(name)?;
        let (priority, what) = rest.strip_prefix("prio")?.split_once('_')?;
        let is_mlx5 = priority.parse::<u8>().is_ok() && what != "pfc_frames";
        is_mlx5.then_some(Self { direction, priority, what })
    }

    /// bnxt: `rx_bytes_pri3`, `rx_pfc_ena_frames_pri3`, `pfc_pri3_rx_duration_us`.
    fn parse_bnxt(name: &'a str) -> Option<Self> {
        if let Some(rest) = name.strip_prefix("pfc_pri") {
            let (priority, rest) = rest.split_once('_')?;
            let (direction, "duration_us") = direction(rest)? else { return None };
            return Some(Self { direction, priority, what: "pause_duration" });
        }
        let (direction, rest) = direction(name)?;
        let (what, priority) = rest.rsplit_once("_pri")?;
        let what = match what {
            "bytes" | "packets" => what,
            "pfc_ena_frames" => "pfc_frames",
            _ => return None,
        };
        Some(Self { direction, priority, what })
    }

    /// ice: `rx_priority_3_xoff.nic`; frames that end a pause (`xon`) are not counted.
    fn parse_ice(name: &'a str) -> Option<Self> {
        let (direction, rest) = direction(name)?;
        let priority = rest.strip_prefix("priority_")?.strip_suffix("_xoff.nic")?;
        Some(Self { direction, priority, what: "pfc_frames" })
    }

    /// hns3: `mac_rx_pfc_pri3_pkt_num`.
    fn parse_hns3(name: &'a str) -> Option<Self> {
        let (direction, rest) = direction(name.strip_prefix("mac_")?)?;
        let priority = rest.strip_prefix("pfc_pri")?.strip_suffix("_pkt_num")?;
        Some(Self { direction, priority, what: "pfc_frames" })
    }
}

fn other(name: &str) -> Option<MetricDescriptor> {
    let help = match name {
        "rx_discards_phy" => {
            "Packets received and discarded by the physical port because no buffer was free."
        }
        "tx_discards_phy" => "Packets that the physical port discarded instead of sending them.",
        "tx_errors_phy" => "Packets that the physical port could not send.",
        "rx_crc_errors_phy" => "Packets received with an invalid checksum.",
        "rx_symbol_err_phy" => "Symbol errors on the wire.",
        "rx_pcs_symbol_err_phy" => "Symbol errors that error correction (FEC) could not correct.",
        "rx_corrected_bits_phy" => "Bits corrected by error correction (FEC).",
        "link_down_events_phy" => "Times the physical link went down.",
        "rx_global_pause" => "Pause frames received, for all priorities.",
        "tx_global_pause" => "Pause frames sent, for all priorities.",
        "tx_pause_storm_warning_events" => "Times the port sent pause frames for a long time.",
        "tx_pause_storm_error_events" => "Times the port sent pause frames until it was stopped.",
        "dev_out_of_buffer" => "Packets dropped because the device had no free buffer.",
        "rx_steer_missed_packets" => "Packets dropped because no steering rule matched.",
        "outbound_pci_stalled_rd_events" => "Seconds in which reads stalled on PCIe for over 30 %.",
        "outbound_pci_stalled_wr_events" => "Seconds in which writes stalled on PCIe for over 30 %.",
        "outbound_pci_buffer_overflow" => "Packets dropped because PCIe was too slow.",
        "outbound_pci_stalled_rd" => "Percentage of the last second in which reads stalled on PCIe.",
        "outbound_pci_stalled_wr" => "Percentage of the last second in which writes stalled on PCIe.",
        _ => return None,
    };
    let counter = MetricDescriptor::counter(name, help.to_owned());
    if matches!(name, "outbound_pci_stalled_rd" | "outbound_pci_stalled_wr") {
        return Some(MetricDescriptor { family: Some(format!("rdma_{name}")), is_gauge: true, ..counter });
    }
    Some(counter)
}

fn direction(name: &str) -> Option<(Direction, &str)> {
    let received = name.strip_prefix("rx_").map(|rest| (Receive, rest));
    received.or_else(|| name.strip_prefix("tx_").map(|rest| (Transmit, rest)))
}

fn past(direction: Direction) -> &'static str {
    match direction {
        Receive => "received",
        Transmit => "transmitted",
    }
}

fn pause_help(direction: Direction) -> String {
    match direction {
        Receive => "Pause frames of a priority received: the network paused this port.".to_owned(),
        Transmit => "Pause frames of a priority sent: this port paused the network.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rdma_traffic_is_exposed() {
        let metric = metric("tx_vport_rdma_multicast_packets").unwrap();
        assert_eq!(metric.family.as_deref(), Some("rdma_tx_vport_rdma_multicast_packets_total"));
        assert_eq!((metric.role, metric.rank), (Some(Packets(Transmit)), 3));
        for other in ["rx_vport_unicast_bytes", "rx_packets", "rx0_packets", "vport_loopback_bytes", "rx_"] {
            assert_eq!(super::metric(other), None, "{other}");
        }
    }

    #[test]
    fn a_priority_is_a_label() {
        let pause = metric("rx_prio3_pause").unwrap();
        assert_eq!(pause.family.as_deref(), Some("rdma_rx_pause_total"));
        assert_eq!((pause.role, pause.priority.as_deref()), (Some(PauseFrames(Receive)), Some("3")));
        let time = metric("tx_prio7_pause_duration").unwrap();
        assert_eq!((time.role, time.family), (Some(PauseMicroseconds(Transmit)), None));
        assert_eq!(metric("tx_prio0_discards").unwrap().family.as_deref(), Some("rdma_tx_discards_total"));
        for none in ["rx_prio8_pause", "rx_prio_pause", "rx_prioX_pause", "rx_prio3_pfc_frames"] {
            assert_eq!(metric(none), None, "{none}");
        }
    }

    /// The names of the drivers in Linux 6.12.
    #[test]
    fn drivers_have_other_names_for_the_same_statistic() {
        for (name, role) in [
            ("rx_prio3_bytes", PriorityBytes(Receive)),
            ("tx_prio3_packets", PriorityPackets(Transmit)),
            ("tx_bytes_pri3", PriorityBytes(Transmit)),
            ("rx_packets_pri3", PriorityPackets(Receive)),
            ("rx_pfc_ena_frames_pri3", PauseFrames(Receive)),
            ("pfc_pri3_tx_duration_us", PauseMicroseconds(Transmit)),
            ("tx_priority_3_xoff.nic", PauseFrames(Transmit)),
            ("mac_rx_pfc_pri3_pkt_num", PauseFrames(Receive)),
        ] {
            let metric = metric(name).unwrap();
            assert_eq!((metric.role, metric.priority.as_deref()), (Some(role), Some("3")), "{name}");
            assert_eq!((metric.family, metric.pod_family), (None, None), "{name}");
        }
        for none in
            ["rx_priority_3_xon.nic", "pfc_pri3_rx_transitions", "rx_bytes_pri8", "mac_rx_pfc_pkt_num"]
        {
            assert_eq!(metric(none), None, "{none}");
        }
    }

    #[test]
    fn a_percentage_is_a_gauge() {
        let stalled = metric("outbound_pci_stalled_rd").unwrap();
        assert!(stalled.is_gauge);
        assert_eq!(stalled.family.as_deref(), Some("rdma_outbound_pci_stalled_rd"));
        assert!(!metric("outbound_pci_stalled_rd_events").unwrap().is_gauge);
    }
}
