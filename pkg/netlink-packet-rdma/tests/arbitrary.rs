//! Property tests: decoding arbitrary bytes never panics, and decoding an encoded message gives the same message.

use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_rdma::{
    HwCounter, HwCounterStatus, NldevAttribute, NldevMessage, QueuePairRange, RdmaMessage, ResourceAttribute,
    ResourceCount, ResourceKind, ResourceTable,
};
use proptest::{collection::vec, prelude::*};

fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,40}"
}

fn counters() -> impl Strategy<Value = Vec<HwCounter>> {
    vec((text(), any::<u64>()).prop_map(|(name, value)| HwCounter { name, value }), 0..40)
}

fn statuses() -> impl Strategy<Value = Vec<HwCounterStatus>> {
    let status = (text(), any::<u32>(), any::<Option<u8>>());
    vec(status.prop_map(|(name, index, dynamic)| HwCounterStatus { name, index, dynamic }), 1..40)
}

fn queue_pairs() -> impl Strategy<Value = Vec<QueuePairRange>> {
    let range = prop_oneof![any::<(u32, u32)>(), any::<u32>().prop_map(|one| (one, one))];
    vec(range.prop_map(|(first, last)| QueuePairRange { first, last }), 0..20)
}

fn resource() -> impl Strategy<Value = ResourceAttribute> {
    use ResourceAttribute::*;
    prop_oneof![
        any::<u32>().prop_map(PortIndex),
        any::<u32>().prop_map(Lqpn),
        any::<u32>().prop_map(Rqpn),
        any::<u32>().prop_map(RqPsn),
        any::<u32>().prop_map(SqPsn),
        any::<u32>().prop_map(Pid),
        any::<u32>().prop_map(Cqe),
        any::<u32>().prop_map(Ctxn),
        any::<u32>().prop_map(StatMode),
        any::<u32>().prop_map(StatCounterId),
        any::<u8>().prop_map(Type),
        any::<u8>().prop_map(State),
        any::<u8>().prop_map(PollCtx),
        any::<u8>().prop_map(StatOpcounterEnabled),
        any::<u64>().prop_map(UseCnt),
        any::<u64>().prop_map(MrLen),
        text().prop_map(KernName),
        text().prop_map(Subtype),
        vec(any::<u8>(), 0..130).prop_map(SrcAddr),
        vec(any::<u8>(), 0..130).prop_map(DstAddr),
        queue_pairs().prop_map(QueuePairs),
        counters().prop_map(StatHwCounters),
    ]
}

fn table() -> impl Strategy<Value = ResourceTable> {
    let kind = prop_oneof![
        Just(ResourceKind::QueuePair),
        Just(ResourceKind::CmId),
        Just(ResourceKind::CompletionQueue),
        Just(ResourceKind::MemoryRegion),
        Just(ResourceKind::ProtectionDomain),
        Just(ResourceKind::CounterSet),
        Just(ResourceKind::Context),
        Just(ResourceKind::SharedReceiveQueue),
    ];
    (kind, vec(vec(resource(), 0..6), 0..6)).prop_map(|(kind, entries)| ResourceTable { kind, entries })
}

fn summary() -> impl Strategy<Value = Vec<ResourceCount>> {
    vec((text(), any::<u64>()).prop_map(|(name, count)| ResourceCount { name, count }), 0..9)
}

fn attribute() -> impl Strategy<Value = NldevAttribute> {
    use NldevAttribute::*;
    prop_oneof![
        any::<u32>().prop_map(DevIndex),
        any::<u32>().prop_map(PortIndex),
        any::<u32>().prop_map(NetNsFd),
        any::<u32>().prop_map(NdevIndex),
        any::<u64>().prop_map(NodeGuid),
        any::<u64>().prop_map(Chardev),
        any::<u8>().prop_map(|n| PortState(n.into())),
        any::<u8>().prop_map(|n| PortPhysState(n.into())),
        any::<u8>().prop_map(|n| DevNodeType(n.into())),
        any::<u8>().prop_map(|n| NetnsMode(n.into())),
        any::<u8>().prop_map(EventType),
        text().prop_map(DevName),
        text().prop_map(DevProtocol),
        any::<u8>().prop_map(StatOpcounterEnabled),
        counters().prop_map(StatHwCounters),
        statuses().prop_map(StatHwCounterStatus),
        summary().prop_map(ResSummary),
        table().prop_map(Resources),
    ]
}

fn encode(message: RdmaMessage) -> Vec<u8> {
    let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(message));
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Option<RdmaMessage> {
    match NetlinkMessage::deserialize(bytes).ok()?.payload {
        NetlinkPayload::InnerMessage(message) => Some(message),
        _ => None,
    }
}

proptest! {
    #[test]
    fn an_encoded_message_decodes_to_the_same(command in 0_u16..1024, attributes in vec(attribute(), 0..12)) {
        let message = RdmaMessage::from(NldevMessage::new(command.into(), attributes));
        prop_assert_eq!(decode(&encode(message.clone())), Some(message));
    }

    #[test]
    fn no_bytes_make_decoding_panic(command in 0_u16..1024, payload in vec(any::<u8>(), 0..300)) {
        let bytes = encode(RdmaMessage::Other { kind: 5 << 10 | command, payload });
        if let Some(message) = decode(&bytes) {
            let again = decode(&encode(message.clone()));
            prop_assert_eq!(again, Some(message), "encoding and decoding gives the same message");
        }
    }

    #[test]
    fn no_attribute_value_makes_decoding_panic(kind in 0_u16..128, nested: bool, value in vec(any::<u8>(), 0..64)) {
        let length = u16::try_from(value.len() + 4).unwrap();
        let kind = if nested { kind | 0x8000 } else { kind };
        let mut payload = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        payload.extend(value);
        payload.resize(payload.len().next_multiple_of(4), 0);
        let read = decode(&encode(RdmaMessage::Other { kind: 5 << 10 | 1, payload }));
        prop_assert!(read.is_some());
    }

    #[test]
    fn no_datagram_makes_decoding_panic(bytes in vec(any::<u8>(), 0..200)) {
        decode(&bytes);
    }
}
