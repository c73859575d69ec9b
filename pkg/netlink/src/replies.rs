//! The replies in one datagram of the kernel.

use netlink_packet_core::{
    DecodeError, ErrorMessage, NLM_F_DUMP_INTR, NetlinkDeserializable, NetlinkMessage, NetlinkPayload,
};
use nix::errno::Errno;

use crate::{Extack, extack::ACK_TLVS};

/// The length of a netlink header (`nlmsghdr`).
const HEADER: usize = 16;

/// The replies to one request in one datagram.
#[derive(Debug)]
pub struct Replies<M> {
    /// The messages, in the kernel's order.
    pub messages: Vec<M>,
    /// Whether this is the end of the reply (`NLMSG_DONE`, or an acknowledgement).
    pub done: bool,
    /// Whether the list changed during the dump (`NLM_F_DUMP_INTR`).
    pub interrupted: bool,
}

/// Why a datagram has no replies.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// The kernel refused the request.
    #[error("{errno}{extack}", errno = .0.desc(), extack = .1)]
    Refused(Errno, Extack),
    /// The datagram could not be decoded.
    #[error(transparent)]
    Decode(DecodeError),
}

impl<M: NetlinkDeserializable> Replies<M> {
    /// Parses a datagram. Replies to requests other than the one with the number `sequence` are left out.
    ///
    /// # Errors
    /// [`ReplyError`].
    pub fn parse(datagram: &[u8], sequence: u32) -> Result<Self, ReplyError> {
        let mut replies = Self { messages: Vec::new(), done: false, interrupted: false };
        let mut rest = datagram;
        while rest.len() >= HEADER && !replies.done {
            let packet = NetlinkMessage::<M>::deserialize(rest).map_err(ReplyError::Decode)?;
            let header = packet.header;
            let length = usize::try_from(header.length).unwrap_or(usize::MAX).max(HEADER);
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            if header.sequence_number != sequence {
                continue;
            }
            replies.interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
            match packet.payload {
                NetlinkPayload::InnerMessage(message) => replies.messages.push(message),
                NetlinkPayload::Error(error) => {
                    acknowledged(&error, header.flags)?;
                    replies.done = true;
                }
                NetlinkPayload::Done(done) if done.code != 0 => {
                    return Err(ReplyError::Refused(errno(done.code), Extack::default()));
                }
                NetlinkPayload::Done(_) => replies.done = true,
                _ => {}
            }
        }
        Ok(replies)
    }
}

fn acknowledged(error: &ErrorMessage, flags: u16) -> Result<(), ReplyError> {
    if error.code.is_none() {
        return Ok(());
    }
    let extack = if flags & ACK_TLVS == 0 { Extack::default() } else { Extack::parse(&error.header) };
    Err(ReplyError::Refused(errno(error.raw_code()), extack))
}

/// Returns the error number of a reply: the kernel sends it negated. `i32::MIN` has no positive counterpart.
fn errno(code: i32) -> Errno {
    Errno::from_raw(code.saturating_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nothing;

    impl NetlinkDeserializable for Nothing {
        type Error = DecodeError;

        fn deserialize(_: &netlink_packet_core::NetlinkHeader, _: &[u8]) -> Result<Self, DecodeError> {
            Ok(Self)
        }
    }

    /// Returns a message of that type in reply to request 7.
    fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + payload.len()).unwrap();
        let header = [length.to_ne_bytes(), [0; 4], 7_u32.to_ne_bytes(), [0; 4]].concat();
        let mut bytes = [header, payload.to_vec()].concat();
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes
    }

    fn parse(datagram: &[u8]) -> Result<Replies<Nothing>, ReplyError> {
        Replies::parse(datagram, 7)
    }

    #[test]
    fn messages_are_counted_up_to_the_end_of_the_list() {
        let datagram =
            [message(16, NLM_F_DUMP_INTR, &[]), message(16, 0, &[]), message(3, 0, &[0; 4])].concat();
        let replies = parse(&datagram).unwrap();
        assert_eq!((replies.messages.len(), replies.done, replies.interrupted), (2, true, true));
        assert!(!parse(&message(16, 0, &[])).unwrap().done, "more datagrams follow");
    }

    #[test]
    fn a_reply_to_another_request_is_left_out() {
        let replies = Replies::<Nothing>::parse(&message(16, NLM_F_DUMP_INTR, &[]), 8).unwrap();
        assert!(replies.messages.is_empty() && !replies.done && !replies.interrupted);
    }

    #[test]
    fn an_error_at_the_end_of_a_list_is_reported() {
        let datagram = [message(16, 0, &[]), message(3, 0, &(-22_i32).to_ne_bytes())].concat();
        assert!(matches!(parse(&datagram), Err(ReplyError::Refused(Errno::EINVAL, _))));
    }

    #[test]
    fn an_acknowledgement_ends_the_reply_and_one_of_another_request_does_not() {
        let acknowledgement = message(2, 0, &[0_i32.to_ne_bytes().to_vec(), message(16, 0, &[])].concat());
        assert!(parse(&acknowledgement).unwrap().done);
        let datagram = [message(16, 0, &[]), acknowledgement].concat();
        let replies = parse(&datagram).unwrap();
        assert_eq!((replies.messages.len(), replies.done, replies.interrupted), (1, true, false));
        let refused = message(2, 0, &[(-22_i32).to_ne_bytes().to_vec(), message(16, 0, &[])].concat());
        let replies = Replies::<Nothing>::parse(&[refused, message(16, 0, &[])].concat(), 8).unwrap();
        assert!(replies.messages.is_empty() && !replies.done);
    }

    #[test]
    fn a_message_of_any_length_is_followed_by_the_next() {
        let mut odd = message(16, 0, &[1]);
        odd.resize(odd.len().next_multiple_of(4), 0);
        let replies = parse(&[odd, message(3, 0, &[0; 4])].concat()).unwrap();
        assert_eq!((replies.messages.len(), replies.done), (1, true));
    }

    #[test]
    fn the_text_of_an_error_is_read_if_its_flag_is_set() {
        let text = [&12_u16.to_ne_bytes()[..], &1_u16.to_ne_bytes(), b"too big\0"].concat();
        let error = [(-22_i32).to_ne_bytes().to_vec(), message(16, 0, &[]), text].concat();
        for (flags, expected) in [(ACK_TLVS, Some("too big")), (0, None)] {
            let Err(ReplyError::Refused(_, extack)) = parse(&message(2, flags, &error)) else {
                panic!("an error")
            };
            assert_eq!(extack.message.as_deref(), expected);
        }
    }

    #[test]
    fn no_error_number_makes_reading_panic() {
        for code in [i32::MIN, -1, 1, i32::MAX] {
            let error = [code.to_ne_bytes().to_vec(), message(16, 0, &[])].concat();
            assert!(matches!(parse(&message(2, 0, &error)), Err(ReplyError::Refused(..))), "{code}");
            assert!(
                matches!(parse(&message(3, 0, &code.to_ne_bytes())), Err(ReplyError::Refused(..))),
                "{code}"
            );
        }
    }
}
