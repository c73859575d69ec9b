//! A message: a command and its attributes.

use netlink_packet_core::{
    DecodeError, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, NlasIterator, Parseable,
};

use crate::{NldevAttribute, NldevCommand, uapi::RDMA_NL_NLDEV};

const CLIENT_SHIFT: u16 = 10;
const COMMAND_MASK: u16 = (1 << CLIENT_SHIFT) - 1;

/// A message of the RDMA family.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RdmaMessage {
    /// A message of the client `RDMA_NL_NLDEV`, which manages devices.
    Nldev(NldevMessage),
    /// A message of another client (iwcm, local services), not decoded.
    Other {
        /// `client << 10 | command`.
        kind: u16,
        /// The bytes after the netlink header.
        payload: Vec<u8>,
    },
}

/// A message of the client `RDMA_NL_NLDEV`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NldevMessage {
    /// The command. A reply has that of its request, with the exception in the crate's documentation.
    pub command: NldevCommand,
    /// The attributes, in the order in which they are sent.
    pub attributes: Vec<NldevAttribute>,
}

impl NldevMessage {
    /// Creates a message.
    pub fn new(command: NldevCommand, attributes: Vec<NldevAttribute>) -> Self {
        Self { command, attributes }
    }

    fn parse(command: u16, bytes: &[u8]) -> Result<Self, DecodeError> {
        let attributes = NlasIterator::new(bytes)
            .map(|attribute| NldevAttribute::parse(&attribute?))
            .collect::<Result<_, _>>()?;
        Ok(Self { command: command.into(), attributes })
    }
}

impl From<NldevMessage> for RdmaMessage {
    fn from(message: NldevMessage) -> Self {
        Self::Nldev(message)
    }
}

impl NetlinkSerializable for RdmaMessage {
    fn message_type(&self) -> u16 {
        match self {
            Self::Nldev(message) => RDMA_NL_NLDEV << CLIENT_SHIFT | u16::from(message.command) & COMMAND_MASK,
            Self::Other { kind, .. } => *kind,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Self::Nldev(message) => message.attributes.as_slice().buffer_len(),
            Self::Other { payload, .. } => payload.len(),
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        match self {
            Self::Nldev(message) => message.attributes.as_slice().emit(buffer),
            Self::Other { payload, .. } => buffer.copy_from_slice(payload),
        }
    }
}

impl NetlinkDeserializable for RdmaMessage {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let kind = header.message_type;
        if kind >> CLIENT_SHIFT == RDMA_NL_NLDEV {
            NldevMessage::parse(kind & COMMAND_MASK, payload).map(Self::Nldev)
        } else {
            Ok(Self::Other { kind, payload: payload.to_vec() })
        }
    }
}
