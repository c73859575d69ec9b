//! A failure, and the code it gets: the one place that decides.

use std::path::PathBuf;

use cni::Code;
use journal::Left;
use nix::errno::Errno;

/// Something a plugin did failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has its code already: a wrong configuration, or a delegate's answer.
    #[error(transparent)]
    Cni(#[from] cni::Error),
    /// A link, address or route.
    #[error(transparent)]
    Link(#[from] rtnl::Error),
    /// A namespace.
    #[error(transparent)]
    NetNs(#[from] netns::Error),
    /// `CNI_NETNS` is the node's own namespace.
    #[error("plugin's netns and netns from CNI_NETNS should not be the same")]
    OwnNetNs {
        /// The path.
        path: PathBuf,
    },
    /// A journal.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The pod map.
    #[error(transparent)]
    PodMap(#[from] podmap::Error),
    /// A file of state.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// The node's devices.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// An RDMA device.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// The pools of a configuration.
    #[error(transparent)]
    Pools(#[from] ipam::ReadError),
    /// No pool can be used.
    #[error(transparent)]
    NoPool(#[from] ipam::SelectError),
    /// An address could not be claimed or released.
    #[error(transparent)]
    Address(#[from] ipam::StoreError),
    /// Waiting for an event failed.
    #[error("wait for {what}: {source}")]
    Wait {
        /// For what.
        what: &'static str,
        /// The system call's error.
        source: std::io::Error,
    },
}

impl Error {
    /// The code a runtime acts on.
    fn code(&self) -> Code {
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
            Self::Wait { .. } => Code::IO,
        }
    }

    /// What happened, with the cause where the text alone does not have it.
    fn text(&self) -> String {
        let text = self.to_string();
        match (self, std::error::Error::source(self)) {
            (Self::Address(_), Some(cause)) => format!("{text}: {cause}"),
            _ => text,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Cni(error) => error.details.clone(),
            Self::OwnNetNs { path } => format!(
                "{} is the node's own network namespace: the runtime gave a stale or wrong path; nothing was changed",
                path.display()
            ),
            Self::NetNs(netns::Error::Missing { .. }) => {
                "CNI_NETNS must be the path of the pod's network namespace: the sandbox has ended meanwhile, or the runtime \
                 gave a stale path"
                    .into()
            }
            Self::NetNs(netns::Error::NotANamespace { .. }) => {
                "CNI_NETNS must be the path of a network namespace, like /var/run/netns/NAME".into()
            }
            Self::NetNs(netns::Error::Enter { .. }) => {
                "entering a namespace needs CAP_SYS_ADMIN: the runtime must call the plugin as root".into()
            }
            Self::Journal(journal::Error::Exists { .. }) => {
                "an ADD needs a DEL before it is repeated; nothing was changed".into()
            }
            _ => String::new(),
        }
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

impl From<Error> for cni::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Cni(error) => error,
            error => Self::new(error.code(), error.text()).with_details(error.details()),
        }
    }
}

/// The error of an ADD that failed and left something.
pub(crate) fn failed(failed: journal::Failed<Error>) -> cni::Error {
    let error = cni::Error::from(failed.cause);
    if failed.left.is_empty() {
        return error;
    }
    let left = format!("left behind, DEL tries again: {}", list(&failed.left));
    let details = if error.details.is_empty() { left } else { format!("{}; {left}", error.details) };
    error.with_details(details)
}

/// The error of a DEL or GC that could not take everything back.
pub(crate) fn left_behind(left: &[Left]) -> cni::Error {
    cni::Error::new(Code::TRY_AGAIN, format!("could not take back: {}", list(left)))
}

fn list(left: &[Left]) -> String {
    left.iter().map(Left::to_string).collect::<Vec<_>>().join("; ")
}
