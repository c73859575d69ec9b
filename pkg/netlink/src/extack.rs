//! The kernel's extended acknowledgement of an error.

use std::fmt;

use netlink_packet_core::NlasIterator;

/// `NLM_F_ACK_TLVS`: attributes follow the echoed header.
pub(crate) const ACK_TLVS: u16 = 0x200;

const ATTR_MSG: u16 = 1;
const ATTR_OFFS: u16 = 2;
const ATTR_MISS_TYPE: u16 = 5;
const HEADER: usize = 16;

/// The attributes of an extended acknowledgement (`NLMSGERR_ATTR_`): a message, the offset of the offending attribute in
/// the request, and the type of a missing attribute. All are optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[doc(alias = "NLMSGERR_ATTR_MSG")]
pub struct Extack {
    /// The message, such as `mtu less than device minimum`.
    pub message: Option<String>,
    /// The offset of the offending attribute in the request, in bytes.
    pub offset: Option<u32>,
    /// The type of a required attribute that was not sent.
    pub missing: Option<u32>,
}

impl Extack {
    /// Parses the data after the error number of an `NLMSG_ERROR`, on a socket with `NETLINK_CAP_ACK`: the request's
    /// header, then the attributes.
    pub(crate) fn parse(echo: &[u8]) -> Self {
        let mut extack = Self::default();
        let Some(attributes) = echo.get(HEADER..) else { return extack };
        for attribute in NlasIterator::new(attributes).map_while(Result::ok) {
            let value = attribute.value();
            let number = || value.try_into().ok().map(u32::from_ne_bytes);
            match attribute.kind() {
                ATTR_MSG => {
                    let text = value.split(|b| *b == 0).next().unwrap_or_default();
                    extack.message = Some(String::from_utf8_lossy(text).into_owned());
                }
                ATTR_OFFS => extack.offset = number(),
                ATTR_MISS_TYPE => extack.missing = number(),
                _ => {}
            }
        }
        extack
    }
}

impl fmt::Display for Extack {
    /// Writes ` (message)`, to follow the description of an error number, or nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.message, self.missing) {
            (Some(message), _) => write!(f, " ({message})"),
            (None, Some(missing)) => write!(f, " (attribute {missing} is missing)"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply of kernel 6.18 to `ip link set veth0 mtu 1` (strace of the receive call, after the errno).
    const MTU: &[u8] = &[
        0x2c, 0, 0, 0, 0x10, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, // the request's header
        0x21, 0, 1, 0, b'm', b't', b'u', b' ', b'l', b'e', b's', b's', b' ', b't', b'h', b'a', b'n', b' ',
        b'd', b'e', b'v', b'i', b'c', b'e', b' ', b'm', b'i', b'n', b'i', b'm', b'u', b'm', 0, 0, 0, 0,
    ];

    #[test]
    fn the_text_is_read_without_its_terminator() {
        assert_eq!(Extack::parse(MTU).to_string(), " (mtu less than device minimum)");
    }

    #[test]
    fn short_and_broken_echoes_give_nothing() {
        assert_eq!(Extack::parse(&[]), Extack::default());
        assert_eq!(Extack::parse(&MTU[..20]), Extack::default());
        let mut broken = MTU.to_vec();
        broken[16] = 0xff;
        assert_eq!(Extack::parse(&broken).to_string(), "");
    }

    #[test]
    fn the_number_of_a_missing_attribute_is_told_if_there_is_no_text() {
        let attribute = |kind: u16, number: u32| {
            [&8_u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &number.to_ne_bytes()].concat()
        };
        let missing = [&MTU[..HEADER], &attribute(ATTR_OFFS, 20), &attribute(ATTR_MISS_TYPE, 3)].concat();
        let extack = Extack::parse(&missing);
        assert_eq!((extack.offset, extack.to_string()), (Some(20), " (attribute 3 is missing)".into()));
        let both = [MTU, &attribute(ATTR_MISS_TYPE, 3)].concat();
        assert_eq!(Extack::parse(&both).to_string(), " (mtu less than device minimum)");
    }
}
