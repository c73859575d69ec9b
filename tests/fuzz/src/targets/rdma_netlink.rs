//! A datagram from the kernel's RDMA core.

use netlink::{Answers, NoAnswer};
use netlink_packet_core::{
    NLA_F_NESTED, NLA_F_NET_BYTEORDER, NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla,
};
use netlink_packet_rdma::{NldevAttribute, RdmaMessage};
use rdma::{Device, Port};

use super::route_netlink::sequence;

/// A datagram whose first message answers our request.
pub(super) fn run(input: &[u8]) {
    match Answers::<RdmaMessage>::parse(input, sequence(input)) {
        Ok(answers) => answers.messages.into_iter().for_each(understood),
        Err(NoAnswer::Refused(_, extack)) => assert!(!extack.to_string().contains('\0')),
        Err(NoAnswer::Decode(why)) => assert!(!why.to_string().is_empty()),
    }
}

fn understood(message: RdmaMessage) {
    let RdmaMessage::Nldev(nldev) = &message else { return };
    if !nldev.attributes.iter().any(is_contradictory) {
        let again = encoded(message.clone());
        let reread = NetlinkMessage::<RdmaMessage>::deserialize(&again).unwrap();
        assert_eq!(
            reread.payload,
            NetlinkPayload::InnerMessage(message.clone()),
            "not written as it was read"
        );
    }
    let RdmaMessage::Nldev(message) = message else { return };
    for attribute in &message.attributes {
        if let NldevAttribute::DevName(text) | NldevAttribute::NdevName(text) = attribute {
            assert!(!text.contains('\0'));
        }
    }
    let names = |attribute: &NldevAttribute| matches!(attribute, NldevAttribute::DevName(_));
    let named = message.attributes.iter().any(names);
    assert!(named || Device::read(message.attributes.clone()).is_none(), "a device without a name");
    assert!(named || Port::read(message.attributes).is_none(), "a port without a device");
}

/// By `linux/netlink.h` an attribute has at most one of the two flags; netlink-packet-core writes only one.
fn is_contradictory(attribute: &NldevAttribute) -> bool {
    attribute.kind() & NLA_F_NESTED != 0 && attribute.kind() & NLA_F_NET_BYTEORDER != 0
}

fn encoded(message: RdmaMessage) -> Vec<u8> {
    let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(message));
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    bytes
}
