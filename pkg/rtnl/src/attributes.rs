//! Decoding the attributes of a link's message.
//!
//! A pod may set names, altnames and aliases of any bytes, and the codec refuses a whole message with one that is not
//! UTF-8, so that the pod's VF could not be found. So only the attributes that are used are passed to the codec.

use netlink_packet_core::{
    DecodeError, DefaultNla, NlaBuffer, NlasIterator, Parseable, ParseableParametrized,
};
use netlink_packet_route::{
    AddressFamily,
    link::{LinkAttribute, LinkMessage},
};

use crate::{
    kernel_text::text,
    link_settings::LinkSettings,
    old_kernel::{PARENT_DEV_NAME, PERM_ADDRESS, PROP_LIST, knows},
};

/// The length of `ifinfomsg`.
const HEADER: usize = 16;

const IFNAME: u16 = 3;
const LINKINFO: u16 = 18;
/// `IFLA_ADDRESS`, `IFLA_MTU`, `IFLA_LINK`, `IFLA_MASTER`, `IFLA_OPERSTATE`, `IFLA_VFINFO_LIST`, `IFLA_LINK_NETNSID`, and two
/// later ones.
const OTHERS: [u16; 9] = [1, 4, 5, 10, 16, 22, 37, PERM_ADDRESS, PARENT_DEV_NAME];

/// Reads the message of a link.
pub(crate) fn parse(payload: &[u8]) -> Result<LinkMessage, DecodeError> {
    let (header, attributes) = payload.split_at_checked(HEADER).unwrap_or((payload, &[]));
    let mut message = LinkMessage::parse(header)?;
    let family = message.header.interface_family;
    for attribute in NlasIterator::new(attributes) {
        message.attributes.extend(read(&attribute?, family)?);
    }
    Ok(message)
}

fn read(attribute: &NlaBuffer<&[u8]>, family: AddressFamily) -> Result<Option<LinkAttribute>, DecodeError> {
    let known = || LinkAttribute::parse_with_param(attribute, family);
    Ok(match attribute.kind() {
        later if !knows(later) => None,
        IFNAME => Some(LinkAttribute::IfName(text(attribute.value()))),
        // Kept as bytes: a request to remove an altname must contain exactly these.
        PROP_LIST => Some(LinkAttribute::Other(DefaultNla::parse(attribute)?)),
        // A pod may create links of any kind; if the codec cannot decode one, its kind is unknown.
        LINKINFO => known().ok(),
        kind if LinkSettings::has(kind) => Some(LinkAttribute::Other(DefaultNla::parse(attribute)?)),
        kind if OTHERS.contains(&kind) => Some(known()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn link(attributes: &[Vec<u8>]) -> crate::Link {
        crate::link::read(&parse(&[vec![0; HEADER], attributes.concat()].concat()).unwrap())
    }

    #[test]
    fn a_link_whose_name_has_any_bytes_is_read() {
        const IFALIAS: u16 = 20;
        const ALT_IFNAME: u16 = 53;
        let altnames = [attribute(ALT_IFNAME, b"\xff\0"), attribute(ALT_IFNAME, b"rail\0")].concat();
        let link = link(&[
            attribute(IFNAME, b"\xfe\0"),
            attribute(IFALIAS, b"\xff\0"),
            attribute(PROP_LIST | 0x8000, &altnames),
            attribute(LINKINFO | 0x8000, &attribute(1, b"\xff\0")),
        ]);
        assert_eq!(
            (link.name.as_str(), link.altnames),
            ("\u{fffd}", vec!["\u{fffd}".into(), "rail".to_owned()])
        );
    }

    #[test]
    fn a_name_that_would_steer_a_terminal_is_shown_without_that() {
        let link = link(&[attribute(IFNAME, b"a\x1b[2Jb\0")]);
        assert_eq!(link.name, "a\u{fffd}[2Jb");
    }

    #[test]
    fn short_messages_are_refused() {
        assert!(parse(&[]).is_err());
        assert!(parse(&[0; HEADER - 1]).is_err());
        assert!(parse(&[vec![0; HEADER], vec![9, 0, 3, 0]].concat()).is_err(), "longer than the message");
    }
}
