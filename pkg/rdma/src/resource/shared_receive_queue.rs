//! Shared receive queues.

use netlink_packet_rdma::{NldevCommand, QueuePairRange, ResourceAttribute, ResourceKind};

use super::{ResourceOwner, ResourceQuery};
use crate::{Device, Error, Handle};

/// A receive queue that several queue pairs share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedReceiveQueue {
    /// Its number.
    pub number: u32,
    /// What it is for.
    pub kind: Option<SrqType>,
    /// The protection domain it belongs to.
    pub protection_domain: Option<u32>,
    /// Its completion queue: only XRC and tag matching have one.
    pub completion_queue: Option<u32>,
    /// The queue pairs that use it.
    pub queue_pairs: Vec<QueuePairRange>,
    /// Who made it.
    pub owner: ResourceOwner,
}

/// What a shared receive queue is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "ib_srq_type")]
pub enum SrqType {
    /// Queue pairs of any kind.
    Basic,
    /// Extended reliable connections.
    Xrc,
    /// Tag matching.
    TagMatching,
    /// A kind this crate does not know.
    Other(u8),
}

impl Handle {
    /// The shared receive queues of a device; `None` if this kernel does not tell.
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
    /// The shared receive queue that an entry tells of; `None` without a number.
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
    fn a_shared_receive_queue_says_who_shares_it() {
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
