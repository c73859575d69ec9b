//! Tables: attributes that contain entries, which contain attributes.

use netlink_packet_core::{Emitable, Nla};

use crate::{ResourceAttribute, entries::entries, uapi::*, value::NestedValue};

/// The resources of one kind.
///
/// The kernel sends resource tables without `NLA_F_NESTED`; they are also accepted with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTable {
    /// The kind of the entries.
    pub kind: ResourceKind,
    /// The attributes of each entry, in the kernel's order.
    pub entries: Vec<Vec<ResourceAttribute>>,
}

/// The kind of a table's resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResourceKind {
    /// Queue pairs.
    QueuePair,
    /// Connection manager IDs.
    CmId,
    /// Completion queues.
    CompletionQueue,
    /// Memory regions.
    MemoryRegion,
    /// Protection domains.
    ProtectionDomain,
    /// Sets of hardware counters that are bound to resources.
    CounterSet,
    /// User contexts.
    Context,
    /// Shared receive queues.
    SharedReceiveQueue,
}

impl ResourceKind {
    /// Returns the kernel's number of the kind: the table's attribute, and the value of `StatRes`.
    pub fn number(self) -> u16 {
        match self {
            Self::QueuePair => RDMA_NLDEV_ATTR_RES_QP,
            Self::CmId => RDMA_NLDEV_ATTR_RES_CM_ID,
            Self::CompletionQueue => RDMA_NLDEV_ATTR_RES_CQ,
            Self::MemoryRegion => RDMA_NLDEV_ATTR_RES_MR,
            Self::ProtectionDomain => RDMA_NLDEV_ATTR_RES_PD,
            Self::CounterSet => RDMA_NLDEV_ATTR_STAT_COUNTER,
            Self::Context => RDMA_NLDEV_ATTR_RES_CTX,
            Self::SharedReceiveQueue => RDMA_NLDEV_ATTR_RES_SRQ,
        }
    }

    fn entry(self) -> u16 {
        match self {
            Self::QueuePair => RDMA_NLDEV_ATTR_RES_QP_ENTRY,
            Self::CmId => RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
            Self::CompletionQueue => RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
            Self::MemoryRegion => RDMA_NLDEV_ATTR_RES_MR_ENTRY,
            Self::ProtectionDomain => RDMA_NLDEV_ATTR_RES_PD_ENTRY,
            Self::CounterSet => RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY,
            Self::Context => RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
            Self::SharedReceiveQueue => RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
        }
    }

    fn of(number: u16) -> Option<Self> {
        Some(match number {
            RDMA_NLDEV_ATTR_RES_QP => Self::QueuePair,
            RDMA_NLDEV_ATTR_RES_CM_ID => Self::CmId,
            RDMA_NLDEV_ATTR_RES_CQ => Self::CompletionQueue,
            RDMA_NLDEV_ATTR_RES_MR => Self::MemoryRegion,
            RDMA_NLDEV_ATTR_RES_PD => Self::ProtectionDomain,
            RDMA_NLDEV_ATTR_STAT_COUNTER => Self::CounterSet,
            RDMA_NLDEV_ATTR_RES_CTX => Self::Context,
            RDMA_NLDEV_ATTR_RES_SRQ => Self::SharedReceiveQueue,
            _ => return None,
        })
    }
}

impl ResourceTable {
    /// Reads the table in an attribute with that number; `None` if it does not contain a table. Attributes that are not
    /// entries are left out, and an entry ends at its first malformed attribute.
    pub(crate) fn read(number: u16, bytes: &[u8]) -> Option<Self> {
        let kind = ResourceKind::of(number)?;
        let entries = entries(bytes, kind.entry());
        Some(Self { kind, entries: entries.map(ResourceAttribute::entry).collect() })
    }

    fn rows(&self) -> impl Iterator<Item = EncodedEntry<'_>> {
        self.entries.iter().map(|entry| EncodedEntry(self.kind.entry(), entry))
    }
}

impl NestedValue for ResourceTable {
    fn len(&self) -> usize {
        self.rows().map(|row| row.buffer_len()).sum()
    }

    fn emit(&self, buffer: &mut [u8]) {
        let mut rest = buffer;
        for row in self.rows() {
            let (head, tail) = rest.split_at_mut(row.buffer_len());
            row.emit(head);
            rest = tail;
        }
    }
}

/// An entry to serialize: its attribute number and attributes.
struct EncodedEntry<'a>(u16, &'a [ResourceAttribute]);

impl Nla for EncodedEntry<'_> {
    fn kind(&self) -> u16 {
        self.0
    }

    fn value_len(&self) -> usize {
        self.1.buffer_len()
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        self.1.emit(buffer);
    }
}
