//! The errors of a plugin, and the details that go with their messages.

mod codes;

use std::path::PathBuf;

use cni::ErrorCode;
use journal::RevertFailure;

use crate::PluginError;

/// The error of an operation of a plugin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error that has its code already: an invalid configuration, or the error object of a delegate.
    #[error(transparent)]
    Cni(#[from] cni::Error),
    /// An rtnetlink request for a link, address or route failed.
    #[error(transparent)]
    Link(#[from] rtnl::Error),
    /// A network namespace cannot be opened or entered.
    #[error(transparent)]
    NetNs(#[from] netns::Error),
    /// It cannot be determined whether the pod's namespace, which is not at its path, still exists.
    #[error(transparent)]
    UnknownPod(#[from] netns::NotOnNode),
    /// `CNI_NETNS` is the node's own namespace.
    #[error("plugin's netns and netns from CNI_NETNS should not be the same")]
    OwnNetNs {
        /// The value of `CNI_NETNS`.
        path: PathBuf,
    },
    /// A journal cannot be created, read or written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// An entry of the pod map cannot be read or written.
    #[error(transparent)]
    PodMap(#[from] podmap::Error),
    /// Another file of the state directory cannot be read or written.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// A device's attribute cannot be read from sysfs.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// An operation on an RDMA device failed.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// The address pools of the configuration cannot be read.
    #[error(transparent)]
    Pools(#[from] ipam::PoolReadError),
    /// No address pool matches.
    #[error(transparent)]
    NoPool(#[from] ipam::SelectError),
    /// An address could not be claimed or released.
    #[error(transparent)]
    Address(#[from] ipam::StoreError),
    /// A claim cannot be acquired or released, or the state directory cannot be read.
    #[error(transparent)]
    State(#[from] state::Error),
    /// The policy of the node cannot be used, or does not allow the call.
    #[error(transparent)]
    Policy(#[from] node_policy::PolicyError),
    /// An error that only one plugin has.
    #[error("{0}")]
    Plugin(Box<dyn PluginError>),
    /// An IPAM plugin succeeded without returning an address.
    #[error("IPAM plugin returned missing IP config")]
    NoAddresses,
    /// There is no IPAM plugin of the configuration's name.
    #[error("failed to find plugin {name:?} in path [{}]", searched.join(" "))]
    NoDelegate {
        /// The configuration's `ipam.type`.
        name: String,
        /// The directories of `CNI_PATH`.
        searched: Vec<String>,
    },
    /// An IPAM plugin could not be run.
    #[error("{operation} {}: {source}", program.display())]
    Delegate {
        /// What failed: `run`, or `talk to` for its standard streams.
        operation: &'static str,
        /// The plugin's executable.
        program: PathBuf,
        /// The system call's error.
        source: std::io::Error,
    },
    /// An IPAM plugin took too long.
    #[error("the IPAM plugin {} did not finish its {verb} within {waited} and was killed", program.display())]
    DelegateTimedOut {
        /// The plugin's executable.
        program: PathBuf,
        /// The CNI operation: `ADD`, `DEL`, …
        verb: &'static str,
        /// The time it had, such as `110 s`.
        waited: String,
    },
    /// An IPAM plugin failed without a CNI error object on standard output.
    #[error("{} failed ({status}) without an error object", program.display())]
    DelegateWithoutError {
        /// The plugin's executable.
        program: PathBuf,
        /// Its exit status or signal.
        status: std::process::ExitStatus,
        /// Its standard output.
        printed: String,
    },
    /// An IPAM plugin does not support the `cniVersion` of the network.
    #[error(
        "the IPAM plugin {} does not support cniVersion {version} of the network, only {}",
        program.display(), supported.iter().map(|version| version.as_str()).collect::<Vec<_>>().join(", ")
    )]
    DelegateVersion {
        /// The plugin's executable.
        program: PathBuf,
        /// The version of the configuration.
        version: cni::Version,
        /// The versions that it supports, the oldest first.
        supported: Vec<cni::Version>,
    },
    /// The pod already has a link of that name.
    #[error("interface {ifname} already exists in the container: it is {what} link with index {index}")]
    NameInUse {
        /// The requested name: `CNI_IFNAME`.
        ifname: identifiers::LinkName,
        /// The kind of the link that has it, with an article: `a macvlan`.
        what: String,
        /// The index of that link.
        index: u32,
    },
    /// The kernel refused the link's MAC address with `EADDRINUSE`.
    #[error("MAC address {mac} of {link} is in use by its master or another link on it")]
    MacInUse {
        /// The refused address.
        mac: identifiers::MacAddr,
        /// The name of the new link.
        link: String,
        /// The netlink error.
        source: rtnl::Error,
    },
    /// IPv6 could not be enabled for a link.
    #[error("failed to enable IPv6 on {ifname}: {source}")]
    Ipv6 {
        /// The name of the link.
        ifname: String,
        /// The error of writing `disable_ipv6`.
        source: std::io::Error,
    },
    /// The next hop of a route cannot be reached.
    #[error(
        "route to {dst}: its gateway {gateway} is in none of the subnets of the pod's addresses on the link, {addresses}"
    )]
    GatewayOutside {
        /// The destination of the route.
        dst: ipnetwork::IpNetwork,
        /// The next hop.
        gateway: std::net::IpAddr,
        /// The addresses with their prefix lengths.
        addresses: String,
        /// The netlink error.
        source: rtnl::Error,
    },
    /// The kernel has no IPv6.
    #[error(
        "the network assigns IPv6 addresses, and the kernel has no IPv6: {}",
        if *is_disabled { "it was booted with ipv6.disable=1" } else { "its module ipv6 is not loaded" }
    )]
    NoIpv6 {
        /// Whether a parameter of its module disables it.
        is_disabled: bool,
    },
    /// A probe found another host with an address of the pod.
    #[error(
        "address {address} of {link} is in use by another host of the network, {mac}; try again for another address, or, if it was \
         requested or is reserved for the pod, exclude it from its pool"
    )]
    AddressInUse {
        /// The address.
        address: std::net::Ipv4Addr,
        /// The MAC address of the host.
        mac: identifiers::MacAddr,
        /// The name of the pod's link.
        link: String,
    },
    /// Duplicate address detection found another host with an address of the pod.
    #[error("address {address} of {link} is in use by another host of the network")]
    DuplicateAddress {
        /// The duplicate address.
        address: ipnetwork::IpNetwork,
        /// The name of the pod's link.
        link: String,
    },
    /// The kernel did not finish duplicate address detection.
    #[error("{address} of {link} is still being checked for duplicates after {waited}")]
    Tentative {
        /// The tentative address.
        address: ipnetwork::IpNetwork,
        /// The name of the pod's link.
        link: String,
        /// The time waited, such as `10 s`.
        waited: String,
    },
    /// CHECK: an address or a route is missing.
    #[error("{0}")]
    Changed(String),
    /// The changes that a DEL or GC failed to revert.
    #[error("failed to revert: {0}")]
    Left(String),
    /// Waiting for an event failed.
    #[error("failed to wait for {what}: {source}")]
    Wait {
        /// The event, such as `duplicate address detection`.
        what: &'static str,
        /// The system call's error.
        source: std::io::Error,
    },
}

/// The remedy for [`netlink::Error::is_firmware_timeout`].
pub const FIRMWARE_TIMEOUT: &str = "the card's firmware did not answer its driver: see the kernel log and `devlink health`; \
                                    `silkrail recover FUNCTION --by reset` resets it";

impl Error {
    /// Returns the message, with the cause of errors that do not include it.
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
            Self::Link(rtnl::Error::Netlink(error)) | Self::Rdma(rdma::Error::Netlink(error))
                if error.is_firmware_timeout() =>
            {
                FIRMWARE_TIMEOUT.into()
            }
            Self::OwnNetNs { path } => format!(
                "{} is the node's own network namespace: the runtime passed a stale or wrong path; nothing was changed",
                path.display()
            ),
            Self::NetNs(netns::Error::Missing { .. }) => {
                "CNI_NETNS must be the path of the pod's network namespace: the sandbox has ended meanwhile, or the runtime \
                 passed a stale path"
                    .into()
            }
            Self::NetNs(netns::Error::NotANamespace { .. }) => {
                "CNI_NETNS must be the path of a network namespace, like /var/run/netns/NAME".into()
            }
            Self::NetNs(netns::Error::Enter { .. }) => {
                "entering a namespace needs CAP_SYS_ADMIN: the runtime must call the plugin as root".into()
            }
            Self::State(state::Error::InUse { evidence: Some(evidence), .. }) => format!(
                "the owner may be running: {evidence}; its DEL releases the device, or `silkrail gc` once it is gone; nothing \
                 was changed"
            ),
            Self::State(state::Error::InUse { netns, evidence: None, .. }) => {
                format!("the owner's network namespace {} still exists; nothing was changed", netns.display())
            }
            Self::State(state::Error::OfContainer { path, .. }) => format!(
                "nothing was changed. What the plugin records would be lost with the container, and addresses would be assigned twice. \
                 Set chrootDir to /hostroot in the configuration of Multus' daemon, and mount the node's root directory there; or mount \
                 {} of the node",
                path.display()
            ),
            Self::Policy(error) => error.remedy().into(),
            Self::Plugin(error) => error.details(),
            Self::NoDelegate { .. } => "ipam.type must be the name of a file in a directory of CNI_PATH".into(),
            Self::DelegateTimedOut { .. } => {
                "the plugin gave no reason: check its own log, and that the API server or agent it depends on responds".into()
            }
            Self::DelegateWithoutError { printed, .. } => format!("its output was {printed:?}"),
            Self::DelegateVersion { program, supported, .. } => format!(
                "set cniVersion of the network to {}, or install a newer {}",
                supported.last().map_or("one of these", |version| version.as_str()),
                program.file_name().unwrap_or_default().display()
            ),
            Self::NameInUse { .. } => "nothing was changed".into(),
            Self::MacInUse { source, .. } => format!("kernel error: {source}"),
            Self::Ipv6 { .. } => {
                "the network assigns an IPv6 address to the pod: set net.ipv6.conf.all.disable_ipv6 of the pod to 0, or let the \
                 plugin write to /proc/sys"
                    .into()
            }
            Self::GatewayOutside { gateway, source, .. } => format!(
                "set the prefix length of the address to that of its subnet, or use a gateway in it; or put a route to {gateway} \
                 before this one, and set no gateway at the address; kernel error: {source}"
            ),
            Self::NoIpv6 { is_disabled: true } => {
                "remove ipv6.disable=1 from the kernel command line and reboot (to disable IPv6 of the node's own links only, \
                 use ipv6.disable_ipv6=1), or remove the IPv6 pools from the network"
                    .into()
            }
            Self::NoIpv6 { is_disabled: false } => {
                "run `modprobe ipv6`, or remove the IPv6 pools from the network".into()
            }
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

/// Returns the error with the code that STATUS reports when an ADD would fail because of it.
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

/// Returns the error of a failed ADD, with the changes that could not be reverted in its details.
pub(crate) fn failed(failed: journal::AbortError<Error>) -> cni::Error {
    let error = cni::Error::from(failed.cause);
    if failed.left.is_empty() {
        return error;
    }
    let is_cause = |left: &RevertFailure| left.why == error.to_string();
    let same = |left: RevertFailure| match is_cause(&left) {
        true => RevertFailure { why: "for the same reason".into(), ..left },
        false => left,
    };
    let left: Vec<_> = failed.left.into_iter().map(same).collect();
    let left = format!("not reverted, DEL tries again: {}", list(&left));
    let details = if error.details.is_empty() { left } else { format!("{}; {left}", error.details) };
    error.with_details(details)
}

/// Returns the error of a DEL or GC that could not revert every change.
pub(crate) fn left_behind(left: &[RevertFailure]) -> Error {
    Error::Left(list(left))
}

fn list(left: &[RevertFailure]) -> String {
    left.iter().map(RevertFailure::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_reverted_is_added_to_the_details_of_the_failure() {
        let left = |change: &str| RevertFailure { change: change.into(), why: "busy".into() };
        let abort = |details: &str, left: Vec<RevertFailure>| {
            let cause = cni::Error::new(ErrorCode::NO_ADDRESS, "none").with_details(details).into();
            failed(journal::AbortError { cause, left })
        };
        let whole = abort("extend the pool", Vec::new());
        assert_eq!((whole.code, whole.details.as_str()), (ErrorCode::NO_ADDRESS, "extend the pool"));
        let both = abort("extend the pool", vec![left("link"), left("vf")]);
        let (link, vf) = (left("link"), left("vf"));
        assert_eq!(both.details, format!("extend the pool; not reverted, DEL tries again: {link}; {vf}"));
        assert_eq!(abort("", vec![left("link")]).details, format!("not reverted, DEL tries again: {link}"));
        assert_eq!(both.code, ErrorCode::NO_ADDRESS);
        let why = "none; extend the pool".into();
        let same = abort("extend the pool", vec![RevertFailure { change: "vf".into(), why }]);
        assert!(same.details.ends_with("DEL tries again: vf: for the same reason"), "{same:?}");
    }
}
