//! The rows of `conf/grafana/spiderpool.md`: a series with all labels for each metric of each dashboard.

use std::{collections::BTreeMap, fs, time::UNIX_EPOCH};

use exposition::ExpositionFormat;
use netns::NetNsId;
use rdma::{Device, Guid};

use super::*;
use crate::{
    DeviceInfo, NameFilter, PortReading, RawCounters, counter_history::CounterHistory,
    counter_layout::tests::port, families::FamilyWriter,
};

/// The metric of another program.
const NOT_SERVED: &str = "global_cluster_info";

/// A metric that a dashboard needs.
struct Needed {
    dashboard: String,
    /// `port` or `pod`.
    of: String,
    labels: Vec<String>,
    metric: String,
}

/// Hardware counters and statistics of a link.
type Counted = (Vec<(String, u64)>, Vec<(String, u64)>);

/// A line of the exposition: its name and its labels.
type Series = (String, BTreeMap<String, String>);

fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn needed() -> Vec<Needed> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/grafana/spiderpool.md");
    let page = fs::read_to_string(page).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains("_total`"));
    rows.flat_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [dashboard, of, labels, metrics] = cells[..] else { panic!("{row}") };
        quoted(metrics).into_iter().map(|metric| Needed {
            dashboard: dashboard.into(),
            of: of.into(),
            labels: quoted(labels),
            metric,
        })
    })
    .collect()
}

/// The counters that the page names, each with a value.
fn counters() -> Counted {
    let (mut hardware, mut link) = (BTreeMap::new(), BTreeMap::new());
    for needed in needed() {
        let name = needed.metric.strip_prefix("rdma_").unwrap().strip_suffix("_total").unwrap();
        match name.split_once('_').filter(|(_, rest)| ["pause", "discards"].contains(rest)) {
            Some((direction, rest)) => link.insert(format!("{direction}_prio3_{rest}"), 7),
            None if name.contains("vport_rdma") => link.insert(name.to_owned(), 7),
            None => hardware.insert(name.to_owned(), 7),
        };
    }
    // Read otherwise: the speed of the link, and the traffic class of the device.
    hardware.retain(|name, _| !["vport_speed_mbps", "device_tos"].contains(&name.as_str()));
    (hardware.into_iter().collect(), link.into_iter().collect())
}

fn ported(link: &str, counted: &Counted) -> PortReading {
    let [hardware, statistics] = [&counted.0, &counted.1]
        .map(|list| list.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>());
    linked(port(&hardware, &[], &statistics), link)
}

fn linked(mut port: PortReading, link: &str) -> PortReading {
    port.port.link_name = Some(link.parse().unwrap());
    port.speed = Some(400_000);
    port
}

fn device(index: u32, name: &str, port: PortReading, pod: Option<Arc<PodInfo>>) -> DeviceReading {
    let is_vf = pod.is_some();
    let facts = DeviceInfo {
        driver: Some("mlx5_core".into()),
        is_vf,
        pf_device: Some("mlx5_0".into()),
        pf_link: Some("ens1f0np0".into()),
        ..DeviceInfo::default()
    };
    DeviceReading {
        place: NetNsId::new(4, u64::from(index)),
        on_node: !is_vf,
        pod,
        process: None,
        device: Device {
            index,
            name: name.into(),
            node_guid: Guid(1),
            sys_image_guid: Guid(1),
            fw_version: None,
            node_type: None,
            protocol: None,
            ports: 1,
            adaptive_moderation: None,
        },
        facts: Arc::new(facts),
        ports: vec![port],
        counters: RawCounters::default(),
        traffic_class: (!is_vf).then_some(106),
        resources: None,
        objects: None,
        counter_sets: None,
    }
}

/// A node with a PF on the host and a VF in a pod of a Job. The series of its exposition.
fn exposition(pf: PortReading, vf: PortReading) -> Vec<Series> {
    let pod = Arc::new(PodInfo { namespace: "ai".into(), name: "train-0".into(), uid: Some("1".into()) });
    let job = Workload {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        namespace: "ai".into(),
        name: "train".into(),
    };
    let mut report = NodeSnapshot::new("n1".into(), UNIX_EPOCH);
    report.devices.push(DeviceSnapshot::new(device(0, "mlx5_0", pf, None), None));
    report.devices.push(DeviceSnapshot::new(device(5, "mlx5_5", vf, Some(pod.clone())), None));
    report.pods.insert(pod, Some(Arc::new(job)));
    let families = FamilyWriter::new(true, NameFilter::default()).write(&report, &CounterHistory::default());
    let text = families.encode(ExpositionFormat::Text);
    text.lines().filter(|line| !line.starts_with('#')).map(parsed).collect()
}

fn parsed(line: &str) -> Series {
    let (name, rest) = line.split_once('{').unwrap();
    let (labels, _) = rest.rsplit_once('}').unwrap();
    // No value contains a comma or a quote here.
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), value.trim_matches('"').to_owned())
    };
    (name.to_owned(), labels.split(',').map(pair).collect())
}

fn is_of(labels: &BTreeMap<String, String>, of: &str) -> bool {
    let has_pod = labels.contains_key("pod_name");
    match of {
        "port" => !has_pod && labels.get("is_root").is_some_and(|root| root == "true"),
        "pod" => has_pod && labels.get("is_root").is_some_and(|root| root == "false"),
        other => panic!("series of {other}"),
    }
}

fn demand(series: &[Series], needed: &Needed) {
    let of_metric: Vec<_> = series.iter().filter(|(name, _)| *name == needed.metric).collect();
    let has_all = |labels: &BTreeMap<String, String>| {
        needed.labels.iter().all(|label| labels.get(label).is_some_and(|value| !value.is_empty()))
    };
    let found = of_metric.iter().any(|(_, labels)| is_of(labels, &needed.of) && has_all(labels));
    assert!(
        found,
        "{}: {} of a {} with {:?}: {of_metric:?}",
        needed.dashboard, needed.metric, needed.of, needed.labels
    );
}

#[test]
fn a_guid_is_printed_in_reversed_byte_order() {
    assert_eq!(reversed(Guid(0x0011_2233_4455_6677)), "77:66:55:44:33:22:11:00");
}

#[test]
fn each_row_of_spiderpools_dashboards_has_a_series_with_its_labels() {
    let counted = counters();
    let series = exposition(ported("ens1f0np0", &counted), ported("net1", &counted));
    let needed = needed();
    for dashboard in ["Cluster", "Node", "Pod", "Workload"] {
        assert!(needed.iter().filter(|needed| needed.dashboard == dashboard).count() > 10, "{dashboard}");
    }
    needed.iter().for_each(|needed| demand(&series, needed));
}

#[test]
fn one_metric_of_the_page_is_not_served() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/grafana/spiderpool.md");
    let page = fs::read_to_string(page).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let others: Vec<&str> = rows.filter(|row| !row.contains("_total`")).collect();
    assert!(others.len() == 1 && others[0].contains(NOT_SERVED), "{others:?}");
    assert!(page.contains(&format!("Not served: `{NOT_SERVED}`")));
}

/// A driver without `vport` statistics has sums of bytes and packets: the throughput of its devices is shown.
#[test]
fn the_throughput_of_other_drivers_has_the_same_labels() {
    let standard =
        [("port_rcv_data", 250), ("port_xmit_data", 250), ("port_rcv_packets", 3), ("port_xmit_packets", 3)];
    let port = |link: &str| linked(port(&[], &standard, &[]), link);
    let series = exposition(port("ens1f0np0"), port("net1"));
    let needed = needed();
    let throughput = needed.iter().filter(|needed| needed.metric.contains("vport"));
    assert!(throughput.map(|needed| demand(&series, needed)).count() > 30);
}

/// Queries add the bytes of unicast and multicast and divide by the speed, which matches all labels.
#[test]
fn what_queries_add_and_divide_has_equal_labels() {
    let counted = counters();
    let series = exposition(ported("ens1f0np0", &counted), ported("net1", &counted));
    let labels = |metric: &str| -> Vec<&BTreeMap<String, String>> {
        series.iter().filter(|(name, _)| name == metric).map(|(_, labels)| labels).collect()
    };
    let speed = labels("rdma_vport_speed_mbps_total");
    assert_eq!(speed.len(), 2);
    for way in ["rx", "tx"] {
        for cast in ["unicast", "multicast"] {
            assert_eq!(labels(&format!("rdma_{way}_vport_rdma_{cast}_bytes_total")), speed, "{way} {cast}");
        }
    }
}
