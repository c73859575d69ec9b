//! The owner of a resource.

use netlink_packet_rdma::ResourceAttribute;

/// The thread or the part of the kernel that created a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ResourceOwner {
    /// A *thread*, by its ID in the reader's PID namespace; `/proc/<id>` shows its process.
    Process(u32),
    /// A part of the kernel, by its name, such as `ib_core`.
    Kernel(String),
    /// The thread is not in the reader's PID namespace, or has ended. Its process may still run and use the resource.
    Unknown,
}

impl ResourceOwner {
    /// Reads the owner in an entry. The kernel may report a thread that has ended as 0.
    pub(super) fn of(entry: &[ResourceAttribute]) -> Self {
        let owner = entry.iter().find_map(|attribute| match attribute {
            ResourceAttribute::Pid(thread) if *thread != 0 => Some(Self::Process(*thread)),
            ResourceAttribute::KernName(name) => Some(Self::Kernel(name.clone())),
            _ => None,
        });
        owner.unwrap_or(Self::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceAttribute::{KernName, Lqpn, Pid};

    #[test]
    fn an_owner_is_a_thread_or_the_kernel_or_unknown() {
        assert_eq!(ResourceOwner::of(&[Lqpn(1), Pid(304)]), ResourceOwner::Process(304));
        assert_eq!(ResourceOwner::of(&[KernName("ib_core".into())]), ResourceOwner::Kernel("ib_core".into()));
        assert_eq!(ResourceOwner::of(&[Lqpn(1)]), ResourceOwner::Unknown);
        assert_eq!(ResourceOwner::of(&[Pid(0)]), ResourceOwner::Unknown);
        assert_eq!(
            ResourceOwner::of(&[Pid(0), KernName("rdma_cm".into())]),
            ResourceOwner::Kernel("rdma_cm".into())
        );
    }
}
