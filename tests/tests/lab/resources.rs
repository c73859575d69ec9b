//! The resources of a device and their owners, compared with the output of the `rdma` tool, on objects of real programs.
//!
//! The device is rxe, the kernel's software RoCE, the only device of the lab whose queue pairs carry traffic.

use std::net::SocketAddr;

use ::rdma::{
    Device, Error, Handle,
    resource::{CmIdState, PortSpace, QpState, QpType, ResourceCounts, ResourceOwner, SrqType},
};
use serde_json::{Value, json};
use silkrail_tests::rxe::{ADDRESS, DEVICE, Rxe, RxeProgram};
use sysfs::Sysfs;
use testkit::{Observe, wait_until};

/// Returns the owner of the objects that a program created.
fn owner_of(program: &RxeProgram) -> ResourceOwner {
    ResourceOwner::Process(program.pid())
}

fn open() -> Handle {
    ::rdma::Handle::open(&Sysfs::system()).unwrap()
}

fn device(rdma: &Handle) -> Device {
    rdma.find_device(DEVICE).unwrap().unwrap()
}

/// Returns an owner as `rdma` prints it: its `pid`, or only its `comm` for objects of the kernel.
fn owner(owner: &ResourceOwner) -> Value {
    match owner {
        ResourceOwner::Process(thread) => json!(thread),
        ResourceOwner::Kernel(name) => json!(name),
        ResourceOwner::Unknown => Value::Null,
    }
}

/// Returns some keys of the objects that `rdma` prints, and their owners, sorted.
fn expected(objects: &[Value], keys: &[&str]) -> Vec<Value> {
    sorted(objects.iter().map(|object| {
        let owner = if object["pid"].is_null() { &object["comm"] } else { &object["pid"] };
        keys.iter().map(|key| object[key].clone()).chain([owner.clone()]).collect()
    }))
}

fn sorted(objects: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut objects: Vec<_> = objects.collect();
    objects.sort_by_key(Value::to_string);
    objects
}

#[test]
fn queue_pairs_match_the_output_of_the_rdma_tool() {
    let rxe = Rxe::new();
    let [server, client] = rxe.pingpong("ibv_rc_pingpong", &[]);
    let rdma = open();
    let device = device(&rdma);
    let connected =
        || rxe.printed("qp").iter().filter(|one| one["type"] == "RC" && one["state"] == "RTS").count();
    wait_until("both ends are connected", || connected() == 2);

    let queue_pairs = rdma.queue_pairs(&device).unwrap().unwrap();
    let read = queue_pairs.iter().map(|one| {
        let (kind, state) = (one.transport().to_uppercase(), one.state.to_string().to_uppercase());
        json!([
            one.number,
            one.port,
            kind,
            state,
            one.protection_domain,
            one.remote_number,
            owner(&one.owner)
        ])
    });
    let keys = ["lqpn", "port", "type", "state", "pdn", "rqpn"];
    assert_eq!(sorted(read), expected(&rxe.printed("qp"), &keys));

    let [of_server, of_client] = [&server, &client].map(|program| {
        let mut own = queue_pairs.iter().filter(|one| one.owner == owner_of(program));
        let one = own.next().unwrap();
        assert_eq!((one.kind, one.state, own.next()), (QpType::Rc, QpState::Rts, None));
        one
    });
    assert_eq!(of_server.remote_number, Some(of_client.number));
    assert_eq!(of_client.remote_number, Some(of_server.number));
    for number in [of_client.send_psn, of_client.receive_psn] {
        assert!(number.is_some_and(|number| number < 1 << 24), "{of_client:?}");
    }
    let gsi = queue_pairs.iter().find(|one| one.kind == QpType::Gsi).unwrap();
    assert_eq!((gsi.number, &gsi.owner), (1, &ResourceOwner::Kernel("ib_core".into())));
}

#[test]
fn a_send_increments_the_packet_sequence_number() {
    let rxe = Rxe::new();
    let [_server, client] = rxe.pingpong("ibv_rc_pingpong", &[]);
    let rdma = open();
    let device = device(&rdma);
    let sent = || {
        let all = rdma.queue_pairs(&device).unwrap().unwrap();
        let own = all.into_iter().find(|one| one.owner == owner_of(&client) && one.state == QpState::Rts);
        own.and_then(|one| one.send_psn)
    };
    let mut first = None;
    wait_until("the client sends", || {
        let now = sent();
        first = first.or(now);
        now.is_some() && now != first
    });
}

#[test]
fn the_other_objects_match_the_output_of_the_rdma_tool() {
    let rxe = Rxe::new();
    let programs = rxe.pingpong("ibv_rc_pingpong", &[]);
    let rdma = open();
    let device = device(&rdma);
    wait_until("both ends are ready", || {
        rxe.printed("qp").iter().filter(|one| one["state"] == "RTS").count() >= 3
    });

    let domains = rdma.protection_domains(&device).unwrap().unwrap();
    let read = domains.iter().map(|one| json!([one.number, one.users, one.context, owner(&one.owner)]));
    assert_eq!(sorted(read), expected(&rxe.printed("pd"), &["pdn", "users", "ctxn"]));

    let queues = rdma.completion_queues(&device).unwrap().unwrap();
    let read =
        queues.iter().map(|one| json!([one.number, one.entries, one.users, one.context, owner(&one.owner)]));
    assert_eq!(sorted(read), expected(&rxe.printed("cq"), &["cqn", "cqe", "users", "ctxn"]));

    let regions = rdma.memory_regions(&device).unwrap().unwrap();
    let read =
        regions.iter().map(|one| json!([one.number, one.length, one.protection_domain, owner(&one.owner)]));
    assert_eq!(sorted(read), expected(&rxe.printed("mr"), &["mrn", "mrlen", "pdn"]));

    let contexts = rdma.contexts(&device).unwrap().unwrap();
    let read = contexts.iter().map(|one| json!([one.number, owner(&one.owner)]));
    assert_eq!(sorted(read), expected(&rxe.printed("ctx"), &["ctxn"]));

    // The owner of a queue pair without one is found through its protection domain and context.
    for program in &programs {
        let all = rdma.queue_pairs(&device).unwrap().unwrap();
        let queue_pair = all.iter().find(|one| one.owner == owner_of(program)).unwrap();
        let domain = domains.iter().find(|one| Some(one.number) == queue_pair.protection_domain).unwrap();
        let context = contexts.iter().find(|one| Some(one.number) == domain.context).unwrap();
        assert_eq!(context.owner, owner_of(program));
        let region = regions.iter().find(|one| one.owner == owner_of(program)).unwrap();
        assert_eq!((region.length, region.protection_domain), (Some(4096), Some(domain.number)));
    }
    assert_eq!(rdma.counter_sets(&device).unwrap(), Some(vec![]), "rxe binds no counters");
}

#[test]
fn a_shared_receive_queue_reports_its_queue_pairs() {
    let rxe = Rxe::new();
    let [server, _client] = rxe.pingpong("ibv_srq_pingpong", &["-q", "4"]);
    let rdma = open();
    let device = device(&rdma);
    let own = || {
        let all = rdma.queue_pairs(&device).unwrap().unwrap();
        let mut own: Vec<_> =
            all.iter().filter(|one| one.owner == owner_of(&server)).map(|one| one.number).collect();
        own.sort_unstable();
        own
    };
    wait_until("both ends have their queues", || own().len() == 4 && rxe.printed("srq").len() == 2);
    let own = own();

    let all = rdma.shared_receive_queues(&device).unwrap().unwrap();
    let read = all.iter().map(|one| json!([one.number, one.protection_domain, owner(&one.owner)]));
    assert_eq!(sorted(read), expected(&rxe.printed("srq"), &["srqn", "pdn"]));
    let queue = all.iter().find(|one| one.owner == owner_of(&server)).unwrap();
    assert_eq!(queue.kind, Some(SrqType::Basic));
    let shared: Vec<_> = queue.queue_pairs.iter().flat_map(|range| range.first..=range.last).collect();
    assert_eq!(shared, own);
}

#[test]
fn a_listening_cm_id_reports_its_address() {
    let rxe = Rxe::new();
    rxe.machine.node.run("modprobe", &["rdma_ucm"]);
    let server = RxeProgram::start("rping", &["-s", "-a", ADDRESS, "-p", "9999"]);
    let rdma = open();
    // The card's device has the address too; the kernel chooses which of the two devices listens.
    let mut found = Vec::new();
    wait_until("the server listens", || {
        let devices = rdma.devices().unwrap();
        found = devices.iter().flat_map(|one| rdma.cm_ids(one).unwrap().unwrap()).collect();
        found.iter().any(|one| one.state == CmIdState::Listen)
    });
    let printed = rxe.machine.node.rdma("-d resource show cm_id");
    let read = found.iter().map(|one| {
        let address = one.source.unwrap();
        json!([one.number, address.to_string(), owner(&one.owner)])
    });
    assert_eq!(sorted(read), expected(&printed, &["cm-idn", "src-addr"]));
    let listener = found.iter().find(|one| one.owner == owner_of(&server)).unwrap();
    assert_eq!(listener.source, Some(SocketAddr::new(ADDRESS.parse().unwrap(), 9999)));
    assert_eq!((listener.state, listener.port_space), (CmIdState::Listen, Some(PortSpace::Tcp)));
}

#[test]
fn counts_match_the_output_of_the_rdma_tool_and_drop_when_a_process_ends() {
    let rxe = Rxe::new();
    let rdma = open();
    let device = device(&rdma);
    let before = counts(&rdma);
    assert_eq!((before.qp, before.ctx), (Some(1), Some(0)), "objects of the kernel: {before:?}");

    let programs = rxe.pingpong("ibv_rc_pingpong", &[]);
    wait_until("both ends have a queue pair", || rxe.printed("qp").len() == 3);
    let during = counts(&rdma);
    let read = [during.qp, during.cq, during.mr, during.pd, during.ctx, during.srq, during.cm_id];
    let all = rxe.machine.node.rdma("resource show");
    let printed = all.iter().find(|one| one["ifname"] == DEVICE).unwrap();
    let names = ["qp", "cq", "mr", "pd", "ctx", "srq", "cm_id"];
    assert_eq!(read.map(|count| json!(count)), names.map(|name| printed[name].clone()));
    assert_eq!((during.qp, during.ctx), (Some(3), Some(2)));
    assert_eq!(rdma.resource_counts_of(&device).unwrap(), during);
    assert!(during.other.is_empty(), "{during:?}");

    let ended = programs.map(|program| owner_of(&program));
    wait_until("the objects are gone", || counts(&rdma) == before);
    let left = rdma.queue_pairs(&device).unwrap().unwrap();
    assert!(left.iter().all(|one| !ended.contains(&one.owner)), "{left:?}");
    assert_eq!(rdma.contexts(&device).unwrap(), Some(vec![]));
    assert_eq!(rdma.memory_regions(&device).unwrap(), Some(vec![]));
}

#[test]
fn a_removed_device_is_reported_as_missing() {
    let rxe = Rxe::new();
    let rdma = open();
    let device = device(&rdma);
    drop(rxe);
    let gone = |error| matches!(error, Error::NoSuchDevice { device } if device == DEVICE);
    assert!(gone(rdma.queue_pairs(&device).unwrap_err()));
    assert!(gone(rdma.contexts(&device).unwrap_err()));
    assert!(gone(rdma.cm_ids(&device).unwrap_err()));
    assert!(gone(rdma.counter_sets(&device).unwrap_err()));
    assert!(gone(rdma.resource_counts_of(&device).unwrap_err()));
    assert!(rdma.resource_counts().unwrap().iter().all(|one| one.device_name != DEVICE));
}

fn counts(rdma: &Handle) -> ResourceCounts {
    let all = rdma.resource_counts().unwrap();
    all.into_iter().find(|one| one.device_name == DEVICE).unwrap()
}
