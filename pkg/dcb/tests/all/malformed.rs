//! Replies that are cut off or changed: reading them never panics, and a part of a structure is never taken for a whole one.

use crate::replies::{SEQUENCE, bnxt, bytes, ice, kernel, message, mlx5, settings};
use dcb::{DcbMessage, DcbSettings};
use netlink::Replies;
use proptest::{collection::vec, prelude::*, sample::Index};

const ALL: [&str; 12] = [
    mlx5::AFTER_PROBE,
    mlx5::ROCE,
    mlx5::FIRMWARE,
    bnxt::HOST_UNSET,
    bnxt::HOST_ROCE,
    bnxt::FIRMWARE,
    bnxt::VF,
    ice::SOFTWARE,
    ice::SOFTWARE_DSCP,
    ice::FIRMWARE,
    kernel::TRUST,
    kernel::NOTHING,
];

/// Reads every DCB message in a datagram.
fn read(datagram: &[u8]) -> Vec<DcbSettings> {
    let messages = Replies::<DcbMessage>::parse(datagram, SEQUENCE).map(|replies| replies.messages);
    messages.unwrap_or_default().iter().filter_map(|message| DcbSettings::parse(message).ok()).collect()
}

#[test]
fn a_datagram_that_is_cut_off_has_no_settings() {
    for hex in ALL {
        let datagram = bytes(hex);
        for length in 0..datagram.len() {
            assert_eq!(read(&datagram[..length]), [], "{length} bytes of {hex}");
        }
        assert_eq!(read(&datagram), [settings(hex)]);
    }
}

#[test]
fn a_message_that_is_cut_off_is_refused_unless_only_the_mode_is_missing() {
    for hex in ALL {
        let whole = message(hex);
        let complete = settings(hex);
        let mode = if complete.dcbx.is_some() { 8 } else { 0 };
        let ieee = whole.attributes.len() - mode;
        for length in 0..whole.attributes.len() {
            let part = DcbMessage { attributes: whole.attributes[..length].to_vec(), ..whole.clone() };
            match DcbSettings::parse(&part) {
                Err(_) => {}
                Ok(found) if length == ieee => {
                    assert_eq!(found, DcbSettings { dcbx: None, ..complete.clone() })
                }
                // Only the padding after the mode is missing, which nothing follows.
                Ok(found) if length > ieee + 4 => assert_eq!(found, complete),
                Ok(_) => panic!("{length} bytes are complete: {hex}"),
            }
        }
    }
}

/// Returns a message with one attribute in `DCB_ATTR_IEEE`.
fn with_ieee(kind: u16, value: &[u8]) -> DcbMessage {
    let attribute = |kind: u16, value: &[u8]| {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    DcbMessage { attributes: attribute(13, &attribute(kind, value)), ..message(kernel::NOTHING) }
}

#[test]
fn a_structure_that_is_too_short_is_refused_and_a_longer_one_is_read() {
    for (kind, name, length) in [
        (1, "struct ieee_ets", 59),
        (2, "struct ieee_pfc", 136),
        (7, "struct ieee_maxrate", 64),
        (10, "struct dcbnl_buffer", 44),
    ] {
        for short in 0..length {
            let error = DcbSettings::parse(&with_ieee(kind, &vec![0xff; short])).unwrap_err();
            assert_eq!(error.to_string(), format!("{name} has only {short} bytes"));
        }
        for long in [length, length + 1, length + 64] {
            assert!(DcbSettings::parse(&with_ieee(kind, &vec![0xff; long])).is_ok(), "{name}: {long}");
        }
    }
}

#[test]
fn a_reply_to_another_command_is_refused() {
    let other = DcbMessage { command: 26, ..message(kernel::NOTHING) };
    assert_eq!(DcbSettings::parse(&other).unwrap_err().to_string(), "a reply to DCB command 26, not to 21");
    let empty = DcbMessage { attributes: Vec::new(), ..message(kernel::NOTHING) };
    assert_eq!(DcbSettings::parse(&empty).unwrap_err().to_string(), "the reply lacks DCB_ATTR_IEEE");
}

proptest! {
    #[test]
    fn any_attributes_can_be_read(attributes in vec(any::<u8>(), 0..400)) {
        let _ = DcbSettings::parse(&DcbMessage { attributes, ..message(kernel::NOTHING) });
    }

    #[test]
    fn a_reply_with_changed_bytes_can_be_read(
        which in any::<Index>(), changes in vec((any::<Index>(), any::<u8>()), 1..20)
    ) {
        let mut datagram = bytes(which.get::<&str>(&ALL));
        for (at, byte) in changes {
            *at.get_mut(&mut datagram[..]) = byte;
        }
        let _ = read(&datagram);
        datagram.truncate(which.index(datagram.len()));
        let _ = read(&datagram);
    }

    #[test]
    fn any_datagram_can_be_read(datagram in vec(any::<u8>(), 0..400)) {
        let _ = read(&datagram);
    }
}
