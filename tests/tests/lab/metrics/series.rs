//! The number of series of each kind of object is that of the metrics reference.

use std::{collections::BTreeMap, fs, path::Path};

use silkrail_tests::{
    daemon::Daemon,
    machine::LabMachine,
    scrape::{Scrape, ScrapedSample},
};

use super::exclusive::attach;

/// Returns the numbers of the table in the metrics reference, by object.
fn table() -> BTreeMap<String, usize> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf/prometheus/metrics.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("\n## Number of series\n").unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split('|').map(str::trim).collect();
        Some((cells[0].to_owned(), cells[1].parse().ok()?))
    };
    section.lines().filter_map(row).collect()
}

/// Returns the number of series with this device and without a pod.
fn of_device(scrape: &Scrape, device: &str) -> usize {
    let is_of = |name: &str| !name.starts_with("rdma_pod_");
    scrape.samples().iter().filter(|sample| sample.label("device") == device && is_of(&sample.name)).count()
}

/// Returns the numbers of series by object: of the node, of PF `mlx5_0`, of a VF on the host and of one in a pod, and of the pod.
fn numbers(scrape: &Scrape, on_host: &str, in_pod: &str) -> BTreeMap<String, usize> {
    let is_of_pod = |name: &str| name.starts_with("rdma_pod_");
    let count = |is_counted: &dyn Fn(&ScrapedSample) -> bool| {
        scrape.samples().iter().filter(|sample| is_counted(sample)).count()
    };
    let is_of_node = |sample: &ScrapedSample| sample.label("device").is_empty() && !is_of_pod(&sample.name);
    let found = [
        ("a node", count(&is_of_node)),
        ("a PF with one port", of_device(scrape, "mlx5_0")),
        ("a VF on the host", of_device(scrape, on_host)),
        ("a VF in a pod", of_device(scrape, in_pod)),
        ("a pod with one VF", count(&|sample| is_of_pod(&sample.name))),
    ];
    found.map(|(object, number)| (object.to_owned(), number)).into()
}

#[test]
fn each_object_has_the_number_of_series_of_the_reference() {
    let machine = LabMachine::exclusive();
    let attached = attach(&machine, 0, "job-0");
    let on_host = machine.vf("eth0", 1);
    let daemon = Daemon::start(&["--state-dir", machine.node.state_dir().to_str().unwrap()]);
    let numbers = || numbers(&daemon.scrape(), &on_host.rdma, &attached.device);
    // A collection does not wait long for objects; they are in the next one.
    let found = (0..20).map(|_| numbers()).find(|found| *found == table()).unwrap_or_else(numbers);
    assert_eq!(found, table());
}
