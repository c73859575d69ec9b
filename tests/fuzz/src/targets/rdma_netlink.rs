//! A datagram from the kernel's RDMA core.

use netlink::{Replies, ReplyError};
use netlink_packet_core::{
    NLA_F_NESTED, NLA_F_NET_BYTEORDER, NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla,
};
use netlink_packet_rdma::{NldevAttribute, RdmaMessage, ResourceAttribute, ResourceTable};
use rdma::{
    Device, Port,
    resource::{
        CmId, CompletionQueue, Context, CounterSet, MemoryRegion, ProtectionDomain, QueuePair,
        ResourceCounts, ResourceOwner, SharedReceiveQueue,
    },
};

use super::route_netlink::sequence;

/// A datagram whose first message is a reply to the request.
pub(super) fn run(input: &[u8]) {
    match Replies::<RdmaMessage>::parse(input, sequence(input)) {
        Ok(replies) => replies.messages.into_iter().for_each(|message| check_message(message, input.len())),
        Err(ReplyError::Refused(_, extack)) => assert!(!extack.to_string().contains('\0')),
        Err(ReplyError::Decode(why)) => assert!(!why.to_string().is_empty()),
    }
}

fn check_message(message: RdmaMessage, length: usize) {
    let RdmaMessage::Nldev(nldev) = &message else { return };
    if !nldev.attributes.iter().any(is_contradictory) {
        let again = encoded(message.clone());
        let reread = NetlinkMessage::<RdmaMessage>::deserialize(&again).unwrap();
        assert_eq!(reread.payload, NetlinkPayload::InnerMessage(message.clone()), "changed by a round trip");
    }
    let RdmaMessage::Nldev(message) = message else { return };
    for attribute in &message.attributes {
        match attribute {
            NldevAttribute::DevName(text) | NldevAttribute::NdevName(text) => assert!(!text.contains('\0')),
            NldevAttribute::Resources(table) => check_table(table, length),
            _ => {}
        }
    }
    let names = |attribute: &NldevAttribute| matches!(attribute, NldevAttribute::DevName(_));
    let named = message.attributes.iter().any(names);
    assert!(named || Device::read(message.attributes.clone()).is_none(), "a device without a name");
    assert!(named || Port::read(message.attributes.clone()).is_none(), "a port without a device");
    assert!(named || ResourceCounts::read(message.attributes).is_none(), "counts without a device");
}

/// Each entry is read as every kind of object, because it may have any attribute.
fn check_table(table: &ResourceTable, length: usize) {
    assert!(table.entries.len() <= length / 4, "{} entries in {length} bytes", table.entries.len());
    for entry in &table.entries {
        let numbered = entry.iter().any(|one| matches!(one, ResourceAttribute::StatCounterId(_)));
        check_owner(QueuePair::read(entry.clone()).map(|one| one.owner), entry);
        check_owner(CompletionQueue::read(entry.clone()).map(|one| one.owner), entry);
        check_owner(MemoryRegion::read(entry.clone()).map(|one| one.owner), entry);
        check_owner(ProtectionDomain::read(entry.clone()).map(|one| one.owner), entry);
        check_owner(Context::read(entry.clone()).map(|one| one.owner), entry);
        check_owner(SharedReceiveQueue::read(entry.clone()).map(|one| one.owner), entry);
        check_owner(CmId::read(entry.clone()).map(|one| one.owner), entry);
        let set = CounterSet::read(entry.clone());
        assert_eq!(set.is_some(), numbered, "a counter set without an ID");
        let bound = set.map_or(0, |set| set.queue_pairs.len() + set.counters.len());
        assert!(bound <= length / 4, "{bound} counted in {length} bytes");
    }
}

/// An object has an owner only if an attribute names it.
fn check_owner(owner: Option<ResourceOwner>, entry: &[ResourceAttribute]) {
    let names_owner = |attribute: &ResourceAttribute| match attribute {
        ResourceAttribute::Pid(_) => true,
        ResourceAttribute::KernName(name) => !name.contains('\0'),
        _ => false,
    };
    assert!(owner.is_none_or(|owner| owner == ResourceOwner::Unknown || entry.iter().any(names_owner)));
}

/// According to `linux/netlink.h`, an attribute has at most one of the two flags; netlink-packet-core writes one.
fn is_contradictory(attribute: &NldevAttribute) -> bool {
    match attribute {
        NldevAttribute::Resources(table) => table.entries.iter().flatten().any(has_both_flags),
        other => has_both_flags(other),
    }
}

fn has_both_flags(attribute: &impl Nla) -> bool {
    attribute.kind() & NLA_F_NESTED != 0 && attribute.kind() & NLA_F_NET_BYTEORDER != 0
}

fn encoded(message: RdmaMessage) -> Vec<u8> {
    let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(message));
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    bytes
}
