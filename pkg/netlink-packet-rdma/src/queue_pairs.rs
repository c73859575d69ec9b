//! The queue pairs that use a counter set or a shared receive queue: a table inside an entry.

use netlink_packet_core::{Emitable, NLA_F_NESTED, Nla};

use crate::{
    entries::{entries, fields},
    uapi::*,
    value::{AttributeValue, EntryField},
};

/// Queue pairs with consecutive numbers, both ends included.
///
/// The kernel never sends a `first` above `last`. A single queue pair is serialized as its number, several as a range,
/// as the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "RDMA_NLDEV_ATTR_MIN_RANGE")]
pub struct QueuePairRange {
    /// The lowest number.
    pub first: u32,
    /// The highest number.
    pub last: u32,
}

impl QueuePairRange {
    /// Returns the ranges in a table; an entry without a number is left out.
    pub(crate) fn table(bytes: &[u8]) -> Vec<Self> {
        entries(bytes, RDMA_NLDEV_ATTR_RES_QP_ENTRY).filter_map(Self::entry).collect()
    }

    fn entry(bytes: &[u8]) -> Option<Self> {
        let (mut first, mut last) = (None, None);
        for field in fields(bytes) {
            let number = field.value().try_into().ok().map(u32::from_ne_bytes);
            match field.kind() {
                RDMA_NLDEV_ATTR_RES_LQPN => (first, last) = (number, number),
                RDMA_NLDEV_ATTR_MIN_RANGE => first = number,
                RDMA_NLDEV_ATTR_MAX_RANGE => last = number,
                _ => {}
            }
        }
        Some(Self { first: first?, last: last? })
    }

    fn fields(&self) -> [EntryField<'_>; 2] {
        [
            EntryField(RDMA_NLDEV_ATTR_MIN_RANGE, AttributeValue::U32(self.first)),
            EntryField(RDMA_NLDEV_ATTR_MAX_RANGE, AttributeValue::U32(self.last)),
        ]
    }

    fn number(&self) -> Option<EntryField<'_>> {
        (self.first == self.last)
            .then_some(EntryField(RDMA_NLDEV_ATTR_RES_LQPN, AttributeValue::U32(self.first)))
    }
}

impl Nla for QueuePairRange {
    fn kind(&self) -> u16 {
        RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED
    }

    fn value_len(&self) -> usize {
        self.number().map_or_else(|| self.fields().as_slice().buffer_len(), |number| number.buffer_len())
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        match self.number() {
            Some(number) => number.emit(buffer),
            None => self.fields().as_slice().emit(buffer),
        }
    }
}
