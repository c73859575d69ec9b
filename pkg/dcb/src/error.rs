//! Errors of DCB requests.

use identifiers::LinkName;
use netlink_packet_core::DecodeError;
use nix::errno::Errno;

use crate::{InvalidApp, InvalidEts};

/// Why a DCB request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The link's driver does not implement this part of DCB.
    #[error(
        "link {link}: {what} is not supported by its driver or by this kernel; use a PF whose driver has it"
    )]
    Unsupported {
        /// The link.
        link: LinkName,
        /// What is not supported, such as `PFC`.
        what: &'static str,
    },
    /// There is no link with that name in the handle's network namespace.
    #[error("link {link}: not found in this network namespace")]
    NoSuchLink {
        /// The name of the link.
        link: LinkName,
    },
    /// PFC was requested for a priority that does not exist.
    #[error("link {link}: PFC for the priorities {priorities:?}: each must be 0 to 7")]
    InvalidPriority {
        /// The link.
        link: LinkName,
        /// The requested priorities.
        priorities: Vec<u8>,
    },
    /// The traffic classes cannot be set to these values.
    #[error("link {link}: {source}")]
    InvalidEts {
        /// The link.
        link: LinkName,
        /// What is wrong.
        source: InvalidEts,
    },
    /// The application priority cannot be set or removed.
    #[error("link {link}: {source}")]
    InvalidApp {
        /// The link.
        link: LinkName,
        /// What is wrong.
        source: InvalidApp,
    },
    /// The kernel or the driver refused a change.
    #[error("link {link}: its driver refused to change {what}: {}{}", errno.desc(), advice(*errno))]
    Refused {
        /// The link.
        link: LinkName,
        /// What was to be changed, such as `PFC`.
        what: &'static str,
        /// The error.
        errno: Errno,
    },
    /// The driver replied to a change with a number that is not an error number of the kernel.
    #[error(
        "link {link}: its driver replied {code} to a change of {what}: expected 0; read the settings to see its effect"
    )]
    DriverCode {
        /// The link.
        link: LinkName,
        /// What was to be changed, such as `PFC`.
        what: &'static str,
        /// The driver's number: 1 to 127.
        code: u8,
    },
    /// The change was accepted without an error, but the settings are others.
    #[error(
        "link {link}: the change of {what} had no effect: it is {found}, requested was {requested}; check whether its \
         driver can set it, and whether the card's firmware or an LLDP agent sets it"
    )]
    NotApplied {
        /// The link.
        link: LinkName,
        /// What was to be changed, such as `PFC`.
        what: &'static str,
        /// What was requested.
        requested: String,
        /// What was read after the change.
        found: String,
    },
    /// A reply could not be decoded.
    #[error("link {link}: the kernel's reply about its DCB settings is malformed: {source}")]
    Malformed {
        /// The link.
        link: LinkName,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// A netlink request failed.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
}

impl Error {
    /// Whether the driver or the kernel lacks what was requested.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported { .. })
    }

    /// Maps the errors of the kernel that have a variant.
    pub(crate) fn of_request(link: &LinkName, what: &'static str, error: netlink::Error) -> Self {
        match error.errno() {
            Some(Errno::EOPNOTSUPP) => Self::Unsupported { link: link.clone(), what },
            Some(Errno::ENODEV) => Self::NoSuchLink { link: link.clone() },
            _ => Self::Netlink(error),
        }
    }

    pub(crate) fn malformed(link: &LinkName, source: DecodeError) -> Self {
        Self::Malformed { link: link.clone(), source }
    }
}

/// What to do about an error of a driver.
fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::EINVAL => {
            "; check the values against the card's number of traffic classes, and that the host manages DCB (DCBX mode \
             host), not the card's firmware"
        }
        // The kernel cuts the error to one byte, and ENOTSUPP (524), which bnxt returns, has the byte of ENOMEM.
        Errno::ENOMEM => ", or the card does not support the value",
        Errno::EEXIST => "; remove the entry first",
        _ => "",
    }
}
