//! Writes the metric families of a snapshot. Each module writes some of them.

mod addresses;
mod cm;
mod counters;
mod device;
mod device_plugin;
mod doctor;
mod family_cache;
mod family_type;
mod gc;
mod health;
mod labels;
mod physical;
mod pod_labels;
mod pods;
mod port;
mod series;
mod spiderpool;

use exposition::{Exposition, LabelSet};

use self::family_cache::FamilyCache;
use crate::{DeviceSnapshot, NameFilter, NodeSnapshot, counter_history::CounterHistory};

/// Writes the families of one snapshot after another.
#[derive(Debug, Default)]
pub(crate) struct FamilyWriter {
    /// Whether Spiderpool's names and labels are added.
    spiderpool: bool,
    /// The metrics that are exposed.
    metrics: NameFilter,
    cache: FamilyCache,
}

impl FamilyWriter {
    pub(crate) fn new(spiderpool: bool, metrics: NameFilter) -> Self {
        Self { spiderpool, metrics, cache: FamilyCache::default() }
    }

    /// Returns the exposition of a snapshot.
    pub(crate) fn write(&mut self, report: &NodeSnapshot, history: &CounterHistory) -> Exposition {
        let node = LabelSet::of([("node", report.node.as_str())]);
        let cache = &mut self.cache;
        // Dashboards of Spiderpool expect the pod on each series of a device.
        let has_pod_labels = self.spiderpool;
        counters::prepare(cache, report, history, &node, has_pod_labels);
        let mut families = Exposition::with_same_families(&cache.template);
        health::write(&mut families, report, &node);
        let known = |device: &DeviceSnapshot| cache.series.devices.get(&device.reading.device.index);
        let devices = report.devices.iter();
        let devices: Vec<_> = devices.filter_map(|d| Some((&d.reading, known(d)?))).collect();
        device::write(&mut families, &devices);
        port::write(&mut families, &devices, history);
        physical::write(&mut families, &devices);
        cm::write(&mut families, &devices);
        counters::write(&mut families, cache, report, history, &node);
        pods::write(&mut families, report, &node);
        addresses::write(&mut families, report, &node);
        gc::write(&mut families, report, &node);
        doctor::write(&mut families, report, &node);
        device_plugin::write(&mut families, report, &node);
        cache.template.reserve_like(&families);
        if self.spiderpool {
            spiderpool::write(&mut families, report);
        }
        families.retain(|name| self.metrics.has(name));
        families
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{sync::Arc, time::UNIX_EPOCH};

    use exposition::ExpositionFormat;
    use rdma::{Device, Guid, PortState};

    use super::*;
    use crate::{
        DeviceInfo, DeviceReading, PodInfo, PortReading, ProcessInfo, RawCounters,
        counter_layout::{CounterLayouts, tests::port},
        counter_values::CounterValues,
    };

    /// A device with these ports, numbered from 1.
    pub(crate) fn device(ports: Vec<PortReading>) -> DeviceReading {
        let numbered = (1..).zip(ports).map(|(number, mut port)| {
            port.port.port = number;
            port
        });
        DeviceReading {
            place: netns::NetNsId::new(1, 2),
            on_node: true,
            pod: None,
            process: None,
            device: Device {
                index: 0,
                name: "d0".into(),
                node_guid: Guid(0),
                sys_image_guid: Guid(0),
                fw_version: None,
                node_type: None,
                protocol: None,
                ports: 2,
                adaptive_moderation: None,
            },
            facts: Arc::new(DeviceInfo::default()),
            ports: numbered.collect(),
            counters: RawCounters::default(),
            traffic_class: None,
            resources: None,
            objects: None,
            counter_sets: None,
        }
    }

    /// Returns the lines of a metric in the classic text format.
    fn lines(reading: &DeviceReading, metric: &str) -> Vec<String> {
        lines_of(&mut FamilyWriter::default(), reading, metric)
    }

    fn lines_of(writer: &mut FamilyWriter, reading: &DeviceReading, metric: &str) -> Vec<String> {
        let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
        report.devices.push(DeviceSnapshot::new(reading.clone(), None));
        let text = writer.write(&report, &CounterHistory::default()).encode(ExpositionFormat::Text);
        let of_metric = |line: &&str| line.starts_with(&format!("{metric}{{"));
        text.lines().filter(of_metric).map(str::to_owned).collect()
    }

    /// Returns the lines of all metrics with this beginning, without the label of the node.
    pub(crate) fn lines_with(report: &NodeSnapshot, beginning: &str) -> Vec<String> {
        let written = FamilyWriter::default().write(report, &CounterHistory::default());
        let text = written.encode(ExpositionFormat::Text);
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        lines.map(|line| line.replace("node=\"n\",", "").replace("{node=\"n\"}", "")).collect()
    }

    #[test]
    fn counters_of_a_device_have_no_port_label() {
        // Like EFA: some counters belong to a port, others to the device, and there are no standard counters.
        let mut efa = device(vec![port(&[("tx_bytes", 7)], &[], &[])]);
        efa.counters = [("submitted_cmds", 42)].into_iter().collect();
        let of_device = r#"rdma_submitted_cmds_total{node="n",device="d0"} 42"#;
        assert_eq!(lines(&efa, "rdma_submitted_cmds_total"), [of_device]);
        let of_port = r#"rdma_tx_bytes_total{node="n",device="d0",port="1"} 7"#;
        assert_eq!(lines(&efa, "rdma_tx_bytes_total"), [of_port]);
        assert!(lines(&efa, "rdma_symbol_error_total").is_empty());
    }

    #[test]
    fn ports_of_a_device_are_separate_series() {
        let mut two = device([3, 4].map(|count| port(&[("out_of_sequence", count)], &[], &[])).into());
        two.ports[1].port.state = PortState::Down;
        let of_ports = [(1, 3), (2, 4)]
            .map(|(port, count)| format!(r#"{{node="n",device="d0",port="{port}"}} {count}"#));
        let expected = of_ports.map(|rest| format!("rdma_out_of_sequence_total{rest}"));
        assert_eq!(lines(&two, "rdma_out_of_sequence_total"), expected);
        let up = lines(&two, "rdma_port_up");
        assert!(up.len() == 2 && up[0].ends_with(" 1") && up[1].ends_with(" 0"), "{up:?}");
        assert_eq!(lines(&two, "rdma_device_up"), [r#"rdma_device_up{node="n",device="d0"} 1"#]);
    }

    #[test]
    fn an_integer_beyond_float_precision_is_exact() {
        let large = device(vec![port(&[("out_of_sequence", (1 << 53) + 1)], &[], &[])]);
        let lines = lines(&large, "rdma_out_of_sequence_total");
        assert!(lines.len() == 1 && lines[0].ends_with(" 9007199254740993"), "{lines:?}");
    }

    #[test]
    fn a_port_without_a_link_has_no_netdev_label() {
        let infiniband = device(vec![port(&[], &[("port_xmit_data", 250)], &[])]);
        let info = lines(&infiniband, "rdma_port_info");
        assert!(info.len() == 1 && !info[0].contains("netdev"), "{info:?}");
        let bytes = r#"rdma_port_transmit_bytes_total{node="n",device="d0",port="1"} 1000"#;
        assert_eq!(lines(&infiniband, "rdma_port_transmit_bytes_total"), [bytes]);
    }

    #[test]
    fn cached_labels_follow_every_property_that_they_contain() {
        let mut reading = device(vec![port(&[], &[], &[])]);
        let mut writer = FamilyWriter::default();
        let mut shows = |reading: &DeviceReading, metric: &str, label: &str| {
            let lines = lines_of(&mut writer, reading, metric);
            assert!(lines.len() == 1 && lines[0].contains(label), "{label}: {lines:?}");
        };
        shows(&reading, "rdma_port_info", r#"netns="host""#);
        reading.ports[0].port.state = PortState::Down;
        shows(&reading, "rdma_port_info", r#"state="down""#);
        reading.ports[0].port.link_name = Some("eth7".into());
        shows(&reading, "rdma_port_info", r#"netdev="eth7""#);
        reading.device.fw_version = Some("28.39.1002".into());
        shows(&reading, "rdma_device_info", r#"fw_version="28.39.1002""#);
        reading.facts = Arc::new(DeviceInfo { driver: Some("mlx5_core".into()), ..DeviceInfo::default() });
        shows(&reading, "rdma_device_info", r#"driver="mlx5_core""#);
        shows(&reading, "rdma_device_owner_info", r#"owner="host""#);
        (reading.on_node, reading.pod) = (false, Some(pod("a")));
        shows(&reading, "rdma_device_owner_info", r#"pod_name="a""#);
        shows(&reading, "rdma_port_state", r#"netns="pod""#);
        reading.pod = Some(pod("b"));
        shows(&reading, "rdma_device_owner_info", r#"pod_name="b""#);
        reading.process = Some(Arc::new(ProcessInfo { command: "train".into(), cgroup: "/job_17".into() }));
        shows(&reading, "rdma_device_owner_info", r#"pod_name="b",owner="pod"}"#);
        reading.pod = None;
        shows(&reading, "rdma_device_owner_info", r#"owner="process",command="train",cgroup="/job_17"}"#);
        reading.process = None;
        shows(&reading, "rdma_device_owner_info", r#"owner="unknown"}"#);
    }

    /// A device that moves to another pod keeps its series: only one of them names the pod.
    #[test]
    fn the_series_of_a_device_do_not_change_with_its_pod() {
        let mut reading = device(vec![port(&[("out_of_sequence", 3)], &[], &[])]);
        (reading.on_node, reading.pod) = (false, Some(pod("a")));
        let text = |writer: &mut FamilyWriter, reading: &DeviceReading| {
            let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
            report.devices.push(DeviceSnapshot::new(reading.clone(), None));
            writer.write(&report, &CounterHistory::default()).encode(ExpositionFormat::Text)
        };
        let of_pods = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| line.contains("pod_name"));
            lines.map(|line| line.split('{').next().unwrap().to_owned()).collect()
        };
        let first = text(&mut FamilyWriter::default(), &reading);
        assert_eq!(of_pods(&first), ["rdma_device_owner_info"], "{first}");
        let mut spiderpool = FamilyWriter::new(true, NameFilter::default());
        let theirs = text(&mut spiderpool, &reading);
        assert!(of_pods(&theirs).contains(&"rdma_port_up".to_owned()), "{theirs}");
        reading.pod = Some(pod("b"));
        let second = text(&mut FamilyWriter::default(), &reading);
        let changed: Vec<_> = second.lines().filter(|line| !first.contains(line)).collect();
        assert!(matches!(changed[..], [only] if only.starts_with("rdma_device_owner_info")), "{changed:?}");
    }

    #[test]
    fn statistics_of_a_priority_are_in_base_units() {
        let link = [
            ("rx_prio3_pause", 7),
            ("rx_prio3_pause_duration", 1_500_000),
            ("tx_prio3_pause", 6),
            ("rx_prio3_discards", 5),
            ("rx_prio3_bytes", 4),
            ("tx_prio4_packets", 3),
        ];
        let reading = device(vec![port(&[("np_cnp_sent", 2)], &[], &link)]);
        let labels = |way: &str, priority| {
            format!(r#"{{node="n",device="d0",port="1",direction="{way}",priority="{priority}"}}"#)
        };
        let (receive, transmit) = (labels("receive", 3), labels("transmit", 3));
        for (metric, expected) in [
            ("rdma_pfc_pause_frames_total", vec![format!("{receive} 7"), format!("{transmit} 6")]),
            ("rdma_pfc_pause_seconds_total", vec![format!("{receive} 1.5")]),
            ("rdma_priority_discards_total", vec![format!("{receive} 5")]),
            ("rdma_priority_bytes_total", vec![format!("{receive} 4")]),
            ("rdma_priority_packets_total", vec![format!("{} 3", labels("transmit", 4))]),
            (
                "rdma_congestion_events_total",
                vec![r#"{node="n",device="d0",port="1",event="cnp_sent"} 2"#.to_owned()],
            ),
        ] {
            let expected: Vec<_> = expected.iter().map(|rest| format!("{metric}{rest}")).collect();
            assert_eq!(lines(&reading, metric), expected);
        }
    }

    #[test]
    fn bytes_without_a_pod_are_those_of_the_host() {
        let (mut history, mut layouts) = (CounterHistory::default(), CounterLayouts::default());
        for words in [10, 250] {
            let port = port(&[], &[("port_rcv_data", words)], &[]);
            let mut values = CounterValues::of_port(&port, &mut layouts, None);
            history.update_port((0, 1), ("d0", "d0"), None, &mut values);
        }
        let mut reading = device(vec![port(&[], &[("port_rcv_data", 250)], &[])]);
        let lines = |reading: &DeviceReading| -> Vec<String> {
            let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
            report.devices.push(DeviceSnapshot::new(reading.clone(), None));
            let text = FamilyWriter::default().write(&report, &history).encode(ExpositionFormat::Text);
            text.lines()
                .filter(|line| line.starts_with("rdma_port_unattributed"))
                .map(str::to_owned)
                .collect()
        };
        let expected =
            r#"rdma_port_unattributed_bytes_total{node="n",device="d0",port="1",direction="receive"} 960"#;
        assert_eq!(lines(&reading), [expected]);
        (reading.on_node, reading.pod) = (false, Some(pod("a")));
        assert!(lines(&reading).is_empty());
    }

    #[test]
    fn a_counter_of_a_pod_on_a_port_has_its_most_exact_attribution_only() {
        use crate::Attribution::{PidCounter, Psn, SoleUser};
        let (mut history, mut layouts) = (CounterHistory::default(), CounterLayouts::default());
        let mut count = |history: &mut CounterHistory, name, how, number, port: &PortReading| {
            let counted = CounterValues::of_port(port, &mut layouts, None);
            history.add_to_account(pod(name), ("d0".into(), number, how), &counted);
        };
        let both = port(&[("out_of_sequence", 5)], &[("port_xmit_packets", 9)], &[]);
        for (name, number) in [("a", 1), ("a", 2), ("b", 1)] {
            count(&mut history, name, SoleUser, number, &both);
        }
        count(&mut history, "a", Psn, 1, &port(&[], &[("port_xmit_packets", 7)], &[]));
        let mut writer = FamilyWriter::default();
        let mut lines = |history: &CounterHistory, metric: &str| -> Vec<String> {
            let report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
            let text = writer.write(&report, history).encode(ExpositionFormat::Text);
            let lines = text.lines().filter(|line| line.starts_with(metric));
            let short = |line: &str| {
                let value = |key: &str| {
                    line.split(&format!("{key}=\"")).nth(1).unwrap().split('"').next().unwrap().to_owned()
                };
                let number = line.rsplit(' ').next().unwrap();
                format!("{} {} {} {number}", value("pod_name"), value("port"), value("attribution"))
            };
            lines.map(short).collect()
        };
        let packets = "rdma_pod_transmit_packets_total";
        let errors = ["rdma_pod_out_of_sequence_total", "rdma_pod_errors_total"];
        for _ in 0..2 {
            assert_eq!(lines(&history, packets), ["a 1 psn 7", "a 2 sole-user 9", "b 1 sole-user 9"]);
            for metric in errors {
                assert_eq!(
                    lines(&history, metric),
                    ["a 1 sole-user 5", "a 2 sole-user 5", "b 1 sole-user 5"]
                );
            }
        }
        count(&mut history, "a", PidCounter, 1, &port(&[("out_of_sequence", 3)], &[], &[]));
        for metric in errors {
            assert_eq!(lines(&history, metric), ["a 1 pid-counter 3", "a 2 sole-user 5", "b 1 sole-user 5"]);
        }
        history.forget(|pod| pod.name == "b");
        assert_eq!(lines(&history, packets), ["b 1 sole-user 9"]);
    }

    #[test]
    fn metrics_are_filtered_by_name() {
        let reading = device(vec![port(&[("out_of_sequence", 3)], &[], &[])]);
        let filter = NameFilter {
            include: vec!["rdma_port_*".into(), "rdma_o*".into()],
            exclude: vec!["*_up".into()],
        };
        let mut writer = FamilyWriter::new(false, filter);
        let mut has = |metric| !lines_of(&mut writer, &reading, metric).is_empty();
        assert!(has("rdma_out_of_sequence_total") && has("rdma_port_info"));
        assert!(!has("rdma_port_up") && !has("rdma_device_info"));
    }

    fn pod(name: &str) -> Arc<PodInfo> {
        Arc::new(PodInfo { namespace: "default".into(), name: name.into(), uid: None })
    }
}
