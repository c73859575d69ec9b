//! Generic netlink: messages with a command, of families whose numbers the kernel assigns when it starts.

use netlink::{NetlinkFamily, Socket};
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable,
};

use crate::{Error, Malformed, attributes::attributes};

/// `NETLINK_GENERIC`.
#[derive(Debug)]
pub(crate) struct GenericNetlink;

impl NetlinkFamily for GenericNetlink {
    const PROTOCOL: isize = 16;
    type RtnlMessage = GenlMessage;
}

/// `genlmsghdr`: the command, the version, and two reserved bytes.
const HEADER: usize = 4;

/// The version of a request. Neither nlctrl nor ethtool checks it.
const VERSION: u8 = 1;

/// `GENL_ID_CTRL`, the only family with a fixed number.
const NLCTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// A message: a command and its attributes, still encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GenlMessage {
    /// The number of the family.
    pub(crate) family: u16,
    /// The command, in the numbers of the family.
    pub(crate) command: u8,
    /// The bytes after the generic netlink header.
    pub(crate) attributes: Vec<u8>,
}

impl GenlMessage {
    /// Creates a request.
    pub(crate) fn new(family: u16, command: u8, attributes: &[DefaultNla]) -> Self {
        Self { family, command, attributes: encode(attributes) }
    }
}

/// Encodes attributes.
pub(crate) fn encode(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

impl NetlinkSerializable for GenlMessage {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let header = [self.command, VERSION, 0, 0];
        for (to, from) in buffer.iter_mut().zip(header.iter().chain(&self.attributes)) {
            *to = *from;
        }
    }
}

impl NetlinkDeserializable for GenlMessage {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let (genl, attributes) = payload.split_first_chunk::<HEADER>().ok_or_else(|| {
            DecodeError::invalid_buffer("of a generic netlink message", payload.len(), HEADER)
        })?;
        let [command, ..] = *genl;
        Ok(Self { family: header.message_type, command, attributes: attributes.to_vec() })
    }
}

/// Returns the number of a family; `None` if the kernel does not have it.
pub(crate) fn family_id(socket: &mut Socket<GenericNetlink>, name: &str) -> Result<Option<u16>, Error> {
    let name_attribute = DefaultNla::new(CTRL_ATTR_FAMILY_NAME, [name.as_bytes(), &[0]].concat());
    let request = GenlMessage::new(NLCTRL, CTRL_CMD_GETFAMILY, &[name_attribute]);
    let object = format_args!("generic netlink family {name}");
    match socket.get_at_once::<GenlMessage>("read", &object, request) {
        Ok(reply) => parse_family_id(&reply.attributes).map(Some).map_err(|source| Error::Malformed {
            object: object.to_string(),
            request: "CTRL_CMD_GETFAMILY",
            source,
        }),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn parse_family_id(bytes: &[u8]) -> Result<u16, Malformed> {
    const NAME: &str = "CTRL_ATTR_FAMILY_ID";
    for attribute in attributes(bytes) {
        let attribute = attribute?;
        if attribute.kind == CTRL_ATTR_FAMILY_ID {
            return attribute.u16(NAME);
        }
    }
    Err(Malformed::Missing { attribute: NAME })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_as_it_is_read() {
        let message = GenlMessage::new(21, 4, &[DefaultNla::new(7, vec![1])]);
        let mut written = vec![0xff; message.buffer_len()];
        message.serialize(&mut written);
        assert_eq!(written, [4, 1, 0, 0, 5, 0, 7, 0, 1, 0, 0, 0]);
        let mut header = NetlinkHeader::default();
        header.message_type = 21;
        assert_eq!(GenlMessage::deserialize(&header, &written).unwrap(), message);
        assert!(GenlMessage::deserialize(&header, &written[..3]).is_err());
    }

    #[test]
    fn a_family_without_a_number_is_malformed() {
        assert_eq!(parse_family_id(&[6, 0, 1, 0, 21, 0, 0, 0]), Ok(21));
        assert_eq!(parse_family_id(&[]), Err(Malformed::Missing { attribute: "CTRL_ATTR_FAMILY_ID" }));
        assert!(matches!(parse_family_id(&[5, 0, 1, 0, 21, 0, 0, 0]), Err(Malformed::Length { .. })));
    }

    #[test]
    fn a_kernel_without_a_family_has_no_number_for_it() {
        let mut socket = Socket::open().unwrap();
        assert_eq!(family_id(&mut socket, "silkrail-none").unwrap(), None);
        assert_eq!(family_id(&mut socket, "nlctrl").unwrap(), Some(NLCTRL));
    }
}
