//! Messages that a real kernel and iproute2's `rdma` exchanged; each file in `captures/` states its origin.
//! They are decoded, compared and encoded again, and no byte may differ.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use netlink_packet_core::{DefaultNla, NetlinkMessage, NetlinkPayload};
use netlink_packet_rdma::{
    HwCounter,
    NldevAttribute::{self, *},
    NldevCommand, NldevMessage, NodeType, PhysState, QueuePairRange, RawNetnsMode, RdmaMessage,
    ResourceAttribute, ResourceKind, ResourceTable,
};

/// Returns the bytes of a capture: hexadecimal, `#` begins a comment line.
fn bytes(capture: &str) -> Vec<u8> {
    let rows = capture.lines().filter(|line| !line.starts_with('#'));
    rows.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Decodes a capture and checks that encoding it again gives the same bytes.
fn message(capture: &str) -> NldevMessage {
    let captured = bytes(capture);
    let packet = NetlinkMessage::<RdmaMessage>::deserialize(&captured).unwrap();
    let mut written = vec![0; packet.buffer_len()];
    packet.serialize(&mut written);
    assert_eq!(written, captured);
    match packet.payload {
        NetlinkPayload::InnerMessage(RdmaMessage::Nldev(message)) => message,
        other => panic!("not an nldev message: {other:?}"),
    }
}

fn nldev(command: NldevCommand, attributes: Vec<NldevAttribute>) -> NldevMessage {
    NldevMessage::new(command, attributes)
}

#[test]
fn devices() {
    let request = message(include_str!("captures/dev_dump_request.hex"));
    assert_eq!(request, nldev(NldevCommand::Get, vec![]));
    let reply = message(include_str!("captures/dev_answer.hex"));
    let expected = vec![
        DevIndex(0),
        DevName("mlx5_0".into()),
        PortIndex(1),
        CapFlags(0),
        NodeGuid(0x5054_00ff_fe00_0101),
        SysImageGuid(0x5054_00ff_fe00_0101),
        DevNodeType(NodeType::Ca),
        DevDim(0),
        NameAssignType(0),
        DevProtocol("roce".into()),
    ];
    assert_eq!(reply, nldev(NldevCommand::Get, expected));
}

#[test]
fn ports() {
    let request = message(include_str!("captures/port_request.hex"));
    assert_eq!(request, nldev(NldevCommand::PortGet, vec![DevIndex(0), PortIndex(1)]));
    let reply = message(include_str!("captures/port_answer.hex"));
    let expected = vec![
        DevIndex(0),
        DevName("mlx5_0".into()),
        PortIndex(1),
        NldevAttribute::PortState(netlink_packet_rdma::PortState::Active),
        PortPhysState(PhysState::LinkUp),
        NdevIndex(2),
        NdevName("eth0".into()),
    ];
    assert_eq!(reply, nldev(NldevCommand::Get, expected), "the kernel replies with the type of GET");
}

#[test]
fn settings() {
    let request = message(include_str!("captures/sys_set_request.hex"));
    assert_eq!(request, nldev(NldevCommand::SysSet, vec![NldevAttribute::NetnsMode(RawNetnsMode::Shared)]));
    let reply = message(include_str!("captures/sys_answer.hex"));
    let expected = vec![
        NldevAttribute::NetnsMode(RawNetnsMode::Exclusive),
        PrivilegedQkeyMode(0),
        MonitorMode(1),
        CopyOnFork(1),
    ];
    assert_eq!(reply, nldev(NldevCommand::SysGet, expected));
}

#[test]
fn a_move() {
    let request = message(include_str!("captures/move_request.hex"));
    assert_eq!(request, nldev(NldevCommand::Set, vec![DevIndex(2), NetNsFd(4)]));
}

#[test]
fn counters() {
    let request = message(include_str!("captures/stat_request.hex"));
    assert_eq!(request, nldev(NldevCommand::StatGet, vec![DevIndex(0), PortIndex(1)]));
    let reply = message(include_str!("captures/stat_answer.hex"));
    let Some(StatHwCounters(counters)) = reply.attributes.last() else { panic!("no counters: {reply:?}") };
    assert_eq!(counters.len(), 29);
    assert_eq!(counters[0], HwCounter { name: "rx_write_requests".into(), value: 1 });
    assert_eq!(counters[28].value, 28_001);
}

/// Returns the table of a reply with a list.
fn table(capture: &str) -> ResourceTable {
    match message(capture).attributes.pop() {
        Some(Resources(table)) => table,
        other => panic!("not a table: {other:?}"),
    }
}

#[test]
fn queue_pairs() {
    use ResourceAttribute::*;
    let table = table(include_str!("captures/res_qp_answer.hex"));
    assert_eq!((table.kind, table.entries.len()), (ResourceKind::QueuePair, 9));
    let (own, users) = (&table.entries[8], &table.entries[0]);
    let expected = [PortIndex(1), Lqpn(1), KernName("ib_core".into()), SqPsn(0), Type(1), State(3)];
    assert_eq!(own.as_slice(), expected, "the kernel's own");
    let expected = [PortIndex(1), Lqpn(17), Pdn(1), Pid(216), Rqpn(21), RqPsn(7_279_771), SqPsn(511_470)];
    assert_eq!(users[..7], expected);
    assert_eq!(users[7..], [PathMigState(0), Type(2), State(3)]);
}

#[test]
fn completion_queues() {
    use ResourceAttribute::*;
    let table = table(include_str!("captures/res_cq_answer.hex"));
    assert_eq!((table.kind, table.entries.len()), (ResourceKind::CompletionQueue, 3));
    let moderation = Other(DefaultNla::new(84, vec![0]));
    let expected = [Cqe(511), UseCnt(8), moderation, Cqn(1), Ctxn(0), Pid(216)];
    assert_eq!(table.entries[1].as_slice(), expected);
}

#[test]
fn shared_receive_queues() {
    use ResourceAttribute::*;
    let table = table(include_str!("captures/res_srq_answer.hex"));
    assert_eq!(table.kind, ResourceKind::SharedReceiveQueue);
    let queue = |number, domain, first, pid| {
        let shared = vec![QueuePairRange { first, last: first + 3 }];
        vec![Srqn(number), Type(0), Pdn(domain), QueuePairs(shared), Pid(pid)]
    };
    assert_eq!(table.entries, [queue(0, 1, 17, 216), queue(1, 2, 21, 218)]);
}

#[test]
fn counts() {
    let reply = message(include_str!("captures/res_summary_answer.hex"));
    let Some(ResSummary(counts)) = reply.attributes.last() else { panic!("no counts: {reply:?}") };
    let counts: Vec<_> = counts.iter().map(|one| (one.name.as_str(), one.count)).collect();
    let expected = [("pd", 3), ("cq", 3), ("qp", 9), ("cm_id", 0), ("mr", 2), ("ctx", 2), ("srq", 2)];
    assert_eq!(counts, expected);
}

#[test]
fn a_value_that_does_not_fit_its_type_is_kept() {
    let odd = |kind, value: &[u8]| DefaultNla::new(kind, value.to_vec());
    let attributes = vec![Other(odd(1, b"ab")), Other(odd(2, b"no end")), Other(odd(2, b"")), DevIndex(7)];
    let mut packet = NetlinkMessage::new(
        Default::default(),
        NetlinkPayload::InnerMessage(RdmaMessage::Nldev(nldev(NldevCommand::Get, attributes))),
    );
    packet.finalize();
    let mut written = vec![0; packet.buffer_len()];
    packet.serialize(&mut written);
    assert_eq!(NetlinkMessage::<RdmaMessage>::deserialize(&written).unwrap(), packet);
}
