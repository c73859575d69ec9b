//! The number of resources that a device has in use: a table inside an attribute.

use netlink_packet_core::{Emitable, Nla};

use crate::{
    entries::{entries, fields},
    uapi::*,
    value::{AttributeValue, EntryField, text},
};

/// The number of resources of one kind that a device has in use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[doc(alias = "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY")]
pub struct ResourceCount {
    /// The kernel's name of the kind: `qp`, `cq`, `mr`, `pd`, `ctx`, `srq`, `cm_id`.
    pub name: String,
    /// The current number.
    pub count: u64,
}

impl ResourceCount {
    /// Returns the counts in a table; an entry without a name or a count is left out.
    pub(crate) fn table(bytes: &[u8]) -> Vec<Self> {
        entries(bytes, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY).filter_map(Self::entry).collect()
    }

    fn entry(bytes: &[u8]) -> Option<Self> {
        let (mut name, mut count) = (None, None);
        for field in fields(bytes) {
            match field.kind() {
                RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME => name = text(field.value()),
                RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR => {
                    count = field.value().try_into().ok().map(u64::from_ne_bytes);
                }
                _ => {}
            }
        }
        Some(Self { name: name?, count: count? })
    }

    fn fields(&self) -> [EntryField<'_>; 2] {
        [
            EntryField(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, AttributeValue::Text(&self.name)),
            EntryField(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, AttributeValue::U64(self.count)),
        ]
    }
}

impl Nla for ResourceCount {
    fn kind(&self) -> u16 {
        RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY
    }

    fn value_len(&self) -> usize {
        self.fields().as_slice().buffer_len()
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        self.fields().as_slice().emit(buffer);
    }
}
