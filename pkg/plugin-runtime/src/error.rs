//! A failure of a plugin, and what its text does not say.

mod codes;

use std::path::PathBuf;

use cni::ErrorCode;
use journal::RevertFailure;

use crate::PluginError;

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
    Pools(#[from] ipam::PoolReadError),
    /// No pool can be used.
    #[error(transparent)]
    NoPool(#[from] ipam::SelectError),
    /// An address could not be claimed or released.
    #[error(transparent)]
    Address(#[from] ipam::StoreError),
    /// The state directory.
    #[error(transparent)]
    State(#[from] state::Error),
    /// A plugin's own.
    #[error("{0}")]
    Plugin(Box<dyn PluginError>),
    /// An IPAM plugin succeeded and gave no address.
    #[error("IPAM plugin returned missing IP config")]
    NoAddresses,
    /// There is no IPAM plugin of the configuration's name.
    #[error("failed to find plugin {name:?} in path [{}]", searched.join(" "))]
    NoDelegate {
        /// The configuration's `ipam.type`.
        name: String,
        /// `CNI_PATH`.
        searched: Vec<String>,
    },
    /// An IPAM plugin could not be run.
    #[error("{operation} {}: {source}", program.display())]
    Delegate {
        /// What was tried: `run`, `talk to`.
        operation: &'static str,
        /// Its file.
        program: PathBuf,
        /// The system call's error.
        source: std::io::Error,
    },
    /// An IPAM plugin took too long.
    #[error("the IPAM plugin {} did not end its {verb} within {waited} and was killed", program.display())]
    DelegateTimedOut {
        /// Its file.
        program: PathBuf,
        /// What it was asked for.
        verb: &'static str,
        /// How long it had.
        waited: String,
    },
    /// An IPAM plugin failed and did not say why.
    #[error("{} failed ({status}) without an error object", program.display())]
    DelegateWithoutError {
        /// Its file.
        program: PathBuf,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it printed instead.
        printed: String,
    },
    /// The pod has a link of the name.
    #[error("interface {ifname} already exists in the container: it is {what} link with index {index}")]
    NameInUse {
        /// The name.
        ifname: identifiers::LinkName,
        /// What has it, with an article: `a macvlan`.
        what: String,
        /// The link's index.
        index: u32,
    },
    /// The kernel refused the link's MAC address.
    #[error("MAC address {mac} of {link} is in use by its master or another link on it")]
    MacInUse {
        /// The address.
        mac: identifiers::MacAddr,
        /// The link.
        link: String,
        /// The kernel's answer.
        source: rtnl::Error,
    },
    /// IPv6 could not be enabled for a link.
    #[error("enable IPv6 on {ifname}: {source}")]
    Ipv6 {
        /// The link.
        ifname: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// Another host has an address of the pod.
    #[error("address {address} of {link} is in use by another host of the network")]
    DuplicateAddress {
        /// The address.
        address: ipnetwork::IpNetwork,
        /// The link.
        link: String,
    },
    /// The kernel did not finish duplicate address detection.
    #[error("{address} of {link} is still being checked for duplicates after {waited}")]
    Tentative {
        /// The address.
        address: ipnetwork::IpNetwork,
        /// The link.
        link: String,
        /// How long it was waited.
        waited: String,
    },
    /// CHECK: an address or a route is not there.
    #[error("{0}")]
    Changed(String),
    /// What a DEL or GC could not take back.
    #[error("could not take back: {0}")]
    Left(String),
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
    /// What happened, with the cause where the text alone does not have it.
    fn text(&self) -> String {
        let text = self.to_string();
        match (self, std::error::Error::source(self)) {
            (Self::Address(_) | Self::State(state::Error::Address(_)), Some(cause)) => {
                format!("{text}: {cause}")
            }
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
            Self::State(state::Error::InUse { netns, .. }) => {
                format!("its namespace {} lives; nothing was touched", netns.display())
            }
            Self::Plugin(error) => error.details(),
            Self::NoDelegate { .. } => "ipam.type must be the name of a file in a directory of CNI_PATH".into(),
            Self::DelegateTimedOut { .. } => {
                "it says nothing of why: see its own log, and whether what it asks (an API server, an agent) answers".into()
            }
            Self::DelegateWithoutError { printed, .. } => format!("it printed {printed:?}"),
            Self::NameInUse { .. } => "nothing was changed".into(),
            Self::MacInUse { source, .. } => format!("the kernel's answer: {source}"),
            Self::Ipv6 { .. } => "the pod is to have an IPv6 address".into(),
            Self::Tentative { .. } => {
                "by RFC 4862 it takes one to two seconds: is dad_transmits or retrans_timer of the pod set higher?".into()
            }
            Self::Journal(journal::Error::Exists { .. }) => {
                "an ADD needs a DEL before it is repeated; nothing was changed".into()
            }
            _ => String::new(),
        }
    }
}

impl<E: PluginError> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Plugin(Box::new(error))
    }
}

/// The same error as a STATUS has it: an ADD would fail because of it.
pub fn not_available(error: impl Into<cni::Error>) -> cni::Error {
    cni::Error { code: ErrorCode::NOT_AVAILABLE, ..error.into() }
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
pub(crate) fn failed(failed: journal::AbortError<Error>) -> cni::Error {
    let error = cni::Error::from(failed.cause);
    if failed.left.is_empty() {
        return error;
    }
    let left = format!("left behind, DEL tries again: {}", list(&failed.left));
    let details = if error.details.is_empty() { left } else { format!("{}; {left}", error.details) };
    error.with_details(details)
}

/// The error of a DEL or GC that could not take everything back.
pub(crate) fn left_behind(left: &[RevertFailure]) -> Error {
    Error::Left(list(left))
}

fn list(left: &[RevertFailure]) -> String {
    left.iter().map(RevertFailure::to_string).collect::<Vec<_>>().join("; ")
}
