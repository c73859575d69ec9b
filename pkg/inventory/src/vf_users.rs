//! The users of PFs and VFs.

mod claims;
mod kubelet;
mod rdma;
mod user_space;

use std::{fmt, path::PathBuf};

use identifiers::{Attachment, LinkName, PciAddress};
use serde::Serialize;
use sysfs::{Function, Sysfs};

pub(crate) use self::{
    claims::ClaimIndex,
    kubelet::KubeletCheckpoint,
    rdma::{OpenContexts, kernel_users},
    user_space::VfioUsers,
};
use crate::{Error, NodePaths, Vf, links::HostLinks};

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

/// The sources of evidence, read once for all functions.
pub(crate) struct UsageEvidence {
    sysfs: Sysfs,
    claims: ClaimIndex,
    kubelet: KubeletCheckpoint,
    contexts: OpenContexts,
    user_space: VfioUsers,
}

/// The properties of a function that evidence refers to.
pub(crate) struct FunctionView<'a> {
    pub(crate) pci: PciAddress,
    pub(crate) driver: Option<&'a str>,
    pub(crate) link: Option<&'a LinkName>,
    pub(crate) rdma: &'a [String],
}

impl UsageEvidence {
    pub(crate) fn read(node: &NodePaths) -> Result<Self, Error> {
        Ok(Self {
            sysfs: node.sysfs(),
            claims: ClaimIndex::read(node)?,
            kubelet: KubeletCheckpoint::read(&node.root)?,
            contexts: OpenContexts::read(node)?,
            user_space: VfioUsers::at(&node.root),
        })
    }

    /// Returns the evidence that a VF is in use.
    pub(crate) fn of(&self, vf: &Vf, links: &HostLinks) -> Result<Vec<VfUser>, Error> {
        let rdma: Vec<String> = vf.rdma.iter().cloned().collect();
        let (driver, link) = (vf.driver.as_deref(), vf.link.as_ref());
        let mut users = self.of_function(&FunctionView { pci: vf.pci, driver, link, rdma: &rdma })?;
        if let Some(link) = link {
            let addresses = links.addresses(link)?.into_iter();
            users.extend(addresses.map(|address| VfUser::Address { link: link.clone(), address }));
        }
        Ok(users)
    }

    /// Returns the evidence that a PF itself is in use. Its bond or bridge is a [`crate::ProtectionReason`] instead.
    pub(crate) fn of_pf(&self, pf: &FunctionView<'_>) -> Result<Vec<VfUser>, Error> {
        let master = pf.link.map(|link| self.sysfs.master(link)).transpose()?.flatten();
        let mut users = self.of_function(pf)?;
        users.retain(|user| !matches!(user, VfUser::Upper { upper, .. } if Some(upper) == master.as_ref()));
        Ok(users)
    }

    fn of_function(&self, seen: &FunctionView<'_>) -> Result<Vec<VfUser>, Error> {
        let mut users = self.claims.of(seen);
        users.extend(self.kubelet.of(seen.pci));
        users.extend(self.elsewhere(seen)?);
        users.extend(seen.rdma.iter().flat_map(|device| self.contexts.of(device)));
        users.extend(self.user_space.of(&self.sysfs, seen.pci, seen.driver)?);
        if let Some(link) = seen.link {
            let uppers = self.sysfs.uppers(link)?;
            users.extend(uppers.into_iter().map(|upper| VfUser::Upper { link: link.clone(), upper }));
        }
        Ok(users)
    }

    /// Returns the devices of a function that exist in another network namespace.
    fn elsewhere(&self, seen: &FunctionView<'_>) -> Result<Vec<VfUser>, Error> {
        let mut found = Vec::new();
        if let Some(driver) = seen.driver.filter(|driver| seen.link.is_none() && makes_links(driver)) {
            found.push(VfUser::LinkElsewhere { driver: driver.to_owned() });
        }
        if seen.rdma.is_empty() {
            let uverbs = self.sysfs.uverbs(&Function::Pci(seen.pci))?;
            found.extend(uverbs.into_iter().map(|uverbs| VfUser::RdmaElsewhere { uverbs }));
        }
        Ok(found)
    }
}

/// Whether a driver creates a link. Drivers for user space do not.
fn makes_links(driver: &str) -> bool {
    !driver.contains("vfio") && !matches!(driver, "uio_pci_generic" | "igb_uio" | "pci-stub")
}
