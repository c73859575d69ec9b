//! Who uses a VF.

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

/// Evidence that somebody uses a VF.
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
        /// The pod's namespace.
        netns: PathBuf,
    },
    /// The kubelet has given it to a pod.
    Kubelet {
        /// `namespace/name`, or the UID.
        pod: String,
        /// As which resource.
        resource: String,
    },
    /// Its link is in another network namespace.
    LinkElsewhere {
        /// The driver that must have made one.
        driver: String,
    },
    /// Its RDMA device is in another network namespace.
    RdmaElsewhere {
        /// Its device file.
        uverbs: String,
    },
    /// A process has its RDMA device open.
    Process {
        /// The RDMA device.
        device: String,
        /// The process.
        process: String,
    },
    /// A process has it in user space, by VFIO or UIO.
    UserSpace {
        /// The process.
        process: String,
    },
    /// Something sits on its link: a macvlan, a bond, a bridge.
    Upper {
        /// Its link.
        link: LinkName,
        /// What sits on it.
        upper: String,
    },
    /// The node itself has an address on its link.
    Address {
        /// Its link.
        link: LinkName,
        /// The address.
        address: String,
    },
    /// What stands for it on the node belongs to a bridge.
    Representor {
        /// The representor.
        link: LinkName,
        /// The bridge.
        master: String,
    },
}

impl fmt::Display for VfUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attachment { attachment } => write!(f, "attachment {attachment} has it"),
            Self::GoPlugin { netns } => write!(f, "the Go sriov plugin gave it to {}", netns.display()),
            Self::Kubelet { pod, resource } => write!(f, "the kubelet gave it to pod {pod} as {resource}"),
            Self::LinkElsewhere { driver } => {
                write!(
                    f,
                    "its link is in another network namespace ({driver} is bound, and there is no link here)"
                )
            }
            Self::RdmaElsewhere { uverbs } => {
                write!(
                    f,
                    "its RDMA device is in another network namespace ({uverbs} is there, and no device here)"
                )
            }
            Self::Process { device, process } => write!(f, "{process} has RDMA device {device} open"),
            Self::UserSpace { process } => write!(f, "{process} has it in user space (VFIO, UIO)"),
            Self::Upper { link, upper } => write!(f, "{upper} sits on its link {link}"),
            Self::Address { link, address } => write!(f, "the node has {address} on its link {link}"),
            Self::Representor { link, master } => write!(f, "its representor {link} belongs to {master}"),
        }
    }
}

/// What tells of users, read once for all VFs.
pub(crate) struct UsageEvidence {
    sysfs: Sysfs,
    claims: ClaimIndex,
    kubelet: KubeletCheckpoint,
    contexts: OpenContexts,
    user_space: VfioUsers,
}

/// A function, as far as evidence is about it.
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

    /// All that says that somebody uses a VF.
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

    /// All that says that somebody uses a PF itself. A bond or bridge that it belongs to is told of as such.
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

    /// What of a function is not here but must be somewhere.
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

/// Drivers that hand a function to user space or to another driver make no link.
fn makes_links(driver: &str) -> bool {
    !driver.contains("vfio") && !matches!(driver, "uio_pci_generic" | "igb_uio" | "pci-stub")
}
