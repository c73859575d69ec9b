//! A datagram of rtnetlink: links with their VFs, addresses, routes, errors.

use netlink::ReplyError;
use rtnl::{Link, Route, RtnlObject, VfSettings};

/// A datagram whose first message is a reply to the request.
pub(super) fn run(input: &[u8]) {
    match RtnlObject::parse(input, sequence(input)) {
        Ok(replies) => replies.iter().for_each(|object| assert_bounded(object, input.len())),
        Err(ReplyError::Refused(errno, extack)) => {
            assert!(!errno.desc().is_empty());
            assert!(!extack.to_string().contains('\0'));
        }
        Err(ReplyError::Decode(why)) => assert!(!why.to_string().is_empty()),
    }
}

/// The sequence number of the first message.
pub(super) fn sequence(datagram: &[u8]) -> u32 {
    datagram.get(8..12).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// No parsed value is larger than the datagram.
fn assert_bounded(object: &RtnlObject, length: usize) {
    match object {
        RtnlObject::Link(link, vfs) => {
            let Link { name, altnames, device, .. } = link.as_ref();
            let texts = altnames.iter().chain([name]).chain(device);
            assert!(texts.map(String::len).sum::<usize>() <= 3 * length, "{link:?}");
            assert!(vfs.len() <= length / 4, "{} VFs in {length} bytes", vfs.len());
            vfs.iter().for_each(|(_, settings)| assert_setting(settings));
        }
        RtnlObject::Address(network) => assert!(network.prefix() <= 128),
        RtnlObject::Route(route) => assert_route(route),
        RtnlObject::Other => {}
    }
}

fn assert_setting(settings: &VfSettings) {
    assert!(settings.vlan.is_none_or(|tag| tag.id.get() <= 4094 && tag.qos.get() <= 7));
    assert_eq!(settings.min_tx_rate.is_some(), settings.max_tx_rate.is_some());
}

fn assert_route(route: &Route) {
    let bits = if route.dst.is_ipv4() { 32 } else { 128 };
    assert!(route.dst.prefix() <= bits, "{route:?}");
}
