//! What can go wrong in the store.

use std::{io, net::IpAddr, path::PathBuf, time::Duration};

use crate::{ClaimOwner, IpFamily, NameList, PoolName};

/// An address cannot be claimed, released or looked up.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Every address of the pool is claimed.
    #[error("all IP addresses used out: IPPool {pool} has {}; extend its ips", all_claimed(*addresses))]
    Exhausted {
        /// The pool.
        pool: PoolName,
        /// How many addresses it can give out.
        addresses: u128,
    },
    /// Every address of all pools is claimed.
    #[error(
        "failed to allocate any {family} IP address to NIC {ifname} from IPPools {pools}: all IP addresses used out; \
         extend their ips"
    )]
    AllExhausted {
        /// The pools' family.
        family: IpFamily,
        /// The interface that asked.
        ifname: String,
        /// The pools, in the order tried.
        pools: NameList,
    },
    /// An ADD would find every address of all pools claimed.
    #[error(
        "all IP addresses used out: every address of the {family} IPPools {pools} is claimed; extend their ips"
    )]
    AllFull {
        /// The pools' family.
        family: IpFamily,
        /// The pools.
        pools: NameList,
    },
    /// A certain address was asked for, and another attachment has it.
    #[error("requested IP address {address} cannot be given: it is taken by {owner}")]
    Taken {
        /// The address.
        address: IpAddr,
        /// Who has it.
        owner: ClaimOwner,
    },
    /// Another process holds a lock. It is normally held for microseconds, so that process is stopped.
    #[error("{} is locked by another process; gave up after {waited:?}; try again later", path.display())]
    Busy {
        /// The locked file.
        path: PathBuf,
        /// How long this process waited.
        waited: Duration,
    },
    /// The address belongs to somebody else, or to nobody.
    #[error("{address} is not claimed by {expected}; {}", claimed_by(owner.as_ref()))]
    NotOwner {
        /// The address.
        address: IpAddr,
        /// Who should have it.
        expected: String,
        /// Who has it.
        owner: Option<ClaimOwner>,
    },
    /// The text is no boot ID.
    #[error(
        "boot ID {0:?}: expected 36 characters of 0-9, a-f and '-', as in /proc/sys/kernel/random/boot_id"
    )]
    BootId(String),
    /// A file or directory of the store.
    #[error("{what} {}{}", path.display(), advice(source))]
    Io {
        /// What was tried, as a verb.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl StoreError {
    /// For `map_err`: what was tried with which file.
    pub(crate) fn io<S: Into<io::Error>>(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(S) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source: source.into() }
    }
}

fn claimed_by(owner: Option<&ClaimOwner>) -> String {
    owner.map_or_else(|| "nobody has it".to_owned(), |owner| format!("{owner} has it"))
}

/// What to do about an error that an operator can mend.
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
