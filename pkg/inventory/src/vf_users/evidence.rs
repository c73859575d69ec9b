//! Evidence that a function is in use, and what it refers to.

use std::{fmt, path::PathBuf};

use identifiers::{Attachment, LinkName, PciAddress};
use serde::Serialize;

/// Evidence that a PF or VF is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum VfUser {
    /// A pod that Silkrail attached.
    Attachment {
        /// The attachment.
        attachment: Attachment,
    },
    /// A pod that the Go plugins attached.
    GoPlugin {
        /// The path of the pod's network namespace.
        netns: PathBuf,
    },
    /// kubelet has allocated it to a pod.
    Kubelet {
        /// `namespace/name`, or the UID.
        pod: String,
        /// The name of the extended resource.
        resource: String,
    },
    /// Its link is in another network namespace.
    LinkElsewhere {
        /// The driver of the function, which creates a link.
        driver: String,
    },
    /// Its RDMA device is in another network namespace.
    RdmaElsewhere {
        /// The name of its character device, such as `uverbs7`.
        uverbs: String,
    },
    /// A process has its RDMA device open.
    Process {
        /// The RDMA device.
        device: String,
        /// The process, such as `qemu (pid 42)`.
        process: String,
    },
    /// A process uses it in user space, through VFIO or UIO.
    UserSpace {
        /// The process, such as `qemu (pid 42)`.
        process: String,
    },
    /// Its link is the lower link of another one: a macvlan, a bond, a bridge.
    Upper {
        /// The name of its link.
        link: LinkName,
        /// The name of the upper link.
        upper: String,
    },
    /// The node itself has an address on its link.
    Address {
        /// The name of its link.
        link: LinkName,
        /// The address.
        address: String,
    },
    /// Its representor on the node is a member of a bridge.
    Representor {
        /// The name of the representor.
        link: LinkName,
        /// The name of the bridge.
        master: String,
    },
}

impl fmt::Display for VfUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attachment { attachment } => write!(f, "attachment {attachment} uses it"),
            Self::GoPlugin { netns } => write!(f, "the Go sriov plugin allocated it to {}", netns.display()),
            Self::Kubelet { pod, resource } => write!(f, "kubelet allocated it to pod {pod} as {resource}"),
            Self::LinkElsewhere { driver } => {
                write!(
                    f,
                    "its link is in another network namespace ({driver} is bound, but there is no link on the host)"
                )
            }
            Self::RdmaElsewhere { uverbs } => {
                write!(
                    f,
                    "its RDMA device is in another network namespace ({uverbs} exists, but there is no device on the host)"
                )
            }
            Self::Process { device, process } => write!(f, "{process} has RDMA device {device} open"),
            Self::UserSpace { process } => write!(f, "{process} uses it in user space (VFIO, UIO)"),
            Self::Upper { link, upper } => write!(f, "{upper} is on top of its link {link}"),
            Self::Address { link, address } => write!(f, "the node has {address} on its link {link}"),
            Self::Representor { link, master } => write!(f, "its representor {link} belongs to {master}"),
        }
    }
}

/// The properties of a function that evidence refers to.
pub(crate) struct FunctionView<'a> {
    pub(crate) pci: PciAddress,
    pub(crate) driver: Option<&'a str>,
    pub(crate) link: Option<&'a LinkName>,
    pub(crate) rdma: &'a [String],
}
