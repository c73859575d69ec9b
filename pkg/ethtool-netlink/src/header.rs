//! The header of a request: which link, and what to reply.

use identifiers::LinkName;
use netlink_packet_core::{DefaultNla, NLA_F_NESTED};

use crate::genl::encode;

/// `ETHTOOL_A_HEADER_`.
const DEV_NAME: u16 = 2;
const FLAGS: u16 = 3;

/// `ETHTOOL_FLAG_STATS`: the reply contains statistics as well.
pub(crate) const FLAG_STATS: u32 = 1 << 2;

/// Returns the header's attribute.
pub(crate) fn header(kind: u16, link: &LinkName, flags: u32) -> DefaultNla {
    let name = [link.as_str().as_bytes(), &[0]].concat();
    let mut attributes = vec![DefaultNla::new(DEV_NAME, name)];
    if flags != 0 {
        attributes.push(DefaultNla::new(FLAGS, flags.to_ne_bytes().to_vec()));
    }
    DefaultNla::new(kind | NLA_F_NESTED, encode(&attributes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_link() {
        let written = encode(&[header(1, &"eth0".parse().unwrap(), FLAG_STATS)]);
        let name = [9, 0, 2, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0];
        let expected = [&[24, 0, 1, 0x80][..], &name, &[8, 0, 3, 0, 4, 0, 0, 0]].concat();
        assert_eq!(written, expected);
    }
}
