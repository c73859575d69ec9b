//! Small values of attributes.

use crate::uapi::*;

/// Who sees an RDMA device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "RDMA_NLDEV_SYS_ATTR_NETNS_MODE")]
pub enum RawNetnsMode {
    /// Every network namespace.
    Shared,
    /// The one namespace it is in.
    Exclusive,
    /// A mode this crate does not know.
    Other(u8),
}

/// A port's logical state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "ib_port_state")]
pub enum PortState {
    /// No link.
    Down,
    /// Link, not configured.
    Init,
    /// Configured, not yet in use.
    Armed,
    /// In use.
    Active,
    /// Active, link error being handled.
    ActiveDefer,
    /// A state this crate does not know (0 is the kernel's "no change").
    Other(u8),
}

/// A port's physical state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "ib_port_phys_state")]
pub enum PhysState {
    /// Asleep.
    Sleep,
    /// Looking for a partner.
    Polling,
    /// Switched off.
    Disabled,
    /// Training.
    Training,
    /// Up.
    LinkUp,
    /// Recovering from an error.
    ErrorRecovery,
    /// Under test.
    Test,
    /// A state this crate does not know.
    Other(u8),
}

/// What kind of device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "rdma_node_type")]
pub enum NodeType {
    /// A channel adapter; RoCE devices are that too.
    Ca,
    /// An InfiniBand switch.
    Switch,
    /// An InfiniBand router.
    Router,
    /// An iWARP card.
    Rnic,
    /// usNIC.
    Usnic,
    /// usNIC over UDP.
    UsnicUdp,
    /// The driver does not say.
    Unspecified,
    /// A kind this crate does not know.
    Other(u8),
}

impl From<u8> for RawNetnsMode {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Exclusive,
            1 => Self::Shared,
            other => Self::Other(other),
        }
    }
}

impl From<RawNetnsMode> for u8 {
    fn from(mode: RawNetnsMode) -> Self {
        match mode {
            RawNetnsMode::Exclusive => 0,
            RawNetnsMode::Shared => 1,
            RawNetnsMode::Other(other) => other,
        }
    }
}

impl From<u8> for PortState {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Down,
            2 => Self::Init,
            3 => Self::Armed,
            4 => Self::Active,
            5 => Self::ActiveDefer,
            other => Self::Other(other),
        }
    }
}

impl From<PortState> for u8 {
    fn from(state: PortState) -> Self {
        match state {
            PortState::Down => 1,
            PortState::Init => 2,
            PortState::Armed => 3,
            PortState::Active => 4,
            PortState::ActiveDefer => 5,
            PortState::Other(other) => other,
        }
    }
}

impl From<u8> for PhysState {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Sleep,
            2 => Self::Polling,
            3 => Self::Disabled,
            4 => Self::Training,
            5 => Self::LinkUp,
            6 => Self::ErrorRecovery,
            7 => Self::Test,
            other => Self::Other(other),
        }
    }
}

impl From<PhysState> for u8 {
    fn from(state: PhysState) -> Self {
        match state {
            PhysState::Sleep => 1,
            PhysState::Polling => 2,
            PhysState::Disabled => 3,
            PhysState::Training => 4,
            PhysState::LinkUp => 5,
            PhysState::ErrorRecovery => 6,
            PhysState::Test => 7,
            PhysState::Other(other) => other,
        }
    }
}

impl From<u8> for NodeType {
    fn from(number: u8) -> Self {
        match u16::from(number) {
            RDMA_NODE_IB_CA => Self::Ca,
            RDMA_NODE_IB_SWITCH => Self::Switch,
            RDMA_NODE_IB_ROUTER => Self::Router,
            RDMA_NODE_RNIC => Self::Rnic,
            RDMA_NODE_USNIC => Self::Usnic,
            RDMA_NODE_USNIC_UDP => Self::UsnicUdp,
            RDMA_NODE_UNSPECIFIED => Self::Unspecified,
            _ => Self::Other(number),
        }
    }
}

impl From<NodeType> for u8 {
    fn from(kind: NodeType) -> Self {
        match kind {
            NodeType::Ca => 1,
            NodeType::Switch => 2,
            NodeType::Router => 3,
            NodeType::Rnic => 4,
            NodeType::Usnic => 5,
            NodeType::UsnicUdp => 6,
            NodeType::Unspecified => 7,
            NodeType::Other(other) => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_reads_back_as_it_was_written() {
        for number in 0..=u8::MAX {
            assert_eq!(u8::from(RawNetnsMode::from(number)), number);
            assert_eq!(u8::from(PortState::from(number)), number);
            assert_eq!(u8::from(PhysState::from(number)), number);
            assert_eq!(u8::from(NodeType::from(number)), number);
        }
    }
}
