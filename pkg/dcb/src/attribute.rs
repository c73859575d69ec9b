//! Netlink attributes: reading and encoding them.

use netlink_packet_core::{DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NlasIterator};

/// The length of an attribute's header (`nlattr`).
const HEADER: usize = 4;

/// Returns the types, without flags, and the values of the attributes in `bytes`. An attribute that does not fit is an error,
/// and the last item.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), DecodeError>> {
    NlasIterator::new(bytes).map(|attribute| {
        let attribute = attribute?;
        let (kind, end) = (attribute.kind(), usize::from(attribute.length()));
        Ok((kind, attribute.into_inner().get(HEADER..end).unwrap_or_default()))
    })
}

/// Encodes attributes, each with its padding.
pub(crate) fn encode(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// Returns an attribute that contains others.
pub(crate) fn nest(kind: u16, attributes: &[DefaultNla]) -> DefaultNla {
    DefaultNla::new(kind | NLA_F_NESTED, encode(attributes))
}
