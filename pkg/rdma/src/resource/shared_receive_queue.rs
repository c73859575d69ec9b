//! Shared receive queues.

use netlink_packet_rdma::{NldevCommand, QueuePairRange, ResourceAttribute, ResourceKind};

use super::{ResourceOwner, query::ResourceQuery};
use crate::{Device, Error, Handle};

/// A receive queue that several queue pairs share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedReceiveQueue {
    /// The number of the shared receive queue.
    pub number: u32,
    /// The type of the queue.
    pub kind: Option<SrqType>,
    /// The number of its protection domain.
    pub protection_domain: Option<u32>,
    /// The number of its completion queue, which only XRC and tag matching have.
    pub completion_queue: Option<u32>,
    /// The queue pairs that use it.
    pub queue_pairs: Vec<QueuePairRange>,
    /// The thread or the part of the kernel that created it.
    pub owner: ResourceOwner,
}

/// The type of a shared receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "ib_srq_type")]
pub enum SrqType {
    /// `IB_SRQT_BASIC`: for queue pairs of any type.
    Basic,
    /// `IB_SRQT_XRC`: for extended reliable connections.
    Xrc,
    /// `IB_SRQT_TM`: with tag matching.
    TagMatching,
    /// A type unknown to this crate.
    Other(u8),
}

impl Handle {
    /// Returns the shared receive queues of a device; `None` if this kernel does not report them.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_SRQ_GET` as a dump, since 5.13.
    #[doc(alias = "rdma resource show srq")]
    pub fn shared_receive_queues(&self, device: &Device) -> Result<Option<Vec<SharedReceiveQueue>>, Error> {
        const LIST: ResourceQuery = ResourceQuery {
            what: "shared receive queues",
            command: NldevCommand::ResSrqGet,
            kind: ResourceKind::SharedReceiveQueue,
        };
        LIST.of(self, device, None, SharedReceiveQueue::read)
    }
}

impl SharedReceiveQueue {
    /// Reads the shared receive queue in an entry; `None` without a number.
    pub fn read(entry: Vec<ResourceAttribute>) -> Option<Self> {
        let owner = ResourceOwner::of(&entry);
        let (mut number, mut kind, mut queue_pairs) = (None, None, Vec::new());
        let (mut protection_domain, mut completion_queue) = (None, None);
        for attribute in entry {
            match attribute {
                ResourceAttribute::Srqn(v) => number = Some(v),
                ResourceAttribute::Type(v) => kind = Some(v.into()),
                ResourceAttribute::QueuePairs(v) => queue_pairs = v,
                ResourceAttribute::Pdn(v) => protection_domain = Some(v),
                ResourceAttribute::Cqn(v) => completion_queue = Some(v),
                _ => {}
            }
        }
        Some(Self { number: number?, kind, protection_domain, completion_queue, queue_pairs, owner })
    }
}

impl From<u8> for SrqType {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Basic,
            1 => Self::Xrc,
            2 => Self::TagMatching,
            other => Self::Other(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceAttribute::*;

    #[test]
    fn a_shared_receive_queue_lists_its_queue_pairs() {
        let shared = vec![QueuePairRange { first: 17, last: 20 }];
        let entry = vec![Srqn(1), Pid(304), Type(1), Pdn(3), Cqn(5), QueuePairs(shared.clone())];
        let expected = SharedReceiveQueue {
            number: 1,
            kind: Some(SrqType::Xrc),
            protection_domain: Some(3),
            completion_queue: Some(5),
            queue_pairs: shared,
            owner: ResourceOwner::Process(304),
        };
        assert_eq!(SharedReceiveQueue::read(entry), Some(expected));
        assert_eq!(SharedReceiveQueue::read(vec![Type(0)]), None);
    }
}
