//! Devices that pods have, by the kubelet's checkpoint and by the pod map.

use identifiers::Attachment;
use podmap::{AttachMode, Entry, PodRef};

use super::*;

/// Notes that a pod has been allocated devices of resources.
fn allocate_to_pod(node: &NodeReader, allocated: &[(&str, &str)]) {
    let entry = |(resource, id): &(&str, &str)| json!({"PodUID": "uid", "ContainerName": id, "ResourceName": resource, "DeviceIDs": {"0": [id]}});
    let entries: Vec<_> = allocated.iter().map(entry).collect();
    fs::create_dir_all(&node.kubelet.0).unwrap();
    let checkpoint = json!({"Data": {"PodDeviceEntries": entries}}).to_string();
    fs::write(node.kubelet.0.join("kubelet_internal_checkpoint"), checkpoint).unwrap();
}

/// The network of a pod with a device.
fn network(device: &str) -> Entry {
    let attachment = Attachment { container_id: "sandbox".parse().unwrap(), ifname: "net1".parse().unwrap() };
    let mut entry = Entry::new("sriov", attachment);
    entry.boot_id = bootid::current().unwrap().into();
    entry.created_at = "2026-01-02T00:00:00Z".into();
    let (namespace, name) = ("default".into(), "train".into());
    entry.pod = Some(PodRef { namespace, name, uid: Some("uid".into()) });
    entry.network.name = "rail0".into();
    entry.rdma.mode = AttachMode::Exclusive;
    entry.rdma.pci = Some(device.parse().unwrap());
    entry
}

#[test]
fn the_network_of_a_pod_has_a_device_that_was_allocated_to_it() {
    let card = Card::new(3);
    let (node, pool) = (card.reader(), card.pool(EXCLUSIVE));
    let [own, other, unknown] = [0, 1, 2].map(|index| vf("p0", index).id);
    // The other device belongs to another resource.
    let exclusive_devices = [own.clone(), other.clone()].into();
    pool.update(Instant::now(), &[vf("p0", 0)], &NodeState { exclusive_devices, ..NodeState::default() });
    let check = |allocated: &[(&str, &str)], network: Entry| {
        allocate_to_pod(&node, allocated);
        let sandbox = network.container.sandbox_id.parse().unwrap();
        let attachment = Attachment { container_id: sandbox, ifname: "net1".parse().unwrap() };
        node.pod_map.write(&attachment, &network).unwrap();
        pool.check(&texts(&[&own])).err().map(|error| error.to_string())
    };
    let own_only = [("a.io/vf", own.as_str())];
    let wrong = check(&own_only, network(&other)).unwrap();
    let expected = format!(
        "a.io/vf: pod default/train was allocated {own}, but its interface net1 (network rail0) has {other}"
    );
    assert!(wrong.starts_with(&expected), "{wrong}");
    assert_eq!(check(&own_only, network(&own)), None);
    assert_eq!(check(&[own_only[0], ("a.io/vf", &other)], network(&other)), None, "of another container");
    assert_eq!(check(&[own_only[0], ("b.io/vf", &other)], network(&other)), None, "of another resource");
    assert_eq!(check(&own_only, network(&unknown)), None, "a device of no resource");
    assert_eq!(check(&[], network(&other)), None, "of a pod that is gone");
    let mut shared = network(&other);
    shared.rdma.mode = AttachMode::Shared;
    assert_eq!(check(&own_only, shared), None, "a device that pods share");
    let mut without_uid = network(&other);
    without_uid.pod.as_mut().unwrap().uid = None;
    assert_eq!(check(&own_only, without_uid), None, "the runtime does not tell the UID");
    let of_former_boot = Entry { boot_id: "former".into(), ..network(&other) };
    assert_eq!(check(&own_only, of_former_boot), None);
    let mut of_former_sandbox = network(&other);
    of_former_sandbox.container.sandbox_id = "former".into();
    of_former_sandbox.created_at = "2026-01-01T00:00:00Z".into();
    check(&own_only, network(&own));
    assert_eq!(check(&own_only, of_former_sandbox), None, "its DEL failed");
}

/// A pod without a network for the device would start without it.
#[test]
fn a_container_does_not_start_while_another_pod_has_its_device() {
    let card = Card::new(1);
    let (node, pool) = (card.reader(), card.pool(EXCLUSIVE));
    let id = vf("p0", 0).id;
    allocate_to_pod(&node, &[("a.io/vf", &id)]);
    let entry = |sandbox: &str, uid: &str, created_at: &str| {
        let mut entry = network(&id);
        entry.created_at = created_at.into();
        entry.container.sandbox_id = sandbox.into();
        entry.pod.as_mut().unwrap().uid = Some(uid.into());
        let attachment =
            Attachment { container_id: sandbox.parse().unwrap(), ifname: "net1".parse().unwrap() };
        node.pod_map.write(&attachment, &entry).unwrap();
        pool.check(&texts(&[&id])).err().map(|error| error.to_string())
    };
    assert_eq!(
        entry("z", "former", "2026-01-01T00:00:00Z"),
        None,
        "it has returned, and its DEL is not done"
    );
    card.give_away(0);
    let error = entry("z", "former", "2026-01-01T00:00:00Z").unwrap();
    assert_eq!(error, "a.io/vf: pod default/train still has 0000:af:00.2");
    assert_eq!(entry("a", "uid", "2026-01-02T00:00:00Z"), None, "the DEL of the former pod failed");
}

#[test]
fn every_network_of_a_pod_is_checked() {
    let card = Card::new(2);
    let (node, pool) = (card.reader(), card.pool(EXCLUSIVE));
    let [own, other] = [0, 1].map(|index| vf("p0", index).id);
    let exclusive_devices = [own.clone(), other.clone()].into();
    pool.update(Instant::now(), &[vf("p0", 0)], &NodeState { exclusive_devices, ..NodeState::default() });
    allocate_to_pod(&node, &[("a.io/vf", &own)]);
    for (ifname, device) in [("net1", &own), ("net2", &other)] {
        let mut entry = network(device);
        entry.network.ifname = ifname.into();
        let attachment =
            Attachment { container_id: "sandbox".parse().unwrap(), ifname: ifname.parse().unwrap() };
        node.pod_map.write(&attachment, &entry).unwrap();
    }
    let wrong = pool.check(&texts(&[&own])).unwrap_err().to_string();
    assert!(wrong.contains("its interface net2 (network rail0) has 0000:af:00.3"), "{wrong}");
}

/// As after resources were renamed, or a device was moved to another one. Its RDMA device is shared, or its pod has no network
/// yet, so that it is in the node's namespace.
#[test]
fn a_device_that_the_kubelet_has_allocated_as_another_resource_is_in_use_until_its_pod_has_ended() {
    let card = Card::new(1);
    let (node, pool) = (card.reader(), card.pool(EXCLUSIVE));
    let id = vf("p0", 0).id;
    let pods = card.root.path().join("var/log/pods");
    let uid = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";
    let log = pods.join(format!("default_train_{uid}"));
    fs::create_dir_all(&log).unwrap();
    fs::write(card.function(0).join("class"), "0x020000\n").unwrap();
    let reason = |resource: &str| {
        let entry = json!({"PodUID": uid, "ResourceName": resource, "DeviceIDs": {"0": [id]}});
        let checkpoint = json!({"Data": {"PodDeviceEntries": [entry]}}).to_string();
        fs::create_dir_all(&node.kubelet.0).unwrap();
        fs::write(node.kubelet.checkpoint(), checkpoint).unwrap();
        pool.update(Instant::now(), &[vf("p0", 0)], &node.read().unwrap().state);
        (pool.unhealthy(), pool.allocate(&texts(&[&id])).err().map(|error| error.to_string()))
    };
    assert_eq!(reason("a.io/vf"), (vec![], None));
    let (unhealthy, refused) = reason("b.io/former");
    assert_eq!(unhealthy, [(id.clone(), "in_use")]);
    let text = format!("the kubelet has allocated it to UID {uid} as b.io/former");
    assert!(refused.unwrap().contains(&text));
    let cgroup = card.root.path().join(format!("sys/fs/cgroup/kubepods/burstable/pod{uid}"));
    fs::create_dir_all(&cgroup).unwrap();
    fs::remove_dir(&log).unwrap();
    assert_eq!(reason("b.io/former").0.len(), 1, "its processes may still run");
    fs::remove_dir(&cgroup).unwrap();
    assert_eq!(reason("b.io/former"), (vec![], None), "the checkpoint has it until the next allocation");
    fs::remove_dir(&pods).unwrap();
    assert_eq!(reason("b.io/former").0.len(), 1, "nobody can tell whether it has ended");
}

/// Until the kubelet notices that a former pod has ended, its checkpoint has both.
#[test]
fn of_two_pods_with_a_device_one_has_its_present_nodes() {
    let card = Card::new(1);
    let id = texts(&[&vf("p0", 0).id]);
    let answer = card.pool(EXCLUSIVE).allocate(&id).unwrap();
    let given = |node: &str| {
        let devices = vec![DeviceSpec { host_path: node.into(), ..DeviceSpec::default() }];
        BASE64_STANDARD.encode(ContainerAllocateResponse { devices, ..answer.clone() }.encode_to_vec())
    };
    for (nodes, is_right) in
        [(["uverbs9", "uverbs2"], true), (["uverbs2", "uverbs9"], true), (["uverbs8", "uverbs9"], false)]
    {
        let entry = |(pod, node): (&str, &str)| json!({"PodUID": pod, "ResourceName": "a.io/vf", "DeviceIDs": id, "AllocResp": given(&format!("/dev/infiniband/{node}"))});
        let entries: Vec<_> = ["former", "present"].into_iter().zip(nodes).map(entry).collect();
        let kubelet = card.reader().kubelet;
        fs::create_dir_all(&kubelet.0).unwrap();
        let file = json!({"Data": {"PodDeviceEntries": entries}}).to_string();
        fs::write(kubelet.checkpoint(), file).unwrap();
        let device_use = DeviceUse::new(&[], "boot", KubeletCheckpoint::read(&kubelet).ok());
        let pool = card.pool(EXCLUSIVE);
        pool.update(Instant::now(), &[vf("p0", 0)], &NodeState { device_use, ..NodeState::default() });
        assert_eq!(pool.check(&id).is_ok(), is_right, "{nodes:?}");
    }
}

#[test]
fn multus_finds_the_facts_of_a_device_that_a_pod_has() {
    let card = Card::new(2);
    let pool = card.pool(EXCLUSIVE);
    let ids = [0, 1].map(|index| vf("p0", index).id);
    let files = ids.clone().map(|id| card.root.path().join(format!("dp/a.io-vf-{id}-device.json")));
    let exist = || files.each_ref().map(|file| file.exists());
    let update = |checkpoint| {
        let device_use = DeviceUse::new(&[], "boot", checkpoint);
        let node = NodeState { device_use, ..NodeState::default() };
        pool.update(Instant::now(), &[vf("p0", 0), vf("p0", 1)], &node);
        pool.begin();
    };
    // A process that was killed had allocated both, and the pod of the second has ended.
    let left = json!({"type": "pci", "version": "1.1.0", "pci": {"rdma-device": "mlx5_7"}}).to_string();
    files.iter().for_each(|file| fs::write(file, &left).unwrap());
    update(None);
    assert_eq!(exist(), [true, true], "the kubelet's checkpoint cannot be read");
    allocate_to_pod(&card.reader(), &[("a.io/vf", &ids[0])]);
    let checkpoint = KubeletCheckpoint::read(&card.reader().kubelet).unwrap();
    update(Some(checkpoint.clone()));
    assert_eq!((exist(), fs::read_to_string(&files[0]).unwrap()), ([true, false], left));
    fs::remove_file(&files[0]).unwrap();
    update(Some(checkpoint));
    assert_eq!(exist(), [true, false]);
    pool.allocate(&[ids[1].clone()]).unwrap();
    for file in &files {
        let written: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert!(written["pci"]["rdma-device"].is_string(), "{written}");
    }
    pool.end();
    assert_eq!(exist(), [false, false]);
}
