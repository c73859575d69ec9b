//! Attribute values that are enumerations.

use crate::uapi::*;

/// The RDMA mode: the network namespaces in which RDMA devices are visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "RDMA_NLDEV_SYS_ATTR_NETNS_MODE")]
pub enum RawNetnsMode {
    /// Devices are visible in every network namespace.
    Shared,
    /// Each device is visible only in its own namespace.
    Exclusive,
    /// A mode unknown to this crate.
    Other(u8),
}

/// A port's logical state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "ib_port_state")]
pub enum PortState {
    /// `DOWN`: the port has no physical link.
    Down,
    /// `INIT`: the link is up, but not configured.
    Init,
    /// `ARMED`: the port is configured, but not yet in use.
    Armed,
    /// `ACTIVE`: the port can transfer data.
    Active,
    /// `ACTIVE_DEFER`: as active, while a link error is handled.
    ActiveDefer,
    /// A state unknown to this crate (0 is the kernel's "no change").
    Other(u8),
}

/// A port's physical state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "ib_port_phys_state")]
pub enum PhysState {
    /// `SLEEP`: the port is in a power-saving state.
    Sleep,
    /// `POLLING`: the port is searching for the other end.
    Polling,
    /// `DISABLED`: the port is switched off.
    Disabled,
    /// `PORT_CONFIGURATION_TRAINING`: both ends negotiate.
    Training,
    /// `LINK_UP`: the physical link is up.
    LinkUp,
    /// `LINK_ERROR_RECOVERY`: the port recovers from an error.
    ErrorRecovery,
    /// `PHY_TEST`: the port is under test.
    Test,
    /// A state unknown to this crate.
    Other(u8),
}

/// The node type of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "rdma_node_type")]
pub enum NodeType {
    /// A channel adapter; also RoCE devices.
    Ca,
    /// An InfiniBand switch.
    Switch,
    /// An InfiniBand router.
    Router,
    /// An iWARP card.
    Rnic,
    /// A Cisco usNIC card.
    Usnic,
    /// A Cisco usNIC card with UDP transport.
    UsnicUdp,
    /// The driver does not specify the type.
    Unspecified,
    /// A type unknown to this crate.
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
