//! The code of each error: the one place that decides.

use cni::Code;
use nix::errno::Errno;

use crate::{Condition, Error};

impl Error {
    /// The code a runtime acts on.
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Cni(error) => error.code,
            Self::OwnNetNs { .. } => Code::INVALID_NETNS,
            Self::NetNs(error) | Self::Link(rtnl::Error::NetNs(error)) => netns_code(error),
            Self::Link(rtnl::Error::Netlink(error)) => netlink_code(error),
            Self::Journal(error) => journal_code(error),
            Self::File(error) => file_code(error),
            Self::Rdma(error) => rdma_code(error),
            Self::Pools(_) => Code::INVALID_CONFIG,
            Self::NoPool(error) if error.is_of_files() => Code::INVALID_CONFIG,
            Self::NoPool(_) => Code::NO_ADDRESS,
            Self::Address(error) => address_code(error),
            Self::PodMap(podmap::Error::File(error)) => file_code(error),
            Self::PodMap(_) | Self::Sysfs(_) => Code::INTERNAL,
            Self::State(error) => state_code(error),
            Self::Plugin(error) => condition_code(error.condition()),
            Self::NoAddresses | Self::DelegateWithoutError { .. } | Self::Ipv6 { .. } => Code::INTERNAL,
            Self::NoDelegate { .. } => Code::INVALID_CONFIG,
            Self::Delegate { .. } => Code::IO,
            Self::NameInUse { .. } | Self::MacInUse { .. } | Self::DuplicateAddress { .. } => Code::IN_USE,
            Self::DelegateTimedOut { .. } | Self::Tentative { .. } | Self::Left(_) => Code::TRY_AGAIN,
            Self::Changed(_) => Code::CHANGED,
            Self::Wait { .. } => Code::IO,
        }
    }
}

fn condition_code(condition: Condition) -> Code {
    match condition {
        Condition::UnsupportedField => Code::UNSUPPORTED_FIELD,
        Condition::InvalidConfig => Code::INVALID_CONFIG,
        Condition::InvalidEnvironment => Code::INVALID_ENVIRONMENT,
        Condition::Changed => Code::CHANGED,
        Condition::InUse => Code::IN_USE,
        Condition::TryAgain => Code::TRY_AGAIN,
        Condition::NoRdma => Code::NO_RDMA,
        Condition::NoAddress => Code::NO_ADDRESS,
        Condition::Internal => Code::INTERNAL,
    }
}

fn netlink_code(error: &netlink::Error) -> Code {
    match error {
        netlink::Error::Deadline { .. } => Code::TRY_AGAIN,
        netlink::Error::Refused { errno: Errno::EBUSY | Errno::EAGAIN, .. } => Code::TRY_AGAIN,
        netlink::Error::Exists { .. } => Code::IN_USE,
        _ => Code::INTERNAL,
    }
}

fn netns_code(error: &netns::Error) -> Code {
    match error {
        netns::Error::Missing { .. } | netns::Error::NotANamespace { .. } | netns::Error::Enter { .. } => {
            Code::INVALID_NETNS
        }
        netns::Error::Open { .. } => Code::IO,
    }
}

fn journal_code(error: &journal::Error) -> Code {
    match error {
        journal::Error::Exists { .. } => Code::IN_USE,
        journal::Error::File(error) => file_code(error),
        _ => Code::INTERNAL,
    }
}

fn file_code(error: &statefile::Error) -> Code {
    match error {
        statefile::Error::Busy { .. } => Code::TRY_AGAIN,
        statefile::Error::Exists { .. } => Code::IN_USE,
        statefile::Error::Strange { .. } | statefile::Error::Io { .. } => Code::IO,
    }
}

fn address_code(error: &ipam::StoreError) -> Code {
    match error {
        ipam::StoreError::Exhausted { .. }
        | ipam::StoreError::AllExhausted { .. }
        | ipam::StoreError::Taken { .. }
        | ipam::StoreError::AllFull { .. } => Code::NO_ADDRESS,
        ipam::StoreError::NotOwner { .. } => Code::IN_USE,
        ipam::StoreError::Busy { .. } => Code::TRY_AGAIN,
        _ => Code::IO,
    }
}

fn state_code(error: &state::Error) -> Code {
    match error {
        state::Error::File(error) | state::Error::PodMap(podmap::Error::File(error)) => file_code(error),
        state::Error::Journal(error) => journal_code(error),
        state::Error::NetNs(error) => netns_code(error),
        state::Error::PodMap(_) => Code::INTERNAL,
        state::Error::Address(error) => address_code(error),
        state::Error::InUse { .. } => Code::IN_USE,
        state::Error::Contended { .. } => Code::TRY_AGAIN,
        state::Error::NotOwner { .. } => Code::CHANGED,
    }
}

fn rdma_code(error: &rdma::Error) -> Code {
    match error {
        rdma::Error::Netlink(error) => netlink_code(error),
        rdma::Error::NoRdma | rdma::Error::NoDeviceOf { .. } => Code::NO_RDMA,
        rdma::Error::Elsewhere { .. } => Code::IN_USE,
        rdma::Error::NotReturned { .. } | rdma::Error::MovesHeld { .. } => Code::TRY_AGAIN,
        rdma::Error::Lock { .. } => Code::IO,
        _ => Code::INTERNAL,
    }
}
