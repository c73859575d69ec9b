//! The node's RDMA mode: whether every namespace sees every RDMA device.

use std::{fmt, str::FromStr};

use netlink_packet_rdma::{NldevAttribute, NldevCommand, RawNetnsMode as Wire};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Handle,
    handle::{attributes, message},
};

const OBJECT: &str = "RDMA mode";

/// Who sees an RDMA device. A setting of the node, `shared` by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[doc(alias = "netns_mode")]
pub enum NetnsMode {
    /// Every network namespace.
    Shared,
    /// The one network namespace it is in.
    Exclusive,
}

/// The text is no mode.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no RDMA mode: expected shared or exclusive")]
pub struct InvalidMode(pub String);

/// The mode could not be set.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// Another network namespace exists.
    #[error(
        "set RDMA mode {mode}: the kernel refuses while any other network namespace exists (pods, services with \
         PrivateNetwork=yes, `ip netns`); run `silkrail mode set {mode} --persist` and reboot"
    )]
    Busy {
        /// The mode that was asked for.
        mode: NetnsMode,
    },
    /// The caller lacks the privilege.
    #[error("set RDMA mode {mode}: not permitted: CAP_NET_ADMIN of the host is needed")]
    NotPermitted {
        /// The mode that was asked for.
        mode: NetnsMode,
    },
    /// Anything else.
    #[error(transparent)]
    Other(#[from] Error),
}

impl Handle {
    /// The node's mode.
    ///
    /// # Errors
    /// [`Error::TooOld`] if this kernel knows no modes.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_SYS_GET`, no dump; `RDMA_NLDEV_SYS_ATTR_NETNS_MODE` in the answer, since 5.2.
    #[doc(alias = "rdma system show")]
    pub fn netns_mode(&self) -> Result<NetnsMode, Error> {
        let too_old = || Error::TooOld { what: "read the RDMA mode" };
        let answer = self.get("read", &OBJECT, message(NldevCommand::SysGet, Vec::new()));
        let answer = answer.map_err(|error| match error.errno() {
            Some(Errno::EINVAL | Errno::EOPNOTSUPP) => too_old(),
            _ => error.into(),
        })?;
        let mode = attributes(answer).into_iter().find_map(|attribute| match attribute {
            NldevAttribute::NetnsMode(Wire::Shared) => Some(NetnsMode::Shared),
            NldevAttribute::NetnsMode(Wire::Exclusive) => Some(NetnsMode::Exclusive),
            _ => None,
        });
        mode.ok_or_else(too_old)
    }

    /// Sets the node's mode. Setting the mode it has already always succeeds.
    ///
    /// # Errors
    /// [`ModeError::Busy`] as soon as any network namespace but the first exists, in both directions. So this
    /// belongs to boot, before the container runtime.
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
    fn a_mode_is_written_as_it_is_read_and_nothing_else_is_one() {
        for mode in [NetnsMode::Shared, NetnsMode::Exclusive] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for bad in ["Exclusive", "0", "", "none"] {
            assert_eq!(bad.parse::<NetnsMode>(), Err(InvalidMode(bad.to_owned())));
        }
    }
}
