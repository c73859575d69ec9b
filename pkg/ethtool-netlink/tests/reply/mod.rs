//! Replies in files, as hexadecimal text.

use std::fmt::Debug;

use ethtool_netlink::Malformed;

macro_rules! reply {
    ($name:literal) => {
        include_str!(concat!("replies/", $name, ".hex"))
    };
}
pub(crate) use reply;

/// The headers before the attributes: `nlmsghdr` and `genlmsghdr`.
const HEADERS: usize = 20;

/// Returns the bytes of hexadecimal text; `#` begins a comment line.
fn bytes(text: &str) -> Vec<u8> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Returns the attributes of a reply, whose length and command are checked.
fn attributes(text: &str, command: u8) -> Vec<u8> {
    let message = bytes(text);
    let length = u32::from_le_bytes(message[..4].try_into().unwrap());
    assert_eq!((length as usize, message[16]), (message.len(), command));
    message[HEADERS..].to_vec()
}

/// Parses a reply, and all that is left of it if it ends early or has one byte changed: no parser may panic.
pub(crate) fn parse<T: Debug>(text: &str, command: u8, parse: impl Fn(&[u8]) -> Result<T, Malformed>) -> T {
    let whole = attributes(text, command);
    for end in 0..whole.len() {
        let _ = parse(&whole[..end]);
        for byte in [0, 1, 3, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[end] = byte;
            let _ = parse(&changed);
        }
    }
    // An attribute at the end, of which a byte is missing.
    if !whole.is_empty() {
        let cut: Vec<u8> = [&whole[..], &[8, 0, 0x7f, 0, 1, 2, 3]].concat();
        assert_eq!(parse(&cut).unwrap_err(), Malformed::Truncated);
    }
    parse(&whole).unwrap()
}
