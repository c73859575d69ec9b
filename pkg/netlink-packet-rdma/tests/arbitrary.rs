//! Whatever comes, decoding ends without a panic; whatever is sent reads back as it was.

use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_rdma::{HwCounter, NldevAttribute, NldevMessage, RdmaMessage};
use proptest::{collection::vec, prelude::*};

fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,40}"
}

fn attribute() -> impl Strategy<Value = NldevAttribute> {
    use NldevAttribute::*;
    let counter = (text(), any::<u64>()).prop_map(|(name, value)| HwCounter { name, value });
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
        vec(counter, 0..40).prop_map(StatHwCounters),
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
    fn what_is_written_reads_back(command in 0_u16..1024, attributes in vec(attribute(), 0..12)) {
        let message = RdmaMessage::from(NldevMessage::new(command.into(), attributes));
        prop_assert_eq!(decode(&encode(message.clone())), Some(message));
    }

    #[test]
    fn no_bytes_make_decoding_panic(command in 0_u16..1024, payload in vec(any::<u8>(), 0..300)) {
        let bytes = encode(RdmaMessage::Other { kind: 5 << 10 | command, payload });
        if let Some(message) = decode(&bytes) {
            let again = decode(&encode(message.clone()));
            prop_assert_eq!(again, Some(message), "what was read once reads the same again");
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
