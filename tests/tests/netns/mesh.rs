//! `silkrail check mesh` over a simulated fabric. The agents and the network between them are real; perftest is played, so no
//! bandwidth here is a measurement.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use silkrail_tests::{
    fabric::{SimulatedFabric, address},
    reference::MetricsReference,
};

const OPTIONS: &str = "--duration 1 --qps 1 --no-store";

/// Runs a mesh with JSON output. Returns it, and asserts that it ended within the time that it announced.
fn mesh(fabric: &SimulatedFabric, options: &str, code: i32) -> (Value, String) {
    let began = Instant::now();
    let output = fabric.mesh(&format!("{OPTIONS} {options} --json")).ended(code);
    let took = began.elapsed();
    let mesh = output.json();
    let longest = Duration::from_secs(mesh["plan"]["longestSeconds"].as_u64().unwrap());
    // The agents are asked for their ports before the announcement, for at most 10 s. A pause of the machine is no failure.
    assert!(took < longest + Duration::from_secs(60), "announced {longest:?}, took {took:?}");
    (mesh, output.stderr)
}

fn list<'a>(mesh: &'a Value, key: &str) -> &'a Vec<Value> {
    mesh[key].as_array().unwrap()
}

#[test]
fn a_mesh_of_32_nodes_names_exactly_the_port_that_is_slow_when_all_rails_run() {
    let mut fabric = SimulatedFabric::new(32, 2);
    fabric.make_slow(7, "mlx5_1");
    fabric.kill_agent(20);
    let (mesh, stderr) = mesh(&fabric, "--rails --rounds 4 --seed 1", 1);
    assert_eq!(
        mesh["slowPorts"],
        json!([{"node": 6, "rail": 1, "outliers": 4, "pairs": 4}]),
        "{:#}",
        mesh["outliers"]
    );
    for nothing in ["slowNodes", "slowRails", "missingPorts"] {
        assert_eq!(mesh[nothing], json!([]), "{nothing}");
    }
    assert!(list(&mesh, "outliers").iter().all(|outlier| outlier["explained"] == true));
    assert_eq!(list(&mesh, "outliers").len(), 4);
    let dead = list(&mesh, "failedNodes");
    assert_eq!((dead.len(), &dead[0]["node"]), (1, &json!(19)), "{dead:?}");
    assert!(dead[0]["error"].as_str().unwrap().contains("Connection refused"), "{dead:?}");
    // 31 nodes: one is idle in each round.
    assert_eq!(list(&mesh, "pairs").len(), 4 * 15 * 2);
    assert_eq!(mesh["plan"]["tests"], 4 * 15 * 2);
    assert!(list(&mesh, "pairs").iter().all(|pair| pair["error"].is_null()), "every test has a result");
    assert_eq!(mesh["rails"][1], json!({"device": "mlx5_1", "network": "10.10.1.0/24"}));
    assert!(stderr.contains(&format!("{} is left out: connect to", address(20))), "{stderr}");
    assert!(stderr.contains("31 nodes, 2 rails, 4 rounds (a sample of the pairs"), "{stderr}");
    assert!(stderr.contains("ends after") && stderr.contains("round 4/4: 30 tests; 0 s left"), "{stderr}");
    assert!(stderr.lines().count() < 10, "a line for each round, not for each test: {stderr}");
}

#[test]
fn one_rail_at_a_time_does_not_show_what_all_rails_show_and_the_text_fits_a_terminal() {
    let fabric = SimulatedFabric::new(6, 4);
    fabric.make_slow(3, "mlx5_0");
    let alone = fabric.mesh(OPTIONS).ended(0);
    assert!(alone.stdout.contains("median 38"), "{alone:?}");
    let (again, _) = mesh(&fabric, "--rail mlx5_0", 0);
    assert_eq!((list(&again, "rails").len(), list(&again, "outliers").len()), (1, 0), "{again}");
    let together = fabric.mesh(&format!("{OPTIONS} --rails")).ended(6);
    let named = format!("slow port: {} on rail 0 (mlx5_0): 5 of its 5 pairs are outliers", address(3));
    assert!(together.stdout.contains(&named), "{together:?}");
    assert_eq!(together.stdout.matches("slow ").count(), 1, "{together:?}");
    assert!(together.stderr.contains("5 rounds (all pairs), 60 tests"), "{together:?}");
    assert!((1..=6).any(|node| fabric.log(node).contains("on 4 rails")), "{}", fabric.log(1));
    let widest = together.stdout.lines().map(str::len).max().unwrap();
    assert!(widest <= 100, "{widest} columns: {}", together.stdout);
}

#[test]
fn a_node_that_hangs_is_given_up_and_stops_no_other() {
    let mut fabric = SimulatedFabric::new(6, 2);
    fabric.make_hang(5);
    fabric.kill_agent(6);
    let (mesh, _) = mesh(&fabric, "--rails --test-timeout 20", 1);
    let failed = list(&mesh, "failedNodes");
    let nodes: Vec<_> = failed.iter().map(|failed| failed["node"].as_u64().unwrap()).collect();
    assert_eq!(nodes, [5, 4], "{failed:?}");
    assert!(failed[1]["error"].as_str().unwrap().contains("given up after 2 tests"), "{failed:?}");
    assert!(failed[1]["rail"].is_null(), "on all of its rails");
    for pair in list(&mesh, "pairs") {
        let hangs = pair["client"] == 4 || pair["server"] == 4;
        assert_eq!(pair["record"].is_null(), hangs, "{pair}");
    }
    let skipped = list(&mesh, "pairs").iter().filter(|pair| pair["skipped"] == true).count();
    assert_eq!(skipped, 2 * 2, "the other two pairs of the node that hangs are not started");
    assert_eq!(mesh["outliers"], json!([]));
    assert!(mesh["stopped"].is_null());
}

#[test]
fn a_time_limit_ends_the_test_and_keeps_the_results() {
    let fabric = SimulatedFabric::new(7, 1);
    fabric.make_hang(2);
    fabric.stop_agent(7);
    let (mesh, stderr) = mesh(&fabric, "--rails --time-limit 10 --test-timeout 600", 1);
    let plan = &mesh["plan"];
    assert_eq!((&plan["longestSeconds"], &mesh["stopped"]), (&json!(10), &json!("timeLimit")), "{stderr}");
    assert!(stderr.contains(&format!("{} is left out: receive from", address(7))), "{stderr}");
    // One of the three pairs of the first round hangs until the time is over.
    let count = |is: fn(&Value) -> bool| list(&mesh, "pairs").iter().filter(|pair| is(pair)).count();
    assert_eq!(count(|pair| !pair["record"].is_null()), 2, "{mesh:#}");
    assert_eq!(count(|pair| pair["skipped"] == true), 12);
    assert!(plan["tookSeconds"].as_u64().unwrap() <= 60, "{plan}");
}

#[test]
fn options_reach_both_ends_and_results_are_stored_and_exposed_as_documented() {
    let fabric = SimulatedFabric::new(2, 2);
    let output =
        fabric.mesh("--duration 1 --rails --bidirectional --traffic-class 104 --service-level 3").ended(6);
    // 380 Gb/s are less than 80 % of both directions.
    assert!(output.stdout.contains("48 % of 2 times 400 Gb/s; expected at least 80 %"), "{output:?}");
    for node in [1, 2] {
        let started = fabric.perftests(node);
        assert_eq!(started.len(), 2, "{started:?}");
        for word in ["--bidirectional", "--tclass=104", "--sl=3"] {
            assert!(
                started.iter().all(|line| line.split(' ').any(|other| other == word)),
                "{word}: {started:?}"
            );
        }
    }
    let stored = fabric.controller().join("var/lib/silkrail/check");
    assert_eq!(fs::read_to_string(stored.join("history.jsonl")).unwrap().lines().count(), 2);
    let exposition = fs::read_to_string(stored.join("check_last.prom")).unwrap();
    assert_eq!(exposition.matches("silkrail_check_passed{").count(), 2, "{exposition}");
    assert!(
        exposition.contains("traffic_class=\"104\",service_level=\"3\",bidirectional=\"true\""),
        "{exposition}"
    );
    assert_eq!(MetricsReference::read().undocumented(&exposition), [""; 0]);
}
