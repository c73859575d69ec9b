//! The dashboards over a real Prometheus that scrapes the daemon: every panel shows something.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

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
    shared::{pci, pingpong, switch_cgroups_on},
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

/// What a rate is taken over: some scrapes.
const INTERVAL: &str = "10s";

/// How long values may take to come. Rates need two scrapes, and an alert a rate.
const PANEL_TIMEOUT: Duration = Duration::from_secs(60);

/// What shows 0 as long as all is well. Everything else shows more.
const WELL: [&str; 6] = [
    "Ports not up",
    "Ports not up on their nodes",
    "QPs in error",
    "Queue pairs in error",
    "Collectors failing",
    "Link changes",
];

/// A node that has everything at once: in exclusive mode, two pods of a Job with a VF each; and a pod of a Deployment, in
/// the node's own network, that alone uses the software device there.
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
        switch_cgroups_on();
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
        // They never rest, and the measurement has priority.
        for program in &traffic {
            machine.node.run("renice", &["-n", "19", "-p", &program.pid().to_string()]);
        }
        Self { daemon, load, _api: api, _traffic: traffic, _web: web, _train: train, _rxe: rxe }
    }
}

#[test]
fn every_panel_and_every_choice_of_the_dashboards_shows_something() {
    let mut node = DashboardNode::new();
    let prometheus = Prometheus::scraping(node.daemon.address());
    let mut waiting = shows();
    let asked = waiting.len();
    let deadline = Instant::now() + PANEL_TIMEOUT;
    while !waiting.is_empty() && Instant::now() < deadline {
        node.load.step();
        thread::sleep(Duration::from_secs(1));
        waiting.retain(|show| !show.is_seen(&prometheus));
    }
    let nothing: Vec<_> = waiting.iter().map(|show| format!("{}\n    {}", show.of, show.what())).collect();
    assert!(nothing.is_empty(), "{} of {asked} show nothing:\n{}", nothing.len(), nothing.join("\n"));
    is_asked_for_openmetrics(&prometheus);
    rules_are_well(&prometheus);
}

#[test]
fn promtool_is_content_with_the_metrics_and_the_reference_has_them_all() {
    let node = DashboardNode::new();
    node.daemon.scrape();
    let text = node.daemon.ask("GET /metrics", &[]).text();
    let checked = prometheus::checked(&text);
    let said = [checked.stdout, checked.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(checked.status.success() && said.concat().is_empty(), "{said:?}");
    assert_eq!(MetricsReference::read().strangers(&text), Vec::<String>::new());
}

/// Something that a reader of a dashboard sees.
struct ExpectedPanel {
    /// Where.
    of: String,
    asks: PanelExpectation,
}

enum PanelExpectation {
    /// An expression; whether 0 is too little.
    Panel(String, bool),
    /// A selector and a label.
    Choice(String, String),
}

impl ExpectedPanel {
    fn is_seen(&self, prometheus: &Prometheus) -> bool {
        match &self.asks {
            PanelExpectation::Panel(expression, more) => {
                let shown = |sample: &QueriedSample| !sample.value.is_nan() && (!more || sample.value != 0.0);
                prometheus.query(expression).iter().any(shown)
            }
            PanelExpectation::Choice(selector, label) => !prometheus.label_values(selector, label).is_empty(),
        }
    }

    fn what(&self) -> &str {
        match &self.asks {
            PanelExpectation::Panel(expression, _) => expression,
            PanelExpectation::Choice(selector, _) => selector,
        }
    }
}

/// All that the dashboards show, what the rules record, and how scrapes went.
fn shows() -> Vec<ExpectedPanel> {
    let dashboards = Dashboard::all();
    let of_dashboards = dashboards.iter().flat_map(|dashboard| [choices(dashboard), panels(dashboard)]);
    of_dashboards.flatten().chain(records()).chain(scrapes()).collect()
}

fn choices(dashboard: &Dashboard) -> Vec<ExpectedPanel> {
    let choice = |variable: &Value| {
        let (selector, label) = label_values(variable["query"]["query"].as_str().unwrap());
        let asks = PanelExpectation::Choice(chosen(selector, INTERVAL), label.to_owned());
        ExpectedPanel { of: format!("{}: ${}", dashboard.name, variable["name"].as_str().unwrap()), asks }
    };
    // The first is the data source.
    dashboard.variables().iter().skip(1).map(choice).collect()
}

fn panels(dashboard: &Dashboard) -> Vec<ExpectedPanel> {
    let panel = |query: PanelQuery| {
        let title = query.of.split(": ").nth(1).unwrap();
        let asks = PanelExpectation::Panel(chosen(&query.expression, INTERVAL), !WELL.contains(&title));
        ExpectedPanel { of: query.of, asks }
    };
    dashboard.queries().into_iter().map(panel).collect()
}

/// What the recording rules make.
fn records() -> Vec<ExpectedPanel> {
    let mut rules = conf::yaml("prometheus/rules.yml").remove(0);
    let groups = rules["groups"].as_array_mut().unwrap();
    let rules = groups.iter_mut().flat_map(|group| group["rules"].as_array_mut().unwrap().drain(..));
    let records = rules.filter_map(|rule| Some(rule["record"].as_str()?.to_owned()));
    records
        .map(|name| ExpectedPanel { of: "rules.yml".to_owned(), asks: PanelExpectation::Panel(name, true) })
        .collect()
}

/// The target is up, and no sample of it is lost.
fn scrapes() -> [ExpectedPanel; 1] {
    let whole =
        r#"(scrape_samples_scraped == scrape_samples_post_metric_relabeling) and up{job="silkraild"} == 1"#;
    [ExpectedPanel { of: "scrapes".to_owned(), asks: PanelExpectation::Panel(whole.to_owned(), true) }]
}

/// In OpenMetrics a counter's family has no `_total`.
fn is_asked_for_openmetrics(prometheus: &Prometheus) {
    let family = prometheus.get("metadata", &[("metric", "rdma_errors")]);
    assert_eq!(family["rdma_errors"][0]["type"], "counter", "{family}");
}

/// Every rule is evaluated without an error, and the storm of pauses is known.
fn rules_are_well(prometheus: &Prometheus) {
    let groups = prometheus.get("rules", &[]);
    let rules = groups["groups"].as_array().unwrap().iter().flat_map(|g| g["rules"].as_array().unwrap());
    let sick: Vec<_> = rules.filter(|rule| rule["health"] != "ok").collect();
    assert!(sick.is_empty(), "{sick:?}");
    let storm = r#"ALERTS{alertname="RDMAPFCPauseStorm",alertstate="firing",device="mlx5_0"}"#;
    assert_eq!(prometheus.query(storm).len(), 1);
}
