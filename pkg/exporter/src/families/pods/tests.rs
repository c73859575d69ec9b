//! Pods with several attachments, and former pods of the same name.

use std::time::UNIX_EPOCH;

use kubepods::RdmaUsage;
use sysfs::{GidEntry, GidTable, GidType};

use super::*;
use crate::{
    DeviceSnapshot, DeviceUsage, Workload,
    counter_layout::tests::port,
    families::tests::{device, lines_with},
    node_snapshot::CgroupUsage,
};

fn pod(name: &str, uid: Option<&str>) -> Arc<PodInfo> {
    Arc::new(PodInfo { namespace: "ml".into(), name: name.into(), uid: uid.map(str::to_owned) })
}

fn entry(pod: &str, interface: &str, mode: AttachMode) -> Entry {
    let mut entry = Entry::new("rdma", format!("c1@{interface}").parse().unwrap());
    entry.pod = Some(podmap::PodRef { namespace: "ml".into(), name: pod.into(), uid: None });
    (entry.network.name, entry.rdma.mode, entry.rdma.ibdev) = ("rail".into(), mode, Some("d0".into()));
    entry
}

fn report() -> NodeSnapshot {
    NodeSnapshot::new("n".into(), UNIX_EPOCH)
}

#[test]
fn each_attachment_with_a_device_is_a_series_once() {
    let mut report = report();
    let mut exclusive = entry("a", "net2", AttachMode::Exclusive);
    exclusive.rdma.pci = Some("0000:af:00.2".parse().unwrap());
    let mut nameless = entry("b", "net1", AttachMode::Shared);
    nameless.pod = None;
    let shared = entry("a", "net1", AttachMode::Shared);
    report.entries =
        [entry("a", "net3", AttachMode::None), shared.clone(), exclusive, shared, nameless].into();
    let labels = r#"pod_namespace="ml",pod_name="a",device="d0""#;
    let expected = [
        format!(
            r#"rdma_pod_attachment_info{{{labels},mode="exclusive",network="rail",interface="net2",pci_address="0000:af:00.2"}} 1"#
        ),
        format!(r#"rdma_pod_attachment_info{{{labels},mode="shared",network="rail",interface="net1"}} 1"#),
    ];
    assert_eq!(lines_with(&report, "rdma_pod_attachment"), expected);
}

#[test]
fn objects_of_pods_with_the_same_name_are_added_up_and_others_are_not_shown() {
    let share = |qp, memory| ResourceShare {
        counts: [("qp", qp), ("mr", 1)].into(),
        queue_pairs: [(("RC".to_owned(), "rts".to_owned()), qp)].into(),
        memory,
    };
    let shares = [
        (ResourceHolder::Pod(pod("a", Some("1"))), share(2, 10)),
        (ResourceHolder::Pod(pod("a", Some("2"))), share(3, 20)),
        (
            ResourceHolder::Pod(pod("b", None)),
            ResourceShare { counts: [("qp", 1)].into(), ..ResourceShare::default() },
        ),
        (ResourceHolder::Node, share(9, 9)),
        (ResourceHolder::Unknown, share(9, 9)),
    ];
    let mut report = report();
    let usage = DeviceUsage { shares: shares.into(), kernel_connects: false };
    report.devices.push(DeviceSnapshot::new(device(Vec::new()), Some(usage)));
    let of = |pod: &str| format!(r#"device="d0",pod_namespace="ml",pod_name="{pod}""#);
    let (a, b) = (of("a"), of("b"));
    let expected = [
        format!(r#"rdma_pod_queue_pairs{{{a},type="RC",state="rts"}} 5"#),
        format!("rdma_pod_registered_memory_bytes{{{a}}} 30"),
        format!(r#"rdma_pod_resources{{{a},resource="mr"}} 2"#),
        format!(r#"rdma_pod_resources{{{a},resource="qp"}} 5"#),
        format!(r#"rdma_pod_resources{{{b},resource="qp"}} 1"#),
    ];
    assert_eq!(lines_with(&report, "rdma_pod_"), expected);
}

#[test]
fn gids_of_a_pod_are_counted_for_each_port() {
    let gid =
        |index, text: &str| GidEntry { index, gid: text.parse().unwrap(), kind: GidType::RoceV2, link: None };
    let table = |gids: &[&str]| {
        let entries = (0..).zip(gids).map(|(index, text)| gid(index, text)).collect();
        Some(Arc::new(GidTable { capacity: 255, entries }))
    };
    let mut reading = device(vec![port(&[], &[], &[]), port(&[], &[], &[]), port(&[], &[], &[])]);
    reading.ports[0].gids = table(&["fe80::1", "::ffff:10.0.0.1", "fd00::1", "::ffff:10.0.0.2"]);
    reading.ports[2].gids = table(&["::ffff:10.0.0.1"]);
    let mut report = report();
    report.devices.push(DeviceSnapshot::new(reading, None));
    let with_ips = |pod: &str, ips: &[&str]| {
        let mut entry = entry(pod, "net1", AttachMode::Shared);
        entry.network.ips = ips.iter().map(|ip| (*ip).to_owned()).collect();
        entry
    };
    report.entries = [with_ips("a", &["10.0.0.1/16", "fd00::1/64"]), with_ips("b", &["10.0.0.2/16"])].into();
    let expected = [(1, "a", 2), (1, "b", 1), (3, "a", 1)].map(|(port, pod, count)| {
        format!(
            r#"rdma_pod_gid_entries{{device="d0",port="{port}",pod_namespace="ml",pod_name="{pod}"}} {count}"#
        )
    });
    assert_eq!(lines_with(&report, "rdma_pod_gid"), expected);
    let of_ports = [
        r#"rdma_port_gid_capacity{device="d0",port="1"} 255"#,
        r#"rdma_port_gid_capacity{device="d0",port="3"} 255"#,
    ];
    assert_eq!(lines_with(&report, "rdma_port_gid_capacity"), of_ports);
    let sum = [r#"rdma_resources{device="d0",resource="gid"} 5"#];
    assert_eq!(lines_with(&report, "rdma_resources{"), sum, "of all ports");
    assert_eq!(
        lines_with(&report, "rdma_resource_limit"),
        [r#"rdma_resource_limit{device="d0",resource="gid"} 510"#]
    );
}

#[test]
fn a_pod_has_its_workload_and_the_sum_of_its_cgroups() {
    let mut report = report();
    let owner = Workload {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        namespace: "ml".into(),
        name: "train".into(),
    };
    report.pods = [(pod("a", Some("1")), Some(Arc::new(owner))), (pod("b", None), None)].into();
    report.cgroups = [("a", "1", 2), ("a", "2", 3), ("b", "3", 4)]
        .map(|(name, uid, handles)| CgroupUsage {
            pod: pod(name, Some(uid)),
            usage: RdmaUsage { device: "d0".into(), handles, objects: 10 * handles },
        })
        .into();
    let owner = r#"owner_api_version="batch/v1",owner_kind="Job",owner_namespace="ml",owner_name="train""#;
    let cgroup = |what: &str, pod: &str, value| {
        format!(r#"rdma_pod_cgroup_{what}{{device="d0",pod_namespace="ml",pod_name="{pod}"}} {value}"#)
    };
    let expected = [
        cgroup("handles", "a", 5),
        cgroup("handles", "b", 4),
        cgroup("objects", "a", 50),
        cgroup("objects", "b", 40),
        format!(r#"rdma_pod_info{{pod_namespace="ml",pod_name="a",pod_uid="1",{owner}}} 1"#),
        r#"rdma_pod_info{pod_namespace="ml",pod_name="b"} 1"#.to_owned(),
    ];
    assert_eq!(lines_with(&report, "rdma_pod_"), expected);
}
