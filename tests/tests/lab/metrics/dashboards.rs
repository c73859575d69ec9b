//! The dashboards with a real Prometheus that scrapes the daemon: every panel has data.

use std::{process::Command, thread, time::Duration};

use serde_json::Value;
use silkrail_tests::{
    api_server::{OwnedObject, TestApiServer},
    conf,
    daemon::{self, Daemon},
    dashboard::{Dashboard, PanelQuery, chosen, label_values},
    kube_pod::KubePod,
    machine::LabMachine,
    prometheus::{self, Prometheus, QueriedSample},
    reference::MetricsReference,
    rxe::{Rxe, RxeProgram},
};
use testkit::Observe;

use super::{
    exclusive::{Attached, attach},
    load::Load,
    shared::{enable_rdma_cgroups, pci, pingpong},
};

const WEB: &str = "77777777-7b1f-4f0e-9d75-1f4f2bb1a2c3";

const TRAIN: OwnedObject = OwnedObject {
    api_version: "batch/v1",
    kind: "Job",
    plural: "jobs",
    namespace: "train",
    name: "llm",
    owner: None,
};

const DEPLOYMENT: OwnedObject = OwnedObject {
    api_version: "apps/v1",
    kind: "Deployment",
    plural: "deployments",
    namespace: "train",
    name: "web",
    owner: None,
};

const REPLICA_SET: OwnedObject = OwnedObject {
    kind: "ReplicaSet",
    plural: "replicasets",
    name: "web-1",
    owner: Some(&DEPLOYMENT),
    ..DEPLOYMENT
};

/// The range of rates: a few scrapes.
const INTERVAL: &str = "25s";

/// The number of successful scrapes after which every query has data: rates need two, and an alert needs a rate.
const ENOUGH: f64 = 30.0;

/// The number of all scrapes, on a machine that is too slow for most of them.
const TOO_MANY: f64 = 240.0;

/// Titles of panels that show 0 without a fault. All other panels show more than 0.
const ZERO_PANELS: [&str; 11] = [
    "Pause storms",
    "Targets that cannot be scraped",
    "Devices unseen",
    "Interruptions of links",
    "PCIe errors",
    "Ports not up",
    "Ports not up on their nodes",
    "QPs in error",
    "Queue pairs in error",
    "Collectors failing",
    "Link changes",
];

/// Metrics that the node does not have: of other programs and options, of values that its network card does not report, and of
/// errors. The demonstration data of `tests/monitoring` has them.
const NOT_ON_THE_NODE: [&str; 9] = [
    "rdma_device_plugin_",
    "rdma_exporter_web_config_",
    "rdma_ipam_",
    "rdma_module_",
    "rdma_port_expected_up",
    "rdma_port_fec_",
    "rdma_port_link_down_events_total",
    "rdma_scrape_errors_total",
    "silkrail_",
];

/// Recording rules of faults, which the node does not have, and of probes, which it does not make.
const RECORDED_FAULTS: [&str; 4] = [
    "node_device:silkrail_probe_round_trip_seconds:p99_15m",
    "node_device_port:rdma_port_up:unexpectedly_down",
    "node_device_port:rdma_port_link_down_events:increase2m",
    "node_device_kind:rdma_device_pcie_errors:increase2m",
];

/// A node with data for every panel: in exclusive mode, two pods of a Job with a VF each, and a host-network pod of a
/// Deployment that is the sole user of the software device.
struct DashboardNode {
    daemon: Daemon,
    load: Load,
    _api: TestApiServer,
    _traffic: [RxeProgram; 2],
    _web: KubePod,
    _train: [Attached; 2],
    _rxe: Rxe,
}

impl DashboardNode {
    fn new() -> Self {
        let rxe = Rxe::on(LabMachine::exclusive());
        enable_rdma_cgroups();
        let machine = &rxe.machine;
        let train = [attach(machine, 0, "llm-0"), attach(machine, 1, "llm-1")];
        let web = KubePod::new("train", "web-1-x", WEB);
        let owners = [(&train[0].pod, &TRAIN), (&train[1].pod, &TRAIN), (&web, &REPLICA_SET)];
        let api = TestApiServer::of("lab", &owners);
        let mut command = Command::new(daemon::executable());
        command.arg("--state-dir").arg(machine.node.state_dir()).arg("--kubernetes=auto");
        let daemon = Daemon::spawn(command.env("KUBECONFIG", api.kubeconfig()));
        let mut load = Load::new();
        for (attached, times) in train.iter().zip([2, 1]) {
            load.on(machine, &attached.pci, times);
        }
        load.on(machine, &pci("eth0"), 1);
        load.on_card(machine, &pci("eth0"));
        let traffic = pingpong(&rxe, &web, &web);
        // The programs use all of the CPU; the daemon has priority.
        for program in &traffic {
            machine.node.run("renice", &["-n", "19", "-p", &program.pid().to_string()]);
        }
        Self { daemon, load, _api: api, _traffic: traffic, _web: web, _train: train, _rxe: rxe }
    }
}

#[test]
fn every_panel_and_variable_of_the_dashboards_has_data() {
    let mut node = DashboardNode::new();
    let prometheus = Prometheus::scraping(node.daemon.address());
    wait_for_data(&prometheus, expected_panels(), || node.load.step());
    check_openmetrics(&prometheus);
    check_rules(&prometheus);
}

#[test]
fn promtool_accepts_the_metrics_and_the_reference_lists_them_all() {
    let node = DashboardNode::new();
    node.daemon.scrape();
    let text = node.daemon.request("GET /metrics", &[]).text();
    let checked = prometheus::checked(&text);
    let output = [checked.stdout, checked.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(checked.status.success() && output.concat().is_empty(), "{output:?}");
    assert_eq!(MetricsReference::read().undocumented(&text), Vec::<String>::new());
}

/// Waits until all have data, and calls `step` before each attempt.
pub(super) fn wait_for_data(
    prometheus: &Prometheus,
    mut waiting: Vec<ExpectedPanel>,
    mut step: impl FnMut(),
) {
    let total = waiting.len();
    let scrapes = |function: &str| {
        let number = prometheus.query(&format!("sum({function}_over_time(up[1h]))"));
        number.first().map_or(0.0, |sample| sample.value)
    };
    while !waiting.is_empty() && scrapes("sum") < ENOUGH && scrapes("count") < TOO_MANY {
        step();
        thread::sleep(Duration::from_secs(1));
        waiting.retain(|panel| !panel.has_data(prometheus));
    }
    let empty: Vec<_> = waiting.iter().map(|panel| format!("{}\n    {}", panel.of, panel.query())).collect();
    assert!(empty.is_empty(), "{} of {total} have no data:\n{}", empty.len(), empty.join("\n"));
}

/// A panel, a variable or a recording rule that must have data.
pub(super) struct ExpectedPanel {
    /// The dashboard and the panel or variable, for example `rdma-node: $node`.
    pub(super) of: String,
    pub(super) expectation: PanelExpectation,
}

pub(super) enum PanelExpectation {
    /// An expression in PromQL, and whether its value must not be 0.
    Panel(String, bool),
    /// A selector, and the label whose values it must have.
    Variable(String, String),
}

impl ExpectedPanel {
    fn has_data(&self, prometheus: &Prometheus) -> bool {
        match &self.expectation {
            PanelExpectation::Panel(expression, not_zero) => {
                let shown =
                    |sample: &QueriedSample| !sample.value.is_nan() && (!not_zero || sample.value != 0.0);
                prometheus.query(expression).iter().any(shown)
            }
            PanelExpectation::Variable(selector, label) => {
                !prometheus.label_values(selector, label).is_empty()
            }
        }
    }

    fn query(&self) -> &str {
        match &self.expectation {
            PanelExpectation::Panel(expression, _) => expression,
            PanelExpectation::Variable(selector, _) => selector,
        }
    }
}

/// Returns the panels and variables of all dashboards, the recording rules, the state of the scrapes, and an alert.
fn expected_panels() -> Vec<ExpectedPanel> {
    let dashboards = Dashboard::all();
    let of_dashboards = dashboards.iter().flat_map(|dashboard| [variables(dashboard), panels(dashboard)]);
    of_dashboards.flatten().chain(recording_rules()).chain([scrapes(), alert()]).collect()
}

fn variables(dashboard: &Dashboard) -> Vec<ExpectedPanel> {
    let expected = |variable: &Value| {
        let (selector, label) = label_values(variable["query"]["query"].as_str().unwrap());
        let expectation = PanelExpectation::Variable(chosen(selector, INTERVAL), label.to_owned());
        ExpectedPanel {
            of: format!("{}: ${}", dashboard.name, variable["name"].as_str().unwrap()),
            expectation,
        }
    };
    // The first is the data source.
    dashboard.variables().iter().skip(1).map(expected).collect()
}

fn panels(dashboard: &Dashboard) -> Vec<ExpectedPanel> {
    let panel = |query: PanelQuery| {
        let title = query.of.split(": ").nth(1).unwrap();
        let expectation =
            PanelExpectation::Panel(chosen(&query.expression, INTERVAL), !ZERO_PANELS.contains(&title));
        ExpectedPanel { of: query.of, expectation }
    };
    let delayed: Vec<String> =
        recorded().into_iter().filter(|(_, is_delayed)| *is_delayed).map(|(name, _)| name).collect();
    let is_expected = |query: &PanelQuery| {
        let has = |name: &str| query.expression.contains(name);
        !NOT_ON_THE_NODE.iter().any(|start| has(start)) && !delayed.iter().any(|name| has(name))
    };
    dashboard.queries().into_iter().filter(is_expected).map(panel).collect()
}

/// Returns the series of the recording rules that are evaluated at once, without those of faults.
fn recording_rules() -> Vec<ExpectedPanel> {
    let immediate = recorded()
        .into_iter()
        .filter(|(name, is_delayed)| !is_delayed && !RECORDED_FAULTS.contains(&name.as_str()));
    immediate
        .map(|(name, _)| ExpectedPanel {
            of: "rules.yml".to_owned(),
            expectation: PanelExpectation::Panel(name, true),
        })
        .collect()
}

/// Returns the names of the recording rules, and whether their group has an interval of its own: minutes, in which it is
/// evaluated once.
fn recorded() -> Vec<(String, bool)> {
    let groups = conf::yaml("prometheus/rules.yml").remove(0)["groups"].take();
    let of_group = |group: &Value| -> Vec<(String, bool)> {
        let rules = group["rules"].as_array().unwrap().iter();
        let names = rules.filter_map(|rule| Some(rule["record"].as_str()?.to_owned()));
        names.map(|name| (name, group["interval"].is_string())).collect()
    };
    groups.as_array().unwrap().iter().flat_map(of_group).collect()
}

/// Expects that the target is up, and that no sample of it is dropped.
fn scrapes() -> ExpectedPanel {
    let complete =
        r#"(scrape_samples_scraped == scrape_samples_post_metric_relabeling) and up{job="silkraild"} == 1"#;
    ExpectedPanel {
        of: "scrapes".to_owned(),
        expectation: PanelExpectation::Panel(complete.to_owned(), true),
    }
}

/// Expects that the alert on PFC pause storms fires.
fn alert() -> ExpectedPanel {
    let storm = r#"count(ALERTS{alertname="RDMAPFCPauseStorm",alertstate="firing",device="mlx5_0"}) == 1"#;
    ExpectedPanel { of: "alert".to_owned(), expectation: PanelExpectation::Panel(storm.to_owned(), true) }
}

/// Checks that Prometheus has negotiated OpenMetrics, in which a counter's family name has no suffix `_total`.
fn check_openmetrics(prometheus: &Prometheus) {
    let family = prometheus.get("metadata", &[("metric", "rdma_errors")]);
    assert_eq!(family["rdma_errors"][0]["type"], "counter", "{family}");
}

/// Checks that every rule is evaluated without an error, unless its group has an interval of minutes.
fn check_rules(prometheus: &Prometheus) {
    let groups = prometheus.get("rules", &[]);
    let of_group = |group: &'_ Value| {
        let is_delayed = group["interval"].as_f64().unwrap() > 60.0;
        let rules = group["rules"].as_array().unwrap().clone().into_iter();
        let is_failed =
            move |rule: &Value| rule["health"] != "ok" && !(is_delayed && rule["health"] == "unknown");
        rules.filter(is_failed).collect::<Vec<_>>()
    };
    let failed: Vec<_> = groups["groups"].as_array().unwrap().iter().flat_map(of_group).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
