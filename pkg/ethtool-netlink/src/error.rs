//! The errors of ethtool netlink requests.

use identifiers::LinkName;

/// Why an ethtool netlink request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no generic netlink family of the name `ethtool`.
    #[error(
        "this kernel has no ethtool netlink; Linux 5.6 or newer with CONFIG_ETHTOOL_NETLINK is needed to read the \
         physical state of links"
    )]
    Unsupported,
    /// There is no link with that name in the handle's network namespace, or its driver is being reset (`ENODEV`).
    #[error("link {link}: not found in this network namespace")]
    NoSuchLink {
        /// The name of the link, such as `eth0`.
        link: LinkName,
    },
    /// The driver can read modules, but not this one at this moment. The kernel has no error for a cage without a module:
    /// drivers answer `EIO` (mlx5), `EINVAL` (bnxt), `ENODEV` (phylink) or with too few bytes.
    #[error(
        "link {link}: page {page:#04x} of the module at I2C address {i2c_address:#04x} cannot be read: {reason}; check \
         that a module is plugged in"
    )]
    ModuleUnreadable {
        /// The name of the link.
        link: LinkName,
        /// The module's I2C address, 0x50 or 0x51.
        i2c_address: u8,
        /// The page of the module's memory.
        page: u8,
        /// The kernel's error, or how many bytes it sent.
        reason: String,
    },
    /// The reply is not as `linux/ethtool_netlink.h` defines it.
    #[error(
        "{object}: the kernel's reply to {request} is malformed: {source}; report it with the kernel's version"
    )]
    Malformed {
        /// What was read, such as `link eth0`.
        object: String,
        /// The request, such as `ETHTOOL_MSG_FEC_GET`.
        request: &'static str,
        /// What is wrong.
        source: Malformed,
    },
    /// The kernel or the driver refused the request, or did not reply.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
}

impl Error {
    /// Whether the kernel refuses the request to this process: the EEPROM of a module needs `CAP_NET_ADMIN`.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::Netlink(error) if error.errno() == Some(nix::errno::Errno::EPERM))
    }
}

/// What is wrong with a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// An attribute is longer than the message or the attribute around it, or shorter than its own header.
    #[error("an attribute does not end where the attributes around it end")]
    Truncated,
    /// An attribute has another length than the kernel's headers define.
    #[error("{attribute} has {length} bytes, expected {expected}")]
    Length {
        /// The attribute, such as `ETHTOOL_A_FEC_AUTO`.
        attribute: &'static str,
        /// The length of its value, in bytes.
        length: usize,
        /// The defined length, such as `4`.
        expected: &'static str,
    },
    /// A required attribute was not sent.
    #[error("{attribute} is missing")]
    Missing {
        /// The attribute.
        attribute: &'static str,
    },
    /// The reply is one to another command.
    #[error("it has the command {command}, expected {expected}")]
    Command {
        /// The command in the reply's generic netlink header.
        command: u8,
        /// The command of the reply to this request.
        expected: u8,
    },
}
