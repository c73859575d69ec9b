//! Replies to `DCB_CMD_IEEE_GET`, in hexadecimal, little-endian.
//!
//! They were constructed from the kernel's sources, not captured: the values are what the functions of the drivers that each
//! comment names fill in, in the order and the nesting of `dcbnl_ieee_fill` of `net/dcb/dcbnl.c`. Numbers that depend on a card
//! or its traffic, such as counters, are examples.

pub(crate) mod bnxt;
pub(crate) mod ice;
pub(crate) mod kernel;
pub(crate) mod mlx5;

use dcb::{DcbMessage, DcbSettings};
use netlink::Replies;

/// The sequence number of the request.
pub(crate) const SEQUENCE: u32 = 7;

/// Returns the bytes of a datagram in hexadecimal; a comment begins with `#`.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let lines = hex.lines().filter_map(|line| line.split('#').next());
    lines.flat_map(str::split_whitespace).map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}

/// Returns the DCB message in a datagram.
pub(crate) fn message(hex: &str) -> DcbMessage {
    let mut replies = Replies::parse(&bytes(hex), SEQUENCE).unwrap();
    assert_eq!(replies.messages.len(), 1);
    replies.messages.remove(0)
}

pub(crate) fn settings(hex: &str) -> DcbSettings {
    DcbSettings::parse(&message(hex)).unwrap()
}
