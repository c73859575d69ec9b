//! Reasons why a PF is not changed.

use std::fmt;

use inventory::{ProtectionReason, Vf, VfUser};
use serde::{Serialize, Serializer};

use crate::step::vfs;

/// Why a PF is not changed although it differs from the node file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PfRefusal {
    /// The node file requests more VFs than the PF supports (`sriov_totalvfs`).
    TooMany {
        /// The requested number.
        wanted: u32,
        /// The number that the PF supports.
        most: u32,
    },
    /// The PF does not support SR-IOV.
    NoSriov {
        /// Its driver, such as `mlx4_core`.
        driver: Option<String>,
    },
    /// The number of VFs differs, and the kernel can change it only by removing all of them.
    NeedsRecreate {
        /// The current number.
        have: u32,
        /// The requested number.
        wanted: u32,
    },
    /// VFs are in use: the name of each, with a user.
    InUse(Vec<(String, VfUser)>),
    /// The node's own traffic may run over it.
    Protected(Vec<ProtectionReason>),
    /// The existing VFs were not created by silkrail.
    NotOurs {
        /// The current number.
        have: u32,
    },
    /// It has `externallyManaged: true`, and does not meet the requirements.
    External(String),
    /// The driver does not have these DCB settings.
    DcbUnsupported(Vec<&'static str>),
    /// Its DCB settings cannot be read.
    DcbUnread(String),
    /// The card's firmware manages its DCB settings.
    DcbByFirmware {
        /// How to let the host manage them.
        remedy: String,
    },
    /// Its DCB settings differ, and it is in use: the PF or a VF, with a user.
    DcbInUse(Vec<(String, VfUser)>),
}

impl PfRefusal {
    /// Returns [`PfRefusal::InUse`], or `None` if no VF is in use.
    pub(crate) fn in_use<'a>(vfs: impl Iterator<Item = &'a Vf>) -> Option<Self> {
        let name = |vf: &Vf| format!("VF {} ({})", vf.index, vf.pci);
        let users: Vec<_> =
            vfs.flat_map(|vf| vf.users.iter().map(move |user| (name(vf), user.clone()))).collect();
        (!users.is_empty()).then_some(Self::InUse(users))
    }

    /// Whether this node does not support the request, in contrast to a request that is refused at the moment.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::NoSriov { .. } | Self::DcbUnsupported(_))
    }

    /// Whether the request exceeds the capability of the card.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::TooMany { .. })
    }
}

impl fmt::Display for PfRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { wanted, most } => write!(
                f,
                "requested {}, but its firmware supports {most}: request fewer, or raise the number in the \
                 firmware (Mellanox: mstconfig set SRIOV_EN=1 NUM_OF_VFS={wanted}, then reboot)",
                vfs(*wanted)
            ),
            Self::NoSriov { driver: Some(driver) } if driver.starts_with("mlx4") => {
                write!(
                    f,
                    "its driver creates VFs only by a module parameter: options mlx4_core num_vfs=… in /etc/modprobe.d"
                )
            }
            Self::NoSriov { driver: Some(driver) } if driver.starts_with("virtio") => write!(
                f,
                "it is a virtual network card ({driver}) without VFs: pass a PF or VFs of the host's card through to \
                 the virtual machine, or use macvlan on it"
            ),
            Self::NoSriov { driver } => write!(
                f,
                "it does not support VFs (no sriov_totalvfs; driver {}): enable SR-IOV in the machine's firmware setup \
                 and in the card's firmware",
                driver.as_deref().unwrap_or("none")
            ),
            Self::NeedsRecreate { have, wanted } => write!(
                f,
                "it has {}, expected {wanted}: the kernel can change the number only by removing all VFs; use \
                 --allow-recreate, which is refused if one is in use",
                vfs(*have)
            ),
            Self::InUse(users) => write!(f, "VFs are in use:{}", UserList(users)),
            Self::Protected(why) => {
                let why: Vec<_> = why.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "the node itself may depend on it: {}; some drivers reset a PF when its VFs, its MTU or its DCB settings change (to change \
                     it anyway, use --force-pf, or `force: true` in the node file)",
                    why.join("; ")
                )
            }
            Self::NotOurs { have } => write!(
                f,
                "it has {} that silkrail did not create: use --allow-recreate to remove them, which is refused if one \
                 is in use",
                vfs(*have)
            ),
            Self::External(what) => write!(f, "it is externally managed, and {what}"),
            Self::DcbUnsupported(what) => {
                write!(
                    f,
                    "its driver does not support {}: remove the keys below dcb from the node file",
                    what.join(", ")
                )
            }
            Self::DcbUnread(error) => write!(f, "its DCB settings cannot be read: {error}"),
            Self::DcbByFirmware { remedy } => write!(
                f,
                "its firmware manages its DCB settings, and may change them at any time; to let the host manage them: {remedy}"
            ),
            Self::DcbInUse(users) => write!(
                f,
                "a change of its DCB settings interrupts the link, and it is in use; drain the node first:{}",
                UserList(users)
            ),
        }
    }
}

/// Displays users, each in a line of its own.
struct UserList<'a>(&'a [(String, VfUser)]);

impl fmt::Display for UserList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(function, user)| write!(f, "\n  {function}: {user}"))
    }
}

impl Serialize for PfRefusal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
