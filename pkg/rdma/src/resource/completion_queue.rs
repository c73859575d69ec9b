//! Completion queues.

use netlink_packet_rdma::{NldevCommand, ResourceAttribute, ResourceKind};

use super::{ResourceOwner, query::ResourceQuery};
use crate::{Device, Error, Handle};

/// A completion queue of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionQueue {
    /// The number of the completion queue.
    pub number: u32,
    /// The capacity in completions.
    pub entries: Option<u32>,
    /// The number of queues that use it.
    pub users: Option<u64>,
    /// The number of its user context; `None` for resources of the kernel.
    pub context: Option<u32>,
    /// The thread or the part of the kernel that created it.
    pub owner: ResourceOwner,
}

impl Handle {
    /// Returns the completion queues of a device; `None` if this kernel does not report them.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_CQ_GET` as a dump, with numbers since 5.0.
    #[doc(alias = "rdma resource show cq")]
    pub fn completion_queues(&self, device: &Device) -> Result<Option<Vec<CompletionQueue>>, Error> {
        const LIST: ResourceQuery = ResourceQuery {
            what: "completion queues",
            command: NldevCommand::ResCqGet,
            kind: ResourceKind::CompletionQueue,
        };
        LIST.of(self, device, None, CompletionQueue::read)
    }
}

impl CompletionQueue {
    /// Reads the completion queue in an entry; `None` without a number.
    pub fn read(entry: Vec<ResourceAttribute>) -> Option<Self> {
        let owner = ResourceOwner::of(&entry);
        let (mut number, mut entries, mut users, mut context) = (None, None, None, None);
        for attribute in entry {
            match attribute {
                ResourceAttribute::Cqn(v) => number = Some(v),
                ResourceAttribute::Cqe(v) => entries = Some(v),
                ResourceAttribute::UseCnt(v) => users = Some(v),
                ResourceAttribute::Ctxn(v) => context = Some(v),
                _ => {}
            }
        }
        Some(Self { number: number?, entries, users, context, owner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceAttribute::*;

    #[test]
    fn a_completion_queue_has_a_size_and_users() {
        let entry = vec![Cqn(5), Cqe(1023), UseCnt(2), Ctxn(4), Pid(304)];
        let expected = CompletionQueue {
            number: 5,
            entries: Some(1023),
            users: Some(2),
            context: Some(4),
            owner: ResourceOwner::Process(304),
        };
        assert_eq!(CompletionQueue::read(entry), Some(expected));
        assert_eq!(CompletionQueue::read(vec![Cqe(1023)]), None);
    }
}
