//! Messages as a real kernel and iproute2's `rdma` exchanged them: each file in `captures/` says where it is
//! from. Read, compared, written again: not a byte may differ.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use netlink_packet_core::{DefaultNla, NetlinkMessage, NetlinkPayload};
use netlink_packet_rdma::{
    HwCounter, NetnsMode,
    NldevAttribute::{self, *},
    NldevCommand, NldevMessage, NodeType, PhysState, RdmaMessage,
};

/// The bytes of a capture: hexadecimal, `#` begins a comment line.
fn bytes(capture: &str) -> Vec<u8> {
    let rows = capture.lines().filter(|line| !line.starts_with('#'));
    rows.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Reads a capture and checks that it is written back as it was.
fn message(capture: &str) -> NldevMessage {
    let captured = bytes(capture);
    let packet = NetlinkMessage::<RdmaMessage>::deserialize(&captured).unwrap();
    let mut written = vec![0; packet.buffer_len()];
    packet.serialize(&mut written);
    assert_eq!(written, captured);
    match packet.payload {
        NetlinkPayload::InnerMessage(RdmaMessage::Nldev(message)) => message,
        other => panic!("no nldev message: {other:?}"),
    }
}

fn nldev(command: NldevCommand, attributes: Vec<NldevAttribute>) -> NldevMessage {
    NldevMessage::new(command, attributes)
}

#[test]
fn devices() {
    let request = message(include_str!("captures/dev_dump_request.hex"));
    assert_eq!(request, nldev(NldevCommand::Get, vec![]));
    let answer = message(include_str!("captures/dev_answer.hex"));
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
    assert_eq!(answer, nldev(NldevCommand::Get, expected));
}

#[test]
fn ports() {
    let request = message(include_str!("captures/port_request.hex"));
    assert_eq!(request, nldev(NldevCommand::PortGet, vec![DevIndex(0), PortIndex(1)]));
    let answer = message(include_str!("captures/port_answer.hex"));
    let expected = vec![
        DevIndex(0),
        DevName("mlx5_0".into()),
        PortIndex(1),
        NldevAttribute::PortState(netlink_packet_rdma::PortState::Active),
        PortPhysState(PhysState::LinkUp),
        NdevIndex(2),
        NdevName("eth0".into()),
    ];
    assert_eq!(answer, nldev(NldevCommand::Get, expected), "the kernel answers with the type of GET");
}

#[test]
fn settings() {
    let request = message(include_str!("captures/sys_set_request.hex"));
    assert_eq!(request, nldev(NldevCommand::SysSet, vec![NldevAttribute::NetnsMode(NetnsMode::Shared)]));
    let answer = message(include_str!("captures/sys_answer.hex"));
    let expected = vec![
        NldevAttribute::NetnsMode(NetnsMode::Exclusive),
        PrivilegedQkeyMode(0),
        MonitorMode(1),
        CopyOnFork(1),
    ];
    assert_eq!(answer, nldev(NldevCommand::SysGet, expected));
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
    let answer = message(include_str!("captures/stat_answer.hex"));
    let Some(StatHwCounters(counters)) = answer.attributes.last() else { panic!("no counters: {answer:?}") };
    assert_eq!(counters.len(), 29);
    assert_eq!(counters[0], HwCounter { name: "rx_write_requests".into(), value: 1 });
    assert_eq!(counters[28].value, 28_001);
}

#[test]
fn a_value_that_does_not_fit_its_type_is_kept_as_it_is() {
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
