//! The rtnetlink messages of DCB.

use netlink::NetlinkFamily;
use netlink_packet_core::{DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable};

use crate::uapi::{RTM_GETDCB, RTM_SETDCB};

/// `NETLINK_ROUTE`, with only the messages of DCB.
#[derive(Debug)]
pub(crate) struct DcbFamily;

impl NetlinkFamily for DcbFamily {
    const PROTOCOL: isize = 0;
    type RtnlMessage = DcbMessage;
}

/// A request or a reply: `struct dcbmsg`, then attributes (`enum dcbnl_attrs`).
///
/// | bytes | field | contents |
/// |---|---|---|
/// | 0 | `dcb_family` | `AF_UNSPEC` |
/// | 1 | `cmd` | the command, `enum dcbnl_commands` |
/// | 2 to 3 | `dcb_pad` | 0 |
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(alias = "dcbmsg")]
pub struct DcbMessage {
    /// `RTM_GETDCB` or `RTM_SETDCB`. The kernel replies with the type of the request.
    pub kind: u16,
    /// The command, such as `DCB_CMD_IEEE_GET`.
    pub command: u8,
    /// The encoded attributes.
    pub attributes: Vec<u8>,
}

/// The length of `struct dcbmsg`.
const HEADER: usize = 4;

impl NetlinkSerializable for DcbMessage {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let header = [0, self.command, 0, 0];
        for (to, from) in buffer.iter_mut().zip(header.iter().chain(&self.attributes)) {
            *to = *from;
        }
    }
}

impl NetlinkDeserializable for DcbMessage {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let kind = header.message_type;
        if !matches!(kind, RTM_GETDCB | RTM_SETDCB) {
            return Err(format!("a message of type {kind}, where a DCB message is expected").into());
        }
        let Some(([_, command, _, _], attributes)) = payload.split_first_chunk::<HEADER>() else {
            return Err(format!("a DCB message of {} bytes: it has at least {HEADER}", payload.len()).into());
        };
        Ok(Self { kind, command: *command, attributes: attributes.to_vec() })
    }
}
