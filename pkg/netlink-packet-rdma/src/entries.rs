//! The entries of tables, and their attributes.

use netlink_packet_core::{NlaBuffer, NlasIterator};

/// Returns the values of a table's entries. (`NlaBuffer::value` borrows from the buffer, so the bytes are sliced here.)
pub(crate) fn entries(bytes: &[u8], entry: u16) -> impl Iterator<Item = &[u8]> {
    let attributes = NlasIterator::new(bytes).map_while(Result::ok);
    attributes.filter(move |attribute| attribute.kind() == entry).map(|attribute| {
        let whole = attribute.into_inner();
        &whole[4..usize::from(attribute.length())]
    })
}

/// Returns the attributes of an entry, up to the first malformed one.
pub(crate) fn fields(bytes: &[u8]) -> impl Iterator<Item = NlaBuffer<&[u8]>> {
    NlasIterator::new(bytes).map_while(Result::ok)
}
