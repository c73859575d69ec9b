//! The attributes of the entries in a table of resources.

use netlink_packet_core::{DefaultNla, NLA_F_NESTED, Nla, NlaBuffer, Parseable};

use crate::{
    HwCounter, QueuePairRange,
    counter::HwCounters,
    entries::fields,
    uapi::*,
    value::{AttributeValue, text},
};

/// An attribute of a resource.
///
/// A resource has an owner: the thread that created it, or a part of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceAttribute {
    /// The number of its port, from 1.
    PortIndex(u32),
    /// The queue pairs that use it.
    QueuePairs(Vec<QueuePairRange>),
    /// A queue pair's number.
    Lqpn(u32),
    /// The number of the remote queue pair.
    Rqpn(u32),
    /// The packet sequence number of the receive queue: 24 bits.
    RqPsn(u32),
    /// The packet sequence number of the send queue: 24 bits.
    SqPsn(u32),
    /// The state of path migration.
    PathMigState(u8),
    /// The type of a queue pair or shared receive queue.
    Type(u8),
    /// The state of a queue pair or connection manager ID.
    State(u8),
    /// The thread that created it, in the reader's PID namespace. Missing if it is not visible there or has ended.
    Pid(u32),
    /// The part of the kernel that created it, such as `ib_core`.
    KernName(String),
    /// The port space of a connection manager ID.
    Ps(u32),
    /// The local address, as a `sockaddr_storage`.
    SrcAddr(Vec<u8>),
    /// The remote address, as a `sockaddr_storage`.
    DstAddr(Vec<u8>),
    /// The capacity of a completion queue, in entries.
    Cqe(u32),
    /// The number of resources that use it.
    UseCnt(u64),
    /// How the kernel polls a completion queue.
    PollCtx(u8),
    /// The length of a memory region in bytes.
    MrLen(u64),
    /// A protection domain's number.
    Pdn(u32),
    /// A completion queue's number.
    Cqn(u32),
    /// A memory region's number.
    Mrn(u32),
    /// A connection manager ID's number.
    CmIdn(u32),
    /// A user context's number.
    Ctxn(u32),
    /// How its counters are bound (`RDMA_COUNTER_MODE_`).
    StatMode(u32),
    /// A counter set's number.
    StatCounterId(u32),
    /// The hardware counters of a counter set.
    StatHwCounters(Vec<HwCounter>),
    /// A shared receive queue's number.
    Srqn(u32),
    /// The driver's own name of the queue pair's type.
    Subtype(String),
    /// Whether optional counters are bound together with the others.
    StatOpcounterEnabled(u8),
    /// An attribute unknown to this crate, or with a value of unexpected size.
    Other(DefaultNla),
}

impl ResourceAttribute {
    /// Returns the attributes of an entry, without padding.
    pub(crate) fn entry(bytes: &[u8]) -> Vec<Self> {
        fields(bytes).filter(|field| field.kind() != 0).filter_map(|field| Self::of(&field)).collect()
    }

    fn of(field: &NlaBuffer<&[u8]>) -> Option<Self> {
        Self::read(field.kind(), field.value()).or_else(|| DefaultNla::parse(field).ok().map(Self::Other))
    }

    fn parts(&self) -> (u16, AttributeValue<'_>) {
        use AttributeValue::{Bytes, Nested, Other, Text, U8, U32, U64};
        match self {
            Self::PortIndex(v) => (RDMA_NLDEV_ATTR_PORT_INDEX, U32(*v)),
            Self::QueuePairs(v) => (RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED, Nested(v)),
            Self::Lqpn(v) => (RDMA_NLDEV_ATTR_RES_LQPN, U32(*v)),
            Self::Rqpn(v) => (RDMA_NLDEV_ATTR_RES_RQPN, U32(*v)),
            Self::RqPsn(v) => (RDMA_NLDEV_ATTR_RES_RQ_PSN, U32(*v)),
            Self::SqPsn(v) => (RDMA_NLDEV_ATTR_RES_SQ_PSN, U32(*v)),
            Self::PathMigState(v) => (RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, U8(*v)),
            Self::Type(v) => (RDMA_NLDEV_ATTR_RES_TYPE, U8(*v)),
            Self::State(v) => (RDMA_NLDEV_ATTR_RES_STATE, U8(*v)),
            Self::Pid(v) => (RDMA_NLDEV_ATTR_RES_PID, U32(*v)),
            Self::KernName(v) => (RDMA_NLDEV_ATTR_RES_KERN_NAME, Text(v)),
            Self::Ps(v) => (RDMA_NLDEV_ATTR_RES_PS, U32(*v)),
            Self::SrcAddr(v) => (RDMA_NLDEV_ATTR_RES_SRC_ADDR, Bytes(v)),
            Self::DstAddr(v) => (RDMA_NLDEV_ATTR_RES_DST_ADDR, Bytes(v)),
            Self::Cqe(v) => (RDMA_NLDEV_ATTR_RES_CQE, U32(*v)),
            Self::UseCnt(v) => (RDMA_NLDEV_ATTR_RES_USECNT, U64(*v)),
            Self::PollCtx(v) => (RDMA_NLDEV_ATTR_RES_POLL_CTX, U8(*v)),
            Self::MrLen(v) => (RDMA_NLDEV_ATTR_RES_MRLEN, U64(*v)),
            Self::Pdn(v) => (RDMA_NLDEV_ATTR_RES_PDN, U32(*v)),
            Self::Cqn(v) => (RDMA_NLDEV_ATTR_RES_CQN, U32(*v)),
            Self::Mrn(v) => (RDMA_NLDEV_ATTR_RES_MRN, U32(*v)),
            Self::CmIdn(v) => (RDMA_NLDEV_ATTR_RES_CM_IDN, U32(*v)),
            Self::Ctxn(v) => (RDMA_NLDEV_ATTR_RES_CTXN, U32(*v)),
            Self::StatMode(v) => (RDMA_NLDEV_ATTR_STAT_MODE, U32(*v)),
            Self::StatCounterId(v) => (RDMA_NLDEV_ATTR_STAT_COUNTER_ID, U32(*v)),
            Self::StatHwCounters(v) => (RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED, Nested(v)),
            Self::Srqn(v) => (RDMA_NLDEV_ATTR_RES_SRQN, U32(*v)),
            Self::Subtype(v) => (RDMA_NLDEV_ATTR_RES_SUBTYPE, Text(v)),
            Self::StatOpcounterEnabled(v) => (RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED, U8(*v)),
            Self::Other(nla) => (nla.kind(), Other(nla)),
        }
    }

    fn read(kind: u16, value: &[u8]) -> Option<Self> {
        let u8 = || value.try_into().ok().map(u8::from_ne_bytes);
        let u32 = || value.try_into().ok().map(u32::from_ne_bytes);
        let u64 = || value.try_into().ok().map(u64::from_ne_bytes);
        Some(match kind {
            RDMA_NLDEV_ATTR_PORT_INDEX => Self::PortIndex(u32()?),
            RDMA_NLDEV_ATTR_RES_QP => Self::QueuePairs(QueuePairRange::table(value)),
            RDMA_NLDEV_ATTR_RES_LQPN => Self::Lqpn(u32()?),
            RDMA_NLDEV_ATTR_RES_RQPN => Self::Rqpn(u32()?),
            RDMA_NLDEV_ATTR_RES_RQ_PSN => Self::RqPsn(u32()?),
            RDMA_NLDEV_ATTR_RES_SQ_PSN => Self::SqPsn(u32()?),
            RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE => Self::PathMigState(u8()?),
            RDMA_NLDEV_ATTR_RES_TYPE => Self::Type(u8()?),
            RDMA_NLDEV_ATTR_RES_STATE => Self::State(u8()?),
            RDMA_NLDEV_ATTR_RES_PID => Self::Pid(u32()?),
            RDMA_NLDEV_ATTR_RES_KERN_NAME => Self::KernName(text(value)?),
            RDMA_NLDEV_ATTR_RES_PS => Self::Ps(u32()?),
            RDMA_NLDEV_ATTR_RES_SRC_ADDR => Self::SrcAddr(value.to_vec()),
            RDMA_NLDEV_ATTR_RES_DST_ADDR => Self::DstAddr(value.to_vec()),
            RDMA_NLDEV_ATTR_RES_CQE => Self::Cqe(u32()?),
            RDMA_NLDEV_ATTR_RES_USECNT => Self::UseCnt(u64()?),
            RDMA_NLDEV_ATTR_RES_POLL_CTX => Self::PollCtx(u8()?),
            RDMA_NLDEV_ATTR_RES_MRLEN => Self::MrLen(u64()?),
            RDMA_NLDEV_ATTR_RES_PDN => Self::Pdn(u32()?),
            RDMA_NLDEV_ATTR_RES_CQN => Self::Cqn(u32()?),
            RDMA_NLDEV_ATTR_RES_MRN => Self::Mrn(u32()?),
            RDMA_NLDEV_ATTR_RES_CM_IDN => Self::CmIdn(u32()?),
            RDMA_NLDEV_ATTR_RES_CTXN => Self::Ctxn(u32()?),
            RDMA_NLDEV_ATTR_STAT_MODE => Self::StatMode(u32()?),
            RDMA_NLDEV_ATTR_STAT_COUNTER_ID => Self::StatCounterId(u32()?),
            RDMA_NLDEV_ATTR_STAT_HWCOUNTERS => match HwCounters::read(value) {
                HwCounters::Values(counters) => Self::StatHwCounters(counters),
                HwCounters::Statuses(_) => return None,
            },
            RDMA_NLDEV_ATTR_RES_SRQN => Self::Srqn(u32()?),
            RDMA_NLDEV_ATTR_RES_SUBTYPE => Self::Subtype(text(value)?),
            RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED => Self::StatOpcounterEnabled(u8()?),
            _ => return None,
        })
    }
}

impl Nla for ResourceAttribute {
    fn kind(&self) -> u16 {
        self.parts().0
    }

    fn value_len(&self) -> usize {
        self.parts().1.len()
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        self.parts().1.emit(buffer);
    }
}
