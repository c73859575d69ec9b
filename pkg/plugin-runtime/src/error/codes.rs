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
            Self::Policy(error) => policy_code(error),
            Self::Plugin(error) => condition_code(error.condition()),
            Self::NoAddresses | Self::DelegateWithoutError { .. } | Self::Ipv6 { .. } => ErrorCode::INTERNAL,
            Self::NoIpv6 { .. } => ErrorCode::UNSUPPORTED_FIELD,
            Self::DelegateVersion { .. } => ErrorCode::INCOMPATIBLE_VERSION,
            Self::NoDelegate { .. } | Self::GatewayOutside { .. } => ErrorCode::INVALID_CONFIG,
            Self::Delegate { .. } => ErrorCode::IO,
            Self::NameInUse { .. } | Self::MacInUse { .. } | Self::DuplicateAddress { .. } => {
                ErrorCode::IN_USE
            }
            // The next ADD gets another address: pools are used in turn.
            Self::AddressInUse { .. } => ErrorCode::TRY_AGAIN,
            Self::UnknownPod(_) | Self::DelegateTimedOut { .. } | Self::Tentative { .. } | Self::Left(_) => {
                ErrorCode::TRY_AGAIN
            }
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
        error if error.is_firmware_timeout() => ErrorCode::TRY_AGAIN,
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
        statefile::Error::NotRegular { .. }
        | statefile::Error::NotDirectory { .. }
        | statefile::Error::Foreign { .. }
        | statefile::Error::Io { .. } => ErrorCode::IO,
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
        state::Error::OfContainer { .. } => ErrorCode::IO,
        state::Error::Contended { .. } => ErrorCode::TRY_AGAIN,
        state::Error::NotOwner { .. } => ErrorCode::CHANGED,
    }
}

fn policy_code(error: &node_policy::PolicyError) -> ErrorCode {
    match error {
        node_policy::PolicyError::File(error) => file_code(error),
        node_policy::PolicyError::Invalid { .. } => ErrorCode::INVALID_CONFIG,
        node_policy::PolicyError::Refused { .. } => ErrorCode::NOT_ALLOWED,
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

#[cfg(test)]
mod tests {
    use std::{io, net::Ipv4Addr, path::PathBuf, time::Duration};

    use super::*;

    fn refused(errno: Errno) -> netlink::Error {
        let (operation, object) = ("set", String::new());
        match errno {
            Errno::EEXIST => netlink::Error::Exists { operation, object, extack: Default::default() },
            _ => netlink::Error::Refused { operation, object, errno, extack: Default::default() },
        }
    }

    #[test]
    fn each_condition_has_its_code() {
        for (condition, code) in [
            (Condition::UnsupportedField, 2),
            (Condition::InvalidEnvironment, 4),
            (Condition::InvalidConfig, 7),
            (Condition::TryAgain, 11),
            (Condition::InUse, 102),
            (Condition::Changed, 103),
            (Condition::NoRdma, 100),
            (Condition::NoAddress, 101),
            (Condition::Internal, 999),
        ] {
            assert_eq!(condition_code(condition).0, code, "{condition:?}");
        }
    }

    #[test]
    fn what_may_succeed_later_is_to_be_tried_again_and_what_another_has_is_in_use() {
        let (path, waited) = (PathBuf::from("/run/a"), Duration::from_secs(1));
        let function: sysfs::Function = "0000:af:00.2".parse().unwrap();
        let busy = || statefile::Error::Busy { path: path.clone(), waited };
        let io = |kind: io::ErrorKind| statefile::Error::Io {
            operation: "read",
            path: path.clone(),
            source: kind.into(),
        };
        let text = String::new;
        let late = netlink::Error::Deadline { operation: "set", object: text(), within: waited };
        for (error, code) in [
            (Error::from(rtnl::Error::from(refused(Errno::EBUSY))), ErrorCode::TRY_AGAIN),
            (Error::from(rtnl::Error::from(refused(Errno::EAGAIN))), ErrorCode::TRY_AGAIN),
            (Error::from(rtnl::Error::from(refused(Errno::ETIMEDOUT))), ErrorCode::TRY_AGAIN),
            (Error::from(rtnl::Error::from(refused(Errno::EPERM))), ErrorCode::INTERNAL),
            (Error::from(rtnl::Error::from(refused(Errno::EEXIST))), ErrorCode::IN_USE),
            (Error::from(rtnl::Error::from(late)), ErrorCode::TRY_AGAIN),
            (Error::from(rdma::Error::from(refused(Errno::EBUSY))), ErrorCode::TRY_AGAIN),
            (Error::from(rdma::Error::NoRdma), ErrorCode::NO_RDMA),
            (
                Error::from(rdma::Error::NoDeviceOf { function: function.clone(), driver: None }),
                ErrorCode::NO_RDMA,
            ),
            (
                Error::from(rdma::Error::Elsewhere { function: function.clone(), uverbs: text() }),
                ErrorCode::IN_USE,
            ),
            (Error::from(rdma::Error::NotReturned { function, within: waited }), ErrorCode::TRY_AGAIN),
            (
                Error::from(rdma::Error::MovesHeld { path: path.clone(), waited, holder: None }),
                ErrorCode::TRY_AGAIN,
            ),
            (Error::from(busy()), ErrorCode::TRY_AGAIN),
            (Error::from(io(io::ErrorKind::PermissionDenied)), ErrorCode::IO),
            (Error::from(statefile::Error::Exists { path: path.clone() }), ErrorCode::IN_USE),
            (Error::from(journal::Error::File(busy())), ErrorCode::TRY_AGAIN),
            (Error::from(podmap::Error::File(busy())), ErrorCode::TRY_AGAIN),
            (Error::from(state::Error::Journal(journal::Error::File(busy()))), ErrorCode::TRY_AGAIN),
            (Error::from(state::Error::PodMap(podmap::Error::File(busy()))), ErrorCode::TRY_AGAIN),
            (Error::from(state::Error::Contended { claim: text() }), ErrorCode::TRY_AGAIN),
            (Error::from(state::Error::NotOwner { claim: text(), owner: None }), ErrorCode::CHANGED),
            (Error::from(ipam::StoreError::Busy { path: path.clone(), waited }), ErrorCode::TRY_AGAIN),
            (
                Error::from(node_policy::PolicyError::Refused { what: text(), place: text() }),
                ErrorCode::NOT_ALLOWED,
            ),
            (
                Error::from(node_policy::PolicyError::Invalid { what: text(), place: text() }),
                ErrorCode::INVALID_CONFIG,
            ),
            (Error::from(node_policy::PolicyError::File(io(io::ErrorKind::PermissionDenied))), ErrorCode::IO),
            (Error::from(netns::Error::Missing { path: path.clone() }), ErrorCode::INVALID_NETNS),
            (
                Error::from(netns::Error::Open { path: path.clone(), source: io::ErrorKind::Other.into() }),
                ErrorCode::IO,
            ),
            (Error::OwnNetNs { path }, ErrorCode::INVALID_NETNS),
            (
                Error::AddressInUse {
                    address: Ipv4Addr::LOCALHOST,
                    mac: identifiers::MacAddr::ZERO,
                    link: text(),
                },
                ErrorCode::TRY_AGAIN,
            ),
            (
                Error::DuplicateAddress { address: "fd00::5/64".parse().unwrap(), link: text() },
                ErrorCode::IN_USE,
            ),
            (
                Error::Tentative { address: "fd00::5/64".parse().unwrap(), link: text(), waited: text() },
                ErrorCode::TRY_AGAIN,
            ),
            (Error::Left(text()), ErrorCode::TRY_AGAIN),
            (Error::Changed(text()), ErrorCode::CHANGED),
            (Error::NoDelegate { name: text(), searched: Vec::new() }, ErrorCode::INVALID_CONFIG),
        ] {
            assert_eq!(error.code(), code, "{error:?}");
        }
    }
}
