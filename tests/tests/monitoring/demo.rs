//! Series of two nodes, generated from the metrics reference: the queries of every panel must find data.
//!
//! Node `n1` is in shared mode: pods `a` and `b` use `mlx5_0`, `a` also `rxe0`. `n2` is in exclusive mode: pod `c` has the
//! VF `mlx5_2`. Pods `a` and `c` belong to one Job. `b` has packet counters and no byte counters.

use silkrail_tests::reference::{MetricsReference, ReferenceMetric};

use crate::rule_file::recorded;

/// Bytes per second of every device and pod, in each direction.
pub(crate) const BYTES: f64 = 1e8;
/// The speed of every port, in bytes a second.
pub(crate) const SPEED: f64 = 12.5e9;

struct DemoDevice {
    node: &'static str,
    name: &'static str,
    driver: &'static str,
    /// The pod that has the device, in exclusive mode.
    pod: Option<&'static str>,
}

struct DemoPod {
    name: &'static str,
    node: &'static str,
    device: &'static str,
    attribution: &'static str,
    owner: [&'static str; 2],
}

const NODES: [&str; 2] = ["n1", "n2"];

const DEVICES: [DemoDevice; 4] = [
    DemoDevice { node: "n1", name: "mlx5_0", driver: "mlx5", pod: None },
    DemoDevice { node: "n1", name: "rxe0", driver: "rxe", pod: None },
    DemoDevice { node: "n2", name: "mlx5_0", driver: "mlx5", pod: None },
    DemoDevice { node: "n2", name: "mlx5_2", driver: "mlx5", pod: Some("c") },
];

const TRAIN: [&str; 2] = ["Job", "train"];

const PODS: [DemoPod; 4] = [
    DemoPod { name: "a", node: "n1", device: "mlx5_0", attribution: "pid-counter", owner: TRAIN },
    DemoPod { name: "a", node: "n1", device: "rxe0", attribution: "sole-user", owner: TRAIN },
    DemoPod { name: "b", node: "n1", device: "mlx5_0", attribution: "psn", owner: ["Deployment", "infer"] },
    DemoPod { name: "c", node: "n2", device: "mlx5_2", attribution: "exclusive-netns", owner: TRAIN },
];

/// Every series with its values in promtool's notation, each with these additional labels.
pub(crate) fn series(labels: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut all: Vec<_> =
        MetricsReference::read().metrics().iter().flat_map(|metric| of_metric(metric, labels)).collect();
    all.extend(recorded().iter().map(|name| of_rule(name, labels)));
    all.push((
        format!("up{{{}}}", text(labels.iter().map(|(name, value)| pair(name, value)))),
        "1x40".to_owned(),
    ));
    all.sort();
    all.dedup();
    all
}

type DemoLabels = Vec<(String, String)>;

/// A series that a recording rule makes: its level, before the first colon, names its labels.
fn of_rule(record: &str, more: &[(&str, &str)]) -> (String, String) {
    let level = record.split(':').next().unwrap();
    let value = |label: &str| match label {
        "cluster" => more.iter().find(|(name, _)| *name == "cluster").map(|(_, value)| pair(label, value)),
        "node" => Some(pair(label, "n1")),
        "device" | "pf_device" => Some(pair(label, "mlx5_0")),
        _ => Some(pair(label, "1")),
    };
    let labels = ["cluster", "node", "pf_device", "device", "port", "kind", "pool", "board_id"].into_iter();
    let labels = labels.filter(|label| {
        let level = if *label == "device" { level.replace("pf_device", "") } else { level.to_owned() };
        *label == "cluster" || level.contains(label)
    });
    (format!("{record}{{{}}}", text(labels.filter_map(value))), "0.5x40".to_owned())
}

fn of_metric(metric: &ReferenceMetric, more: &[(&str, &str)]) -> Vec<(String, String)> {
    let has = |label: &str| metric.labels.iter().any(|l| l == label);
    // The owner of a device: it has the labels of a pod only if that is one.
    let sets: Vec<DemoLabels> = if has("pod_name") && !has("owner") {
        PODS.iter().filter(|pod| pod.has(metric)).flat_map(|pod| expand(metric, &pod.labels())).collect()
    } else if has("device") {
        DEVICES.iter().filter(|device| device.has(metric)).flat_map(|d| expand(metric, &d.labels())).collect()
    } else {
        NODES.iter().flat_map(|node| expand(metric, &[pair("node", node)])).collect()
    };
    let sample = |set: DemoLabels| {
        let all = more.iter().map(|(name, value)| pair(name, value)).chain(set.clone());
        (format!("{}{{{}}}", metric.name, text(all)), values(metric, &set))
    };
    sets.into_iter().map(sample).collect()
}

/// The label sets of a metric of an object whose labels are `known`.
fn expand(metric: &ReferenceMetric, known: &[(String, String)]) -> Vec<DemoLabels> {
    let mut sets = vec![DemoLabels::new()];
    for label in &metric.labels {
        let values: Vec<String> = match known.iter().find(|(name, _)| name == label) {
            Some((_, value)) => vec![value.clone()],
            None => possible(metric, label).iter().map(|&value| value.to_owned()).collect(),
        };
        let with = |set: &DemoLabels| {
            let set = set.clone();
            values
                .iter()
                .map(move |value| [set.clone(), vec![pair(label, value)]].concat())
                .collect::<Vec<_>>()
        };
        sets = sets.iter().flat_map(with).collect();
    }
    sets
}

fn possible(metric: &ReferenceMetric, label: &str) -> &'static [&'static str] {
    match (label, metric.name.as_str()) {
        ("mode", _) => &["shared", "exclusive"],
        ("port", _) => &["1"],
        ("direction", _) => &["receive", "transmit"],
        ("priority", _) => &["0", "3"],
        ("event", _) => &["ecn_marked", "cnp_sent", "cnp_handled", "cnp_ignored"],
        ("error", _) => &["out_of_sequence", "packet_seq_err", "ack_timeout", "rnr_no_wqe", "cqe_flush"],
        ("resource", "rdma_resource_limit") => &["gid"],
        ("resource", "rdma_resources") => &["qp", "mr", "gid"],
        ("resource", _) => &["qp", "mr"],
        ("state", "rdma_pod_queue_pairs") => &["rts", "err"],
        ("state", _) => &["ACTIVE"],
        ("type", _) => &["rc"],
        ("le", _) => &["0.00001", "+Inf"],
        ("kind", "silkrail_check_passed" | "silkrail_check_timestamp_seconds") => &["bandwidth"],
        ("severity", _) => &["error", "warning"],
        ("collector", _) => &["devices", "ports", "hw_counters"],
        ("reason", _) => &["timeout"],
        ("owner_namespace", _) => &["ai"],
        // One value, which no panel uses.
        _ => &["x"],
    }
}

fn values(metric: &ReferenceMetric, labels: &[(String, String)]) -> String {
    let exclusive = |set: &[(String, String)]| set.contains(&pair("node", "n2"));
    match metric.name.as_str() {
        "rdma_netns_mode" => {
            let other = labels.contains(&pair("mode", "exclusive")) != exclusive(labels);
            format!("{}x40", u8::from(!other))
        }
        "rdma_port_speed_bytes_per_second" => format!("{SPEED}x40"),
        "rdma_port_gid_capacity" | "rdma_resource_limit" => "256x40".to_owned(),
        "rdma_port_state" => "4x40".to_owned(),
        "rdma_port_physical_state" => "5x40".to_owned(),
        name if name.ends_with("_info") || name.ends_with("_up") || name.ends_with("_success") => {
            "1x40".to_owned()
        }
        name if name.ends_with("_bytes_total") => format!("0+{}x40", BYTES * 60.0),
        _ if metric.kind == "counter" => "0+60x40".to_owned(),
        _ => "7x40".to_owned(),
    }
}

impl DemoDevice {
    fn is_vf(&self) -> bool {
        self.pod.is_some()
    }

    fn has(&self, metric: &ReferenceMetric) -> bool {
        let of_port = metric.labels.iter().any(|label| label == "priority")
            || ["_phy_", "_pci_", "_storm_"].iter().any(|part| metric.name.contains(part));
        match self.driver {
            "rxe" => !metric.source.contains("mlx5") && !metric.source.starts_with("ethtool `"),
            _ => !(metric.source.starts_with("`hw_counters`, rxe") || self.is_vf() && of_port),
        }
    }

    fn labels(&self) -> DemoLabels {
        let is_vf = self.is_vf().to_string();
        let mut labels = vec![
            pair("node", self.node),
            pair("device", self.name),
            pair("driver", self.driver),
            pair("is_vf", &is_vf),
            pair("netns", if self.is_vf() { "pod" } else { "host" }),
            pair("pf_device", if self.is_vf() { "mlx5_0" } else { "" }),
        ];
        let (owner, namespace) = if self.is_vf() { ("pod", "ai") } else { ("host", "") };
        labels.extend([pair("owner", owner), pair("pod_namespace", namespace)]);
        labels.push(pair("pod_name", self.pod.unwrap_or_default()));
        labels
    }
}

impl DemoPod {
    fn has(&self, metric: &ReferenceMetric) -> bool {
        match self.attribution {
            "psn" => {
                !metric.labels.iter().any(|label| label == "attribution")
                    || metric.name.ends_with("_packets_total")
            }
            _ if self.device == "rxe0" => !metric.source.ends_with(", mlx5"),
            _ => !metric.source.starts_with("`hw_counters`, rxe"),
        }
    }

    fn labels(&self) -> DemoLabels {
        let [kind, name] = self.owner;
        vec![
            pair("node", self.node),
            pair("device", self.device),
            pair("pod_namespace", "ai"),
            pair("pod_name", self.name),
            pair("mode", if self.node == "n2" { "exclusive" } else { "shared" }),
            pair("attribution", self.attribution),
            pair("owner_kind", kind),
            pair("owner_name", name),
        ]
    }
}

fn text(labels: impl Iterator<Item = (String, String)>) -> String {
    labels.map(|(name, value)| format!("{name}=\"{value}\"")).collect::<Vec<_>>().join(",")
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
