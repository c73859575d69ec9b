//! The CNI error code of each error.

use cni::ErrorCode;
use nix::errno::Errno;

use crate::{Condition, Error};

impl Error {
    /// Returns the code of the CNI error object, which the runtime acts on.
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            Self::Cni(error) => error.code,
            Self::OwnNetNs { .. } => ErrorCode::INVALID_NETNS,
            Self::NetNs(error) | Self::Link(rtnl::Error::NetNs(error)) => netns_code(error),
            Self::Link(rtnl::Error::Netlink(error)) => netlink_code(error),
            Self::Journal(error) => journal_code(error),
            Self::File(error) => file_code(error),
            Self::Rdma(error) => rdma_code(error),
            Self::Pools(_) => ErrorCode::INVALID_CONFIG,
            Self::NoPool(error) if error.is_of_files() => ErrorCode::INVALID_CONFIG,
            Self::NoPool(_) => ErrorCode::NO_ADDRESS,
            Self::Address(error) => address_code(error),
            Self::PodMap(podmap::Error::File(error)) => file_code(error),
            Self::PodMap(_) | Self::Sysfs(_) => ErrorCode::INTERNAL,
            Self::State(error) => state_code(error),
            Self::Plugin(error) => condition_code(error.condition()),
            Self::NoAddresses | Self::DelegateWithoutError { .. } | Self::Ipv6 { .. } => ErrorCode::INTERNAL,
            Self::NoDelegate { .. } => ErrorCode::INVALID_CONFIG,
            Self::Delegate { .. } => ErrorCode::IO,
            Self::NameInUse { .. } | Self::MacInUse { .. } | Self::DuplicateAddress { .. } => {
                ErrorCode::IN_USE
            }
            // The next ADD gets another address: pools are used in turn.
            Self::AddressInUse { .. } => ErrorCode::TRY_AGAIN,
            Self::DelegateTimedOut { .. } | Self::Tentative { .. } | Self::Left(_) => ErrorCode::TRY_AGAIN,
            Self::Changed(_) => ErrorCode::CHANGED,
            Self::Wait { .. } => ErrorCode::IO,
        }
    }
}

fn condition_code(condition: Condition) -> ErrorCode {
    match condition {
        Condition::UnsupportedField => ErrorCode::UNSUPPORTED_FIELD,
        Condition::InvalidConfig => ErrorCode::INVALID_CONFIG,
        Condition::InvalidEnvironment => ErrorCode::INVALID_ENVIRONMENT,
        Condition::Changed => ErrorCode::CHANGED,
        Condition::InUse => ErrorCode::IN_USE,
        Condition::TryAgain => ErrorCode::TRY_AGAIN,
        Condition::NoRdma => ErrorCode::NO_RDMA,
        Condition::NoAddress => ErrorCode::NO_ADDRESS,
        Condition::Internal => ErrorCode::INTERNAL,
    }
}

fn netlink_code(error: &netlink::Error) -> ErrorCode {
    match error {
        netlink::Error::Deadline { .. } => ErrorCode::TRY_AGAIN,
        netlink::Error::Refused { errno: Errno::EBUSY | Errno::EAGAIN, .. } => ErrorCode::TRY_AGAIN,
        netlink::Error::Exists { .. } => ErrorCode::IN_USE,
        _ => ErrorCode::INTERNAL,
    }
}

fn netns_code(error: &netns::Error) -> ErrorCode {
    match error {
        netns::Error::Missing { .. } | netns::Error::NotANamespace { .. } | netns::Error::Enter { .. } => {
            ErrorCode::INVALID_NETNS
        }
        netns::Error::Open { .. } => ErrorCode::IO,
    }
}

fn journal_code(error: &journal::Error) -> ErrorCode {
    match error {
        journal::Error::Exists { .. } => ErrorCode::IN_USE,
        journal::Error::File(error) => file_code(error),
        _ => ErrorCode::INTERNAL,
    }
}

fn file_code(error: &statefile::Error) -> ErrorCode {
    match error {
        statefile::Error::Busy { .. } => ErrorCode::TRY_AGAIN,
        statefile::Error::Exists { .. } => ErrorCode::IN_USE,
        statefile::Error::NotRegular { .. } | statefile::Error::Io { .. } => ErrorCode::IO,
    }
}

fn address_code(error: &ipam::StoreError) -> ErrorCode {
    match error {
        ipam::StoreError::Exhausted { .. }
        | ipam::StoreError::AllExhausted { .. }
        | ipam::StoreError::Taken { .. }
        | ipam::StoreError::NoBlock { .. }
        | ipam::StoreError::AllFull { .. } => ErrorCode::NO_ADDRESS,
        ipam::StoreError::NotOwner { .. } => ErrorCode::IN_USE,
        ipam::StoreError::Busy { .. } => ErrorCode::TRY_AGAIN,
        _ => ErrorCode::IO,
    }
}

fn state_code(error: &state::Error) -> ErrorCode {
    match error {
        state::Error::File(error) | state::Error::PodMap(podmap::Error::File(error)) => file_code(error),
        state::Error::Journal(error) => journal_code(error),
        state::Error::NetNs(error) => netns_code(error),
        state::Error::PodMap(_) => ErrorCode::INTERNAL,
        state::Error::Address(error) => address_code(error),
        state::Error::InUse { .. } => ErrorCode::IN_USE,
        state::Error::Contended { .. } => ErrorCode::TRY_AGAIN,
        state::Error::NotOwner { .. } => ErrorCode::CHANGED,
    }
}

fn rdma_code(error: &rdma::Error) -> ErrorCode {
    match error {
        rdma::Error::Netlink(error) => netlink_code(error),
        rdma::Error::NoRdma | rdma::Error::NoDeviceOf { .. } => ErrorCode::NO_RDMA,
        rdma::Error::Elsewhere { .. } => ErrorCode::IN_USE,
        rdma::Error::NotReturned { .. } | rdma::Error::MovesHeld { .. } => ErrorCode::TRY_AGAIN,
        rdma::Error::Lock { .. } => ErrorCode::IO,
        _ => ErrorCode::INTERNAL,
    }
}
