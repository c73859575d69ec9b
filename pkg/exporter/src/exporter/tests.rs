//! Attribution to pods that share a device, on a node of files in a temporary directory.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink, path::Path, time::Duration};

use netns::NetNsId;
use rdma::{
    Device, Guid, HwCounter,
    resource::{
        BindMode, Context, CounterSet, ProtectionDomain, QpState, QpType, QueuePair, ResourceOwner as Maker,
    },
};

use super::*;
use crate::{DeviceInfo, DeviceResources, NameFilter, NoWorkloadResolver, RawCounters, psn::PacketCounts};

const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";
const THREAD: u32 = 304;

/// Creates a node with one pod and one thread in it.
fn node(root: &Path) {
    let process = root.join(format!("proc/{THREAD}"));
    fs::create_dir_all(&process).unwrap();
    fs::write(process.join("cgroup"), format!("0::/kubepods/pod{UID}/{}\n", "a".repeat(64))).unwrap();
    fs::create_dir_all(root.join("proc/self/ns")).unwrap();
    symlink("pid:[4026531836]", root.join("proc/self/ns/pid")).unwrap();
}

/// Creates or removes the pod's log directory, which contains its name.
fn name(root: &Path, is_there: bool) {
    let logs = root.join(format!("var/log/pods/ml_train-0_{UID}"));
    let done = if is_there { fs::create_dir_all(logs) } else { fs::remove_dir_all(logs) };
    done.unwrap();
}

fn exporter(root: &Path) -> Exporter {
    let settings = ExporterOptions {
        node: "gpu-07".into(),
        root: root.to_owned(),
        state_dir: "/run/silkrail".into(),
        collectors: CollectorSet::default().with(Collector::PidCounters),
        devices: NameFilter::default(),
        metrics: NameFilter::default(),
        device_timeout: Duration::from_secs(2),
        kept_files: 0,
        spiderpool: false,
        counter_file: None,
        counter_sink: None,
        psn_interval: Duration::from_secs(1),
        psn_drivers: Vec::new(),
        resources: crate::ResourceHealthStore::default(),
    };
    Exporter::new(settings, Arc::new(NoWorkloadResolver))
}

/// A device with a queue pair of an ended thread, in a context that the pod's thread created.
fn reading(counter_sets: Option<Vec<CounterSet>>) -> DeviceReading {
    let pair = QueuePair {
        number: 17,
        port: Some(1),
        kind: QpType::Rc,
        subtype: None,
        state: QpState::Rts,
        owner: Maker::Unknown,
        protection_domain: Some(3),
        remote_number: Some(18),
        send_psn: None,
        receive_psn: None,
    };
    let domain = ProtectionDomain { number: 3, users: None, context: Some(2), owner: Maker::Unknown };
    let objects = DeviceResources {
        queue_pairs: vec![pair],
        protection_domains: vec![domain],
        contexts: vec![Context { number: 2, owner: Maker::Process(THREAD) }],
        ..DeviceResources::default()
    };
    let device = Device {
        index: 7,
        name: "mlx5_0".into(),
        node_guid: Guid(0),
        sys_image_guid: Guid(0),
        fw_version: None,
        node_type: None,
        protocol: None,
        ports: 1,
        adaptive_moderation: None,
    };
    DeviceReading {
        place: NetNsId::new(4, 1),
        on_node: true,
        pod: None,
        process: None,
        device,
        facts: Arc::new(DeviceInfo::default()),
        ports: Vec::new(),
        counters: RawCounters::default(),
        traffic_class: None,
        resources: None,
        objects: Some(Arc::new(objects)),
        counter_sets,
    }
}

/// A counter set of an ended thread. Its pod is found by its queue pair.
fn set(value: u64) -> CounterSet {
    CounterSet {
        id: 1,
        port: Some(1),
        mode: BindMode::Auto,
        kind: None,
        owner: Maker::Unknown,
        queue_pairs: vec![17],
        counters: vec![HwCounter { name: "out_of_sequence".into(), value }],
    }
}

fn sampled(sent: u64, is_connected: bool) -> psn::SamplerOutput {
    let pod = Arc::new(PodInfo { namespace: String::new(), name: UID.into(), uid: Some(UID.into()) });
    let packets = ((pod.clone(), "mlx5_0".to_owned(), 1), PacketCounts { sent, received: 0 });
    psn::SamplerOutput {
        packets: if sent > 0 { [packets].into() } else { BTreeMap::new() },
        pods: if is_connected { [pod].into() } else { BTreeSet::new() },
        ..psn::SamplerOutput::default()
    }
}

impl Exporter {
    fn attribute_to(&mut self, readings: Vec<DeviceReading>, sampled: psn::SamplerOutput) {
        let mut errors = Vec::new();
        self.pods.read(&mut errors);
        self.attribute(readings, sampled, &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
    }

    /// Returns the first pod's name and the sum of its account with this attribution.
    fn first(&self, attribution: Attribution) -> Option<(String, u64)> {
        let (pod, accounts) = self.history.accounts().first_key_value()?;
        let counter_values = accounts.get(&("mlx5_0".to_owned(), 1, attribution))?;
        Some((pod.name.clone(), counter_values.values.iter().sum()))
    }
}

#[test]
fn a_set_of_an_ended_thread_belongs_to_the_pod_of_its_queue_pairs() {
    let root = tempfile::tempdir().unwrap();
    node(root.path());
    name(root.path(), true);
    let mut exporter = exporter(root.path());
    exporter.attribute_to(vec![reading(Some(Vec::new()))], psn::SamplerOutput::default());
    assert_eq!(exporter.first(Attribution::PidCounter), None);
    exporter.attribute_to(vec![reading(Some(vec![set(5)]))], psn::SamplerOutput::default());
    assert_eq!(exporter.first(Attribution::PidCounter), Some(("train-0".into(), 5)));
    exporter.attribute_to(vec![reading(None)], psn::SamplerOutput::default());
    exporter.attribute_to(vec![reading(Some(vec![set(6)]))], psn::SamplerOutput::default());
    let first = exporter.first(Attribution::PidCounter);
    assert_eq!(first, Some(("train-0".into(), 6)), "a missing reading is not a counter reset");
}

#[test]
fn sampled_packets_are_kept_while_the_pod_is_known_or_connected() {
    let root = tempfile::tempdir().unwrap();
    node(root.path());
    let mut exporter = exporter(root.path());
    exporter.attribute_to(Vec::new(), sampled(5, true));
    exporter.attribute_to(Vec::new(), sampled(0, true));
    exporter.attribute_to(Vec::new(), sampled(2, true));
    assert_eq!(exporter.first(Attribution::Psn), Some((UID.into(), 7)), "its name is unknown");
    name(root.path(), true);
    exporter.attribute_to(Vec::new(), sampled(3, false));
    exporter.attribute_to(Vec::new(), sampled(0, false));
    assert_eq!(exporter.first(Attribution::Psn), Some(("train-0".into(), 3)));
    name(root.path(), false);
    exporter.attribute_to(Vec::new(), sampled(0, false));
    assert_eq!(exporter.first(Attribution::Psn), None, "the pod is gone");
}

#[test]
fn traffic_on_a_device_belongs_to_the_pod_in_its_namespace_or_else_to_its_sole_user() {
    let exclusive = Arc::new(PodInfo { namespace: "ml".into(), name: "whole".into(), uid: None });
    let count = |base: &DeviceReading, value| DeviceReading {
        ports: vec![crate::counter_layout::tests::port(&[("out_of_sequence", value)], &[], &[])],
        ..base.clone()
    };
    let in_pod = DeviceReading { on_node: false, pod: Some(exclusive), ..reading(None) };
    let in_process = DeviceReading { on_node: false, ..reading(None) };
    for (base, account) in [
        (in_pod, Some(("whole", Attribution::ExclusiveNetns))),
        (reading(None), Some(("train-0", Attribution::SoleUser))),
        (in_process, None),
    ] {
        let root = tempfile::tempdir().unwrap();
        node(root.path());
        name(root.path(), true);
        let mut exporter = exporter(root.path());
        for value in [5, 9, 12] {
            exporter.attribute_to(vec![count(&base, value)], psn::SamplerOutput::default());
        }
        let found = exporter.history.accounts().iter().flat_map(|(pod, accounts)| {
            accounts.iter().map(|((_, _, how), values)| (pod.name.clone(), *how, values.values[0]))
        });
        let expected = account.map(|(pod, how)| (pod.to_owned(), how, 7));
        assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(expected));
    }
}

/// Its log directory is gone, and its processes have ended, but not all of its objects.
#[test]
fn a_pod_keeps_its_counters_while_it_has_objects() {
    let root = tempfile::tempdir().unwrap();
    node(root.path());
    let mut exporter = exporter(root.path());
    for value in [5, 9, 12] {
        let ports = vec![crate::counter_layout::tests::port(&[("out_of_sequence", value)], &[], &[])];
        exporter.attribute_to(vec![DeviceReading { ports, ..reading(None) }], psn::SamplerOutput::default());
    }
    assert_eq!(exporter.first(Attribution::SoleUser), Some((UID.into(), 7)));
    exporter
        .attribute_to(vec![DeviceReading { objects: None, ..reading(None) }], psn::SamplerOutput::default());
    assert_eq!(exporter.first(Attribution::SoleUser), None);
}

#[test]
fn objects_have_no_owner_if_the_processes_of_pods_are_not_visible() {
    let root = tempfile::tempdir().unwrap();
    node(root.path());
    fs::remove_file(root.path().join("proc/self/ns/pid")).unwrap();
    symlink("pid:[4026532123]", root.path().join("proc/self/ns/pid")).unwrap();
    let mut exporter = exporter(root.path());
    let exclusive = Arc::new(PodInfo { namespace: "ml".into(), name: "whole".into(), uid: None });
    let in_pod = DeviceReading { on_node: false, pod: Some(exclusive), ..reading(None) };
    let usages = |exporter: &mut Exporter, readings: &[DeviceReading]| {
        let mut errors = Vec::new();
        let (devices, _) = exporter.attribute(readings.to_vec(), psn::SamplerOutput::default(), &mut errors);
        (devices.iter().map(|device| device.usage.is_some()).collect::<Vec<_>>(), errors)
    };
    let both = [reading(None), in_pod];
    let (has_usage, errors) = usages(&mut exporter, &both);
    assert_eq!(has_usage, [false, true]);
    assert!(matches!(&errors[..], [one] if one.reason == ErrorReason::Permission), "{errors:?}");
    assert!(usages(&mut exporter, &[]).1.is_empty(), "a node without devices");
    exporter.settings.collectors = exporter.settings.collectors.without(Collector::Resources);
    assert!(usages(&mut exporter, &both).1.is_empty());
    fs::remove_file(root.path().join("proc/self/ns/pid")).unwrap();
    exporter.settings.collectors = exporter.settings.collectors.with(Collector::Resources);
    assert_eq!(usages(&mut exporter, &both).0, [false, true]);
}

#[test]
fn the_cgroup_of_each_pod_is_read_and_one_that_cannot_be_read_affects_no_other() {
    let root = tempfile::tempdir().unwrap();
    let mut exporter = exporter(root.path());
    let pods = ["0", "1", "2"].map(|digit| {
        let uid = format!("{digit}{}", &UID[1..]);
        let pod = PodInfo { namespace: "ml".into(), name: digit.into(), uid: Some(uid.clone()) };
        let dir = root.path().join(format!("sys/fs/cgroup/kubepods/pod{uid}"));
        fs::create_dir_all(&dir).unwrap();
        match digit {
            "0" => fs::create_dir(dir.join("rdma.current")).unwrap(),
            _ => fs::write(
                dir.join("rdma.current"),
                "mlx5_0 hca_handle=2 hca_object=3\nmlx5_1 hca_handle=0 hca_object=1\n",
            )
            .unwrap(),
        }
        (Arc::new(pod), format!("0::/kubepods/pod{uid}/x\n"))
    });
    let texts = BTreeMap::from(pods);
    let mut errors = Vec::new();
    let used = exporter.cgroup_use(&texts, &mut errors);
    let used: Vec<_> = used
        .iter()
        .map(|of| (&*of.pod.name, &*of.usage.device, of.usage.handles, of.usage.objects))
        .collect();
    assert_eq!(
        used,
        [("1", "mlx5_0", 2, 3), ("1", "mlx5_1", 0, 1), ("2", "mlx5_0", 2, 3), ("2", "mlx5_1", 0, 1)]
    );
    assert!(matches!(&errors[..], [one] if one.collector == Collector::Cgroup), "{errors:?}");
    exporter.settings.collectors = exporter.settings.collectors.without(Collector::Cgroup);
    assert!(exporter.cgroup_use(&texts, &mut errors).is_empty() && errors.len() == 1);
}

#[test]
fn a_pod_is_not_the_sole_user_if_the_kernel_has_connections() {
    let root = tempfile::tempdir().unwrap();
    node(root.path());
    name(root.path(), true);
    let mut exporter = exporter(root.path());
    let mut sole_user = |reading: &DeviceReading| {
        let mut errors = Vec::new();
        exporter.pods.read(&mut errors);
        let mut resolver = HolderResolver::new(
            &exporter.processes,
            &exporter.pods,
            &mut exporter.context_owners,
            &mut errors,
        );
        let usage = resolver.usage(reading).unwrap();
        usage.sole_user().map(|pod| pod.name.clone())
    };
    let mut reading = reading(None);
    let pairs = |reading: &mut DeviceReading, kind| {
        let objects = Arc::make_mut(reading.objects.as_mut().unwrap());
        let pairs = &mut objects.queue_pairs;
        pairs.push(QueuePair { number: 1, kind, owner: Maker::Kernel("nvme".into()), ..pairs[0].clone() });
    };
    pairs(&mut reading, QpType::Gsi);
    assert_eq!(
        sole_user(&reading).as_deref(),
        Some("train-0"),
        "each port has a management queue pair of the kernel"
    );
    pairs(&mut reading, QpType::Rc);
    assert_eq!(sole_user(&reading), None);
}

#[test]
fn a_device_in_two_namespaces_is_kept_where_it_was_read() {
    let gone = DeviceReading { place: NetNsId::new(4, 2), on_node: false, ..reading(None) };
    let read = DeviceReading { ports: vec![crate::PortReading::of(port())], ..reading(None) };
    let other = DeviceReading { device: Device { index: 8, ..read.device.clone() }, ..read.clone() };
    for both in [[gone.clone(), read.clone(), other.clone()], [read, gone, other]] {
        let once = deduplicate(both.into());
        assert_eq!(
            once.iter().map(|one| (one.device.index, one.on_node)).collect::<Vec<_>>(),
            [(7, true), (8, true)]
        );
    }
}

fn port() -> rdma::Port {
    rdma::Port {
        device: 7,
        device_name: "mlx5_0".into(),
        port: 1,
        state: rdma::PortState::Active,
        phys_state: rdma::PhysState::LinkUp,
        link: None,
        link_name: None,
        link_layer: rdma::LinkLayer::Ethernet,
    }
}
