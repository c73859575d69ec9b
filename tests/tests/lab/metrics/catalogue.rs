//! The metrics reference and the exposition of silkraild contain the same metrics and labels.

use std::{collections::BTreeSet, fs, time::SystemTime};

use serde_json::json;
use silkrail_tests::{
    chain::Chain,
    cli::silkrail,
    daemon::Daemon,
    kube_pod::KubePod,
    machine::LabMachine,
    reference::{MetricsReference, ReferenceMetric},
    rxe::Rxe,
    scrape::Scrape,
};
use testkit::wait_until;

use super::{
    other_plugins::job_with,
    shared::{enable_rdma_cgroups, pingpong},
};

const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

/// Metrics of mlx5 that the simulated device does not have; `pkg/exporter/src/catalogue` lists them.
const NOT_SIMULATED: [&str; 28] = [
    // The machine's network card has no FEC and no module, and counts less than others.
    "rdma_module_bias_amperes",
    "rdma_module_info",
    "rdma_module_receive_power_limit_watts",
    "rdma_module_receive_power_watts",
    "rdma_module_supply_volts",
    "rdma_module_temperature_celsius",
    "rdma_module_temperature_limit_celsius",
    "rdma_module_transmit_power_watts",
    "rdma_port_fcs_errors_total",
    "rdma_port_fec_corrected_bits_total",
    "rdma_port_fec_corrected_blocks_total",
    "rdma_port_fec_info",
    "rdma_port_fec_uncorrectable_blocks_total",
    "rdma_port_link_down_events_total",
    "rdma_port_pause_frames_total",
    "rdma_port_symbol_errors_total",
    "rdma_pod_req_rnr_retries_exceeded_total",
    "rdma_pod_req_transport_retries_exceeded_total",
    "rdma_req_rnr_retries_exceeded_total",
    "rdma_req_transport_retries_exceeded_total",
    "rdma_rx_corrected_bits_phy_total",
    "rdma_rx_global_pause_total",
    "rdma_rx_pcs_symbol_err_phy_total",
    "rdma_rx_prio_buf_discard_total",
    "rdma_rx_prio_cong_discard_total",
    "rdma_rx_prio_marked_total",
    "rdma_tx_errors_phy_total",
    "rdma_tx_global_pause_total",
];

/// Labels without values in the lab: the simulated device has no firmware or NUMA node, and there is no API server to
/// report owners (`pkg/workloads/tests`).
const WITHOUT_VALUE: [(&str, &str); 6] = [
    ("rdma_device_info", "fw_version"),
    ("rdma_device_info", "numa_node"),
    ("rdma_pod_info", "owner_api_version"),
    ("rdma_pod_info", "owner_kind"),
    ("rdma_pod_info", "owner_name"),
    ("rdma_pod_info", "owner_namespace"),
];

fn exposition(machine: &LabMachine) -> String {
    // With a web configuration file, a metric reports whether the file was read.
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let web = file("web.yml", "{}");
    // Pods cannot share a device in exclusive mode: it is unhealthy.
    let shared = json!({"resourceName": "hca", "rdmaHcaMax": 1, "selectors": {"ifNames": ["eth1"]}});
    let resources = file("resources.json", &json!({"configList": [shared]}).to_string());
    let state_dir = machine.node.state_dir().to_str().unwrap().to_owned();
    let kubelet = directory.path().to_str().unwrap();
    let options = [
        "--enable=cm",
        "--web.config.file",
        &web,
        "--device-plugin",
        &resources,
        "--device-plugin.dir",
        kubelet,
    ];
    let daemon = Daemon::start(&[&["--state-dir", &state_dir], &options[..]].concat());
    let has_resources = |scrape: &Scrape| !scrape.of("rdma_device_plugin_devices", &[]).is_empty();
    let began = SystemTime::now();
    while !has_resources(&daemon.scrape_after(SystemTime::now())) {
        assert!(
            began.elapsed().unwrap().as_secs() < 120,
            "the devices of the kubelet are not in the metrics"
        );
    }
    daemon.request("GET /metrics", &[]).text()
}

/// Returns the exposition after a run of `silkrail gc`, with a pod that has a VF, and a driver that refuses some of its
/// port counters.
fn exclusive() -> String {
    let machine = LabMachine::exclusive();
    let (vf, netns, pod) = (machine.vf("eth0", 0), machine.node.pod("a"), KubePod::new("train", "a", UID));
    let chain = Chain::new(&machine, &vf, &netns, json!({})).args(&pod.cni_args());
    chain.add();
    let _refuse = machine.simulate(&machine.vf("eth0", 1).pci, "port_counters_refuse", "Y");
    let state_dir = machine.node.state_dir().display().to_string();
    silkrail(&format!("gc --yes --state-dir {state_dir}")).ended(0);
    // The machine has no plugin in /opt/cni/bin.
    let site = tempfile::NamedTempFile::new().unwrap();
    fs::write(site.path(), "roles:\n  - {name: rail, match: {link: eth0}, cabled: true}\n").unwrap();
    let site = site.path().display();
    let recorded = silkrail(&format!("doctor --record --site {site} --state-dir {state_dir}"));
    assert!(recorded.stdout.contains("[cni-missing]"), "{recorded:?}");
    // A process outside of Kubernetes with a device.
    let of_process = machine.vf("eth1", 1);
    let job = job_with(&machine, &of_process);
    let text = exposition(&machine);
    drop(job);
    wait_until("the device is on the host", || machine.rdma_devices().contains(&of_process.rdma));
    text
}

/// Returns the exposition with a pod that uses a device of the node, its own address and the `rdma` cgroup controller.
fn shared() -> String {
    let rxe = Rxe::new();
    let machine = &rxe.machine;
    enable_rdma_cgroups();
    let (netns, pod) = (machine.node.pod("a"), KubePod::new("train", "a", UID));
    let call = machine.plugin("macvlan", &json!({"master": "eth0", "rdma": {"require": true}}));
    let call = call.pod(&netns).args(&pod.cni_args());
    call.add().ok();
    let class = machine.simulate(&machine.vf("eth0", 0).pci, "traffic_class", "106");
    let _pair = pingpong(&rxe, &pod, &pod);
    let text = exposition(machine);
    drop(class);
    call.del().done();
    text
}

/// Pairs of a metric and a label.
type MetricLabels<'a> = BTreeSet<(&'a str, &'a str)>;

fn exported(scrapes: &[Scrape]) -> MetricLabels<'_> {
    let samples = scrapes.iter().flat_map(Scrape::samples);
    samples
        .flat_map(|sample| sample.labels.keys().map(|label| (sample.name.as_str(), label.as_str())))
        .collect()
}

fn expected(metrics: &[ReferenceMetric]) -> MetricLabels<'_> {
    // `silkrail check` writes its own metrics.
    let of_silkraild = metrics.iter().filter(|metric| {
        !["silkrail_check_", "silkrail_probe"].iter().any(|prefix| metric.name.starts_with(prefix))
    });
    let shown = of_silkraild.filter(|metric| !NOT_SIMULATED.contains(&metric.name.as_str()));
    let labels =
        shown.flat_map(|metric| metric.labels.iter().map(|label| (metric.name.as_str(), label.as_str())));
    labels.filter(|pair| !WITHOUT_VALUE.contains(pair)).collect()
}

#[test]
fn the_reference_lists_every_metric_and_label_and_all_are_exported() {
    let reference = MetricsReference::read();
    let texts = [exclusive(), shared()];
    for text in &texts {
        assert_eq!(reference.undocumented(text), Vec::<String>::new());
    }
    let (scrapes, metrics) = (texts.map(|text| Scrape::parse(&text)), reference.metrics());
    let (exported, expected) = (exported(&scrapes), expected(&metrics));
    assert_eq!(
        expected.difference(&exported).collect::<Vec<_>>(),
        Vec::<&(&str, &str)>::new(),
        "are missing"
    );
    let names: Vec<_> = scrapes.iter().flat_map(Scrape::names).collect();
    assert_eq!(NOT_SIMULATED.iter().find(|name| names.contains(name)), None, "is exported");
    assert_eq!(WITHOUT_VALUE.iter().find(|pair| exported.contains(pair)), None, "has a value");
}
