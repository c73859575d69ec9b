//! Whose an object is.

use netlink_packet_rdma::ResourceAttribute;

/// Who made an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ResourceOwner {
    /// The *thread* of this number in the reader's PID namespace; `/proc/<number>` leads to its process.
    Process(u32),
    /// A part of the kernel, by its name, like `ib_core`.
    Kernel(String),
    /// The thread is not in the reader's PID namespace, or has ended: its process may live, and use the object.
    Unknown,
}

impl ResourceOwner {
    /// The owner that an entry tells. A thread that has ended may be told as number 0.
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
    fn an_owner_is_a_thread_or_the_kernel_or_not_told() {
        assert_eq!(ResourceOwner::of(&[Lqpn(1), Pid(304)]), ResourceOwner::Process(304));
        assert_eq!(ResourceOwner::of(&[KernName("ib_core".into())]), ResourceOwner::Kernel("ib_core".into()));
        assert_eq!(ResourceOwner::of(&[Lqpn(1)]), ResourceOwner::Unknown);
        assert_eq!(ResourceOwner::of(&[Pid(0)]), ResourceOwner::Unknown);
    }
}
