//! The errors of the store.

use std::{io, net::IpAddr, path::PathBuf, time::Duration};

use crate::{ClaimOwner, IpFamily, NameList, PoolName};

/// An address cannot be claimed or released, or a claim cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Every address of the pool is claimed.
    #[error("all IP addresses used out: IPPool {pool} has {}; extend its ips", all_claimed(*addresses))]
    Exhausted {
        /// The name of the pool.
        pool: PoolName,
        /// The number of its allocatable addresses.
        addresses: u128,
    },
    /// Every address of several pools is claimed.
    #[error(
        "failed to allocate any {family} IP address to NIC {ifname} from IPPools {pools}: all IP addresses used out; \
         extend their ips"
    )]
    AllExhausted {
        /// The address family of the pools.
        family: IpFamily,
        /// The interface in the pod.
        ifname: String,
        /// The names of the pools, in the order in which they were tried.
        pools: NameList,
    },
    /// STATUS: every address of several pools is claimed.
    #[error(
        "all IP addresses used out: every address of the {family} IPPools {pools} is claimed; extend their ips"
    )]
    AllFull {
        /// The address family of the pools.
        family: IpFamily,
        /// The names of the pools.
        pools: NameList,
    },
    /// A requested address is claimed by another attachment.
    #[error("requested IP address {address} cannot be allocated: already in use by {owner}")]
    Taken {
        /// The IP address.
        address: IpAddr,
        /// The owner of the claim.
        owner: ClaimOwner,
    },
    /// A requested address of a cluster's pool is in no block of the node.
    #[error(
        "requested IP address {address} cannot be allocated: this node does not have the block of IPPool {pool} that contains it"
    )]
    NoBlock {
        /// The IP address.
        address: IpAddr,
        /// The name of the pool.
        pool: PoolName,
    },
    /// Another process holds a lock. Locks are normally held for microseconds, so that process may be stopped.
    #[error("{}: locked by another process; timed out after {waited:?}; try again later", path.display())]
    Busy {
        /// The locked file.
        path: PathBuf,
        /// The duration of the wait.
        waited: Duration,
    },
    /// The address has another owner or none.
    #[error("{address} is not claimed by {expected}; current owner: {}", owner_name(owner.as_ref()))]
    NotOwner {
        /// The IP address.
        address: IpAddr,
        /// The expected owner.
        expected: String,
        /// The current owner, if any.
        owner: Option<ClaimOwner>,
    },
    /// The value is not a valid boot ID.
    #[error(
        "boot ID {0:?}: expected 36 characters of 0-9, a-f and '-', as in /proc/sys/kernel/random/boot_id"
    )]
    BootId(String),
    /// A file or directory of the store cannot be accessed.
    #[error("cannot {what} {}{}", path.display(), advice(source))]
    Io {
        /// The operation, for example `create claim`.
        what: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}

impl StoreError {
    /// Returns a function for `map_err` that adds the operation and the path.
    pub(crate) fn io<S: Into<io::Error>>(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(S) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source: source.into() }
    }
}

fn owner_name(owner: Option<&ClaimOwner>) -> String {
    owner.map_or_else(|| "none".to_owned(), ClaimOwner::to_string)
}

/// Returns the remedy of an error that an operator can correct, or an empty string.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => " (free space on its file system)",
        io::ErrorKind::ReadOnlyFilesystem => " (mount it read-write or set stateDir to a writable directory)",
        io::ErrorKind::PermissionDenied => " (run as root and check the directory's owner)",
        io::ErrorKind::NotADirectory => " (a file or symbolic link is in the way; remove it)",
        _ => "",
    }
}

fn all_claimed(addresses: u128) -> String {
    match addresses {
        1 => "1 address and it is claimed".into(),
        _ => format!("{addresses} addresses and all are claimed"),
    }
}
