//! Spiderpool's dashboards with a real Prometheus that scrapes `silkraild --compat=spiderpool`: the rows of
//! `conf/grafana/spiderpool.md`.

use std::process::Command;

use silkrail_tests::{
    api_server::{OwnedObject, TestApiServer},
    conf,
    daemon::{self, Daemon},
    machine::LabMachine,
    prometheus::Prometheus,
};

use super::{
    dashboards::{ExpectedPanel, PanelExpectation, wait_for_data},
    exclusive::attach,
    shared::pci,
    table,
};

const TRAIN: OwnedObject = OwnedObject {
    api_version: "batch/v1",
    kind: "Job",
    plural: "jobs",
    namespace: "train",
    name: "llm",
    owner: None,
};

/// Unicast and multicast of the function in the pod, relative to its speed: the vectors must match.
const UTILISATION: &str = r#"(rdma_rx_vport_rdma_unicast_bytes_total{pod_name="llm-0"}
    + rdma_rx_vport_rdma_multicast_bytes_total{pod_name="llm-0"})
    / rdma_vport_speed_mbps_total{pod_name!=""}"#;

/// Returns the text of each row and the query of each of its metrics.
fn rows() -> Vec<(String, String)> {
    let page = conf::text("grafana/spiderpool.md");
    let quoted =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains("_total`"));
    rows.flat_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let of = match cells[1] {
            "port" => r#"pod_name="",is_root="true""#,
            "pod" => r#"pod_name!="""#,
            other => panic!("series of {other}"),
        };
        let labels: Vec<String> = quoted(cells[2]).iter().map(|label| format!("{label}!=\"\"")).collect();
        let labels = labels.join(",");
        let query = |metric: String| {
            (format!("{}: {metric} of a {}", cells[0], cells[1]), format!("{metric}{{{of},{labels}}}"))
        };
        quoted(cells[3]).into_iter().map(query).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn each_row_of_spiderpools_dashboards_has_data() {
    let machine = LabMachine::exclusive();
    let train = attach(&machine, 0, "llm-0");
    let api = TestApiServer::of("lab", &[(&train.pod, &TRAIN)]);
    let pf = pci("eth0");
    let counted = table::rows(1_000_000);
    let _values = (table::set(&machine, &train.pci, &counted), table::set(&machine, &pf, &counted));
    let _class = machine.simulate(&pf, "traffic_class", "106");
    let mut command = Command::new(daemon::executable());
    command
        .arg("--state-dir")
        .arg(machine.node.state_dir())
        .args(["--kubernetes=auto", "--compat=spiderpool"]);
    let daemon = Daemon::spawn(command.env("KUBECONFIG", api.kubeconfig()));
    let prometheus = Prometheus::scraping(daemon.address());
    let rows = rows();
    assert!(rows.len() > 90, "{}", rows.len());
    let utilisation = ("utilisation".to_owned(), format!("count({UTILISATION}) == 1"));
    let expected = |(of, query)| ExpectedPanel { of, expectation: PanelExpectation::Panel(query, false) };
    wait_for_data(&prometheus, rows.into_iter().chain([utilisation]).map(expected).collect(), || ());
}
