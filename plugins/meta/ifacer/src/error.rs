//! The errors of ifacer, besides those that all plugins have.

use identifiers::{AnyLinkName, Attachment, LinkName};
use plugin_runtime::{Condition, PluginError};
use rtnl::InfoKind;

/// A master cannot be created, or CHECK found a difference.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MasterError {
    /// The node has no link of that name.
    #[error("interfaces: this node has no link {}", .0.as_str())]
    NoInterface(AnyLinkName),
    /// VLANs and bonds need Ethernet.
    #[error("interfaces: {0} is not an Ethernet link")]
    NotEthernet(LinkName),
    /// A link has the name of the master and is another one.
    #[error("link {name} exists and is {is}, expected {expected}")]
    OtherLink { name: LinkName, is: String, expected: String },
    /// A link with another name has the VLAN ID on the same parent.
    #[error("vlanID: VLAN {id} of {parent} is the link {other}, expected the name {name}")]
    OtherName { id: u16, parent: LinkName, other: String, name: LinkName },
    /// An interface cannot be a slave.
    #[error("interfaces: {interface} cannot become a slave of {bond}: {user}")]
    Busy { interface: LinkName, bond: LinkName, user: String },
    /// The kernel does not support links of this kind.
    #[error("this kernel does not support {kind} links: its module {module} is missing or cannot be loaded")]
    NoModule { kind: InfoKind, module: &'static str },
    /// Other links have every index that was tried.
    #[error("no free link index: other links have every index that was tried")]
    NoIndex,
    /// The namespaces in use could not be listed, one of which may have a link on this one.
    #[error("cannot determine what uses link {link}: {source}")]
    Unexamined { link: String, source: netns::NotOnNode },
    /// CHECK: the attachment has no journal.
    #[error("attachment {0} has no master")]
    NoAttachment(Attachment),
    /// CHECK: the ADD was killed.
    #[error("the ADD of attachment {0} was not completed")]
    Incomplete(Attachment),
    /// CHECK: the link is gone, is another one, or is down.
    #[error("{0}")]
    Changed(String),
}

impl PluginError for MasterError {
    fn condition(&self) -> Condition {
        match self {
            Self::NoInterface(_) | Self::NotEthernet(_) => Condition::InvalidConfig,
            Self::OtherLink { .. } | Self::OtherName { .. } | Self::Busy { .. } => Condition::InUse,
            Self::NoModule { .. } => Condition::Internal,
            Self::NoIndex | Self::Unexamined { .. } => Condition::TryAgain,
            Self::NoAttachment(_) | Self::Incomplete(_) | Self::Changed(_) => Condition::Changed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoInterface(_) => {
                "interfaces must be names or altnames of links of the node (`ip link`)".into()
            }
            Self::NotEthernet(_) => {
                "VLANs and bonds need Ethernet; on InfiniBand use ipoib with a partition (pkey)".into()
            }
            Self::OtherLink { .. } => {
                "delete or rename that link, or change vlanID, or name and interfaces of the bond; nothing was changed".into()
            }
            Self::OtherName { .. } => {
                "rename that link, or set vlanName and master of the next plugin to its name; nothing was changed".into()
            }
            Self::Busy { .. } => {
                "the kernel would interrupt that: remove it, or choose another interface; nothing was changed".into()
            }
            Self::NoModule { module, .. } => format!(
                "run `modprobe {module}`; if there is no such module, install the kernel's extra modules \
                 (linux-modules-extra, kernel-modules-extra)"
            ),
            Self::Unexamined { .. } => "the link is kept; call again".into(),
            Self::NoIndex | Self::NoAttachment(_) | Self::Incomplete(_) | Self::Changed(_) => String::new(),
        }
    }
}
