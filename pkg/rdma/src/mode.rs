//! The node's RDMA mode: whether namespaces share RDMA devices or each has its own.

use std::{fmt, str::FromStr};

use netlink_packet_rdma::{NldevAttribute, NldevCommand, RawNetnsMode as Wire};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Handle,
    handle::{attributes, message},
};

const OBJECT: &str = "RDMA mode";

/// The RDMA mode, a setting of the node; `shared` by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[doc(alias = "netns_mode")]
pub enum NetnsMode {
    /// Every RDMA device is visible in every network namespace.
    Shared,
    /// An RDMA device is visible only in its own network namespace.
    Exclusive,
}

/// The text is not an RDMA mode.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RDMA mode: expected shared or exclusive")]
pub struct InvalidMode(pub String);

/// The mode could not be set.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// Another network namespace exists.
    #[error("set RDMA mode {mode}: the kernel refuses while any other network namespace exists")]
    Busy {
        /// The requested mode.
        mode: NetnsMode,
    },
    /// The caller lacks `CAP_NET_ADMIN`.
    #[error("set RDMA mode {mode}: permission denied: CAP_NET_ADMIN in the host's user namespace is needed")]
    NotPermitted {
        /// The requested mode.
        mode: NetnsMode,
    },
    /// Any other error.
    #[error(transparent)]
    Other(#[from] Error),
}

impl Handle {
    /// Returns the node's RDMA mode.
    ///
    /// # Errors
    /// [`Error::TooOld`] if this kernel does not support modes.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_SYS_GET`, not a dump; `RDMA_NLDEV_SYS_ATTR_NETNS_MODE` in the reply, since 5.2.
    #[doc(alias = "rdma system show")]
    pub fn netns_mode(&self) -> Result<NetnsMode, Error> {
        let too_old = || Error::TooOld { what: "read the RDMA mode" };
        let reply = self.get("read", &OBJECT, message(NldevCommand::SysGet, Vec::new()));
        let reply = reply.map_err(|error| match error.errno() {
            Some(Errno::EINVAL | Errno::EOPNOTSUPP) => too_old(),
            _ => error.into(),
        })?;
        let mode = attributes(reply).into_iter().find_map(|attribute| match attribute {
            NldevAttribute::NetnsMode(Wire::Shared) => Some(NetnsMode::Shared),
            NldevAttribute::NetnsMode(Wire::Exclusive) => Some(NetnsMode::Exclusive),
            _ => None,
        });
        mode.ok_or_else(too_old)
    }

    /// Sets the node's RDMA mode. Setting the current mode always succeeds.
    ///
    /// # Errors
    /// [`ModeError::Busy`] if any network namespace but the initial one exists, for either mode. So the mode should be
    /// set at boot, before the container runtime starts.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_SYS_SET`.
    #[doc(alias = "rdma system set netns")]
    pub fn set_netns_mode(&self, mode: NetnsMode) -> Result<(), ModeError> {
        let wire = match mode {
            NetnsMode::Shared => Wire::Shared,
            NetnsMode::Exclusive => Wire::Exclusive,
        };
        let request = message(NldevCommand::SysSet, vec![NldevAttribute::NetnsMode(wire)]);
        self.execute("set", &OBJECT, request).map_err(|error| match error.errno() {
            Some(Errno::EBUSY) => ModeError::Busy { mode },
            Some(Errno::EPERM) => ModeError::NotPermitted { mode },
            Some(Errno::EINVAL | Errno::EOPNOTSUPP) => Error::TooOld { what: "set the RDMA mode" }.into(),
            _ => Error::from(error).into(),
        })
    }
}

impl FromStr for NetnsMode {
    type Err = InvalidMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "shared" => Ok(Self::Shared),
            "exclusive" => Ok(Self::Exclusive),
            _ => Err(InvalidMode(text.to_owned())),
        }
    }
}

impl fmt::Display for NetnsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_parses_from_its_text_and_other_texts_do_not() {
        for mode in [NetnsMode::Shared, NetnsMode::Exclusive] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for bad in ["Exclusive", "0", "", "none"] {
            assert_eq!(bad.parse::<NetnsMode>(), Err(InvalidMode(bad.to_owned())));
        }
    }
}
