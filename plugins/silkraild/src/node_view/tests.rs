use std::{net::Ipv6Addr, sync::Arc, time::UNIX_EPOCH};

use exporter::{
    CollectError, Collector, CollectorStatus, DeviceInfo, DeviceReading, DeviceSnapshot, DeviceUsage,
    ErrorReason, NodeSnapshot, PodInfo, PodTraffic, PortReading, RawCounters, ResourceHolder, ResourceShare,
    Workload,
};
use podmap::{AttachMode, Entry};
use serde_json::{Value, json};

use super::*;

fn counters<const N: usize>(list: [(&str, u64); N]) -> RawCounters {
    list.into_iter().collect()
}

fn port() -> PortReading {
    let gid = |index, gid: &str, kind| sysfs::GidEntry {
        index,
        gid: gid.parse::<Ipv6Addr>().unwrap(),
        kind,
        link: Some("eth0".into()),
    };
    PortReading {
        port: rdma::Port {
            device: 3,
            device_name: "mlx5_0".into(),
            port: 1,
            state: rdma::PortState::Active,
            phys_state: rdma::PhysState::LinkUp,
            link: Some(2),
            link_name: Some("eth0".into()),
            link_layer: rdma::LinkLayer::Ethernet,
        },
        hw_counters: counters([("out_of_sequence", 7), ("np_cnp_sent", 2)]),
        counters: counters([("port_rcv_data", 250)]),
        link_statistics: counters([("rx_prio3_pause", 9), ("rx_prio3_pause_duration", 1_500_000)]),
        physical: Default::default(),
        cm: None,
        speed: Some(100_000),
        gids: Some(Arc::new(sysfs::GidTable {
            capacity: 255,
            entries: vec![
                gid(0, "fe80::1", sysfs::GidType::RoceV1),
                gid(3, "::ffff:172.81.0.100", sysfs::GidType::RoceV2),
            ],
        })),
    }
}

fn device() -> DeviceReading {
    let facts = DeviceInfo {
        driver: Some("mlx5_core".into()),
        function: Some("0000:af:00.0".into()),
        numa_node: Some(1),
        ..DeviceInfo::default()
    };
    DeviceReading {
        place: netns::NetNsId::new(1, 2),
        on_node: true,
        pod: None,
        process: None,
        device: rdma::Device {
            index: 3,
            name: "mlx5_0".into(),
            node_guid: rdma::Guid(0),
            sys_image_guid: rdma::Guid(0),
            fw_version: None,
            node_type: None,
            protocol: Some("roce".into()),
            ports: 1,
            adaptive_moderation: None,
        },
        facts: Arc::new(facts),
        ports: vec![port()],
        counters: RawCounters::default(),
        traffic_class: Some(106),
        resources: Some(rdma::resource::ResourceCounts { qp: Some(4), ..Default::default() }),
        objects: None,
        counter_sets: None,
    }
}

fn pod(uid: Option<&str>) -> Arc<PodInfo> {
    Arc::new(PodInfo { namespace: "ml".into(), name: "train-0".into(), uid: uid.map(str::to_owned) })
}

fn entry() -> Entry {
    let mut entry = Entry::new("macvlan", "c1@net1".parse().unwrap());
    entry.pod = Some(podmap::PodRef { namespace: "ml".into(), name: "train-0".into(), uid: None });
    entry.network.name = "rail0".into();
    entry.network.ifname = "net1".into();
    entry.network.ips = vec!["172.81.0.100/16".into()];
    entry.rdma.mode = AttachMode::Shared;
    entry.rdma.ibdev = Some("mlx5_0".into());
    entry
}

fn report() -> NodeSnapshot {
    let mut report = NodeSnapshot::new("gpu-07".into(), UNIX_EPOCH + std::time::Duration::from_millis(1500));
    let share = ResourceShare {
        counts: [("qp", 2), ("mr", 1)].into(),
        queue_pairs: [(("rc".into(), "rts".into()), 1), (("rc".into(), "err".into()), 1)].into(),
        memory: 4096,
    };
    let node = ResourceShare { counts: [("cq", 1)].into(), ..ResourceShare::default() };
    let shares = [(ResourceHolder::Pod(pod(Some("u-1"))), share), (ResourceHolder::Node, node)].into();
    report.has_rdma = true;
    report.devices =
        vec![DeviceSnapshot::new(device(), Some(DeviceUsage { shares, kernel_connects: false }))];
    report.entries = vec![entry()].into();
    let owner = Workload {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        namespace: "ml".into(),
        name: "train".into(),
    };
    report.pods = [(pod(None), None), (pod(Some("u-1")), Some(Arc::new(owner)))].into();
    let counted = exporter::PortReading {
        hw_counters: counters([("tx_bytes", u64::MAX)]),
        counters: RawCounters::default(),
        ..port()
    };
    let sole = exporter::Attribution::SoleUser;
    report.traffic = vec![PodTraffic::new(pod(Some("u-1")), "mlx5_0", sole, &counted)];
    report
}

fn view(report: &NodeSnapshot) -> Value {
    serde_json::to_value(NodeView::from(report)).unwrap()
}

#[test]
fn a_device_has_ports_and_counters() {
    let view = view(&report());
    assert_eq!(view["node"], "gpu-07");
    assert_eq!(view["time"], 1.5);
    assert_eq!(
        view["devices"][0],
        json!({
            "name": "mlx5_0", "index": 3, "driver": "mlx5_core", "nodeGuid": "0000:0000:0000:0000",
            "pciAddress": "0000:af:00.0", "numaNode": 1, "isVf": false, "protocol": "roce", "netns": "host",
            "trafficClass": 106, "objects": {"qp": 4},
            "otherHolders": [{"who": "node", "device": "mlx5_0", "objects": {"cq": 1}, "memoryBytes": 0}],
            "ports": [{
                "number": 1, "state": "active", "physicalState": "link_up", "linkLayer": "Ethernet",
                "netdev": "eth0", "speed": 100_000_000_000_u64,
                "gids": {"capacity": 255, "entries": [
                    {"index": 0, "type": "RoCE v1", "address": "fe80::1", "netdev": "eth0"},
                    {"index": 3, "type": "RoCE v2", "address": "::ffff:172.81.0.100", "netdev": "eth0",
                     "pod": {"namespace": "ml", "name": "train-0"}}
                ]},
                "counters": {
                    "receiveBytes": 1000, "errors": {"out_of_sequence": 7}, "congestion": {"cnp_sent": 2},
                    "priorities": [
                        {"direction": "receive", "priority": "3", "pauseFrames": 9, "pauseSeconds": 1.5}
                    ]
                }
            }]
        })
    );
}

#[test]
fn entries_of_a_pod_with_and_without_its_uid_are_merged() {
    let view = view(&report());
    assert_eq!(
        view["pods"],
        json!([{
            "namespace": "ml", "name": "train-0", "uid": "u-1",
            "owner": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "ml", "name": "train"},
            "attachments": [{
                "interface": "net1", "network": "rail0", "addresses": ["172.81.0.100/16"], "mode": "shared",
                "device": "mlx5_0"
            }],
            "holdings": [{
                "device": "mlx5_0", "objects": {"mr": 1, "qp": 2}, "memoryBytes": 4096,
                "queuePairs": [
                    {"type": "rc", "state": "err", "count": 1}, {"type": "rc", "state": "rts", "count": 1}
                ]
            }],
            "traffic": [{
                "device": "mlx5_0", "port": 1, "attribution": "sole-user",
                "counters": {"transmitBytes": u64::MAX}
            }]
        }])
    );
}

#[test]
fn a_device_in_a_pod_names_the_pod_and_its_gids_are_the_pods() {
    let mut report = report();
    let reading = DeviceReading { on_node: false, pod: Some(pod(Some("u-1"))), ..device() };
    report.devices = vec![DeviceSnapshot::new(reading, None)];
    let view = view(&report);
    let device = &view["devices"][0];
    assert_eq!((&device["netns"], &device["pod"]["name"]), (&json!("pod"), &json!("train-0")));
    assert_eq!(device["ports"][0]["gids"]["entries"][0]["pod"]["name"], "train-0");
    assert_eq!(device["otherHolders"], Value::Null);
}

#[test]
fn a_collector_has_a_limited_number_of_error_messages() {
    let mut report = report();
    let error = |reason, what: &str| CollectError { collector: Collector::Gids, reason, what: what.into() };
    report.errors = vec![error(ErrorReason::Unsupported, "no such thing")];
    report.errors.extend((0..300).map(|_| error(ErrorReason::Timeout, "no answer")));
    let outcome = CollectorStatus { succeeded: false, spent: Default::default(), last_success: None };
    report.outcomes = [(Collector::Gids, outcome)].into();
    let view = view(&report);
    let gids = &view["collectors"][0];
    assert_eq!((&gids["name"], &gids["succeeded"]), (&json!("gids"), &json!(false)));
    assert_eq!((gids["troubles"].as_array().unwrap().len(), &gids["troubleCount"]), (10, &json!(301)));
    assert_eq!(
        gids["troubles"][0],
        json!({"reason": "timeout", "isFailure": true, "text": "no answer"}),
        "failures come first"
    );
}

#[test]
fn a_node_without_rdma_has_no_devices_and_no_mode() {
    let view = view(&NodeSnapshot::new("n".into(), UNIX_EPOCH));
    assert_eq!(
        (&view["hasRdma"], &view["devices"], &view["mode"]),
        (&json!(false), &json!([]), &Value::Null)
    );
}

/// A pod that was created again, while the former one still has objects.
#[test]
fn two_pods_of_the_same_name_have_their_own_objects_and_traffic() {
    let mut report = report();
    let qp = |count| ResourceShare { counts: [("qp", count)].into(), ..ResourceShare::default() };
    let shares = [
        (ResourceHolder::Pod(pod(Some("u-1"))), qp(1)),
        (ResourceHolder::Pod(pod(Some("u-2"))), qp(2)),
        (ResourceHolder::Unknown, qp(3)),
        (ResourceHolder::Node, qp(4)),
    ];
    let usage = DeviceUsage { shares: shares.into(), kernel_connects: false };
    report.devices = vec![DeviceSnapshot::new(device(), Some(usage))];
    report.pods = [(pod(Some("u-1")), None), (pod(Some("u-2")), None)].into();
    let mut entries = report.entries.to_vec();
    entries[0].pod.as_mut().unwrap().uid = Some("u-2".into());
    report.entries = entries.into();
    let view = view(&report);
    let pods = view["pods"].as_array().unwrap();
    let of = |pod: &Value| {
        let [attachments, holdings, traffic] =
            ["attachments", "holdings", "traffic"].map(|key| pod[key].as_array().unwrap().len());
        (pod["uid"].clone(), attachments, holdings, pod["holdings"][0]["objects"]["qp"].clone(), traffic)
    };
    assert_eq!(
        pods.iter().map(of).collect::<Vec<_>>(),
        [(json!("u-1"), 0, 1, json!(1), 1), (json!("u-2"), 1, 1, json!(2), 0)]
    );
    let others = view["devices"][0]["otherHolders"].as_array().unwrap();
    let others: Vec<_> = others.iter().map(|other| (&other["who"], &other["objects"]["qp"])).collect();
    assert_eq!(others, [(&json!("node"), &json!(4)), (&json!("unknown"), &json!(3))]);
}

#[test]
fn the_last_examination_is_shown_with_all_its_findings() {
    let mut report = report();
    assert_eq!(view(&report)["doctor"], Value::Null);
    let finding = |id: &str, severity: &str| doctor_record::RecordedFinding {
        id: id.into(),
        severity: severity.into(),
        object: "mlx5_0".into(),
        summary: "s".into(),
        since: 7,
    };
    report.doctor = Some(doctor_record::DoctorRecord {
        time: 100,
        findings: vec![finding("pfc", "error"), finding("kernel", "info")],
        ..Default::default()
    });
    let doctor = &view(&report)["doctor"];
    let ids: Vec<_> = doctor["findings"].as_array().unwrap().iter().map(|finding| &finding["id"]).collect();
    assert_eq!((&doctor["time"], ids), (&json!(100), vec![&json!("pfc"), &json!("kernel")]));
}
