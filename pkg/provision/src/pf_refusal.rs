//! Why a PF is not changed.

use std::fmt;

use inventory::{ProtectionReason, Vf, VfUser};
use serde::{Serialize, Serializer};

use crate::step::vfs;

/// Why a PF is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PfRefusal {
    /// More VFs are wanted than its firmware has.
    TooMany {
        /// What is wanted.
        wanted: u32,
        /// What it can have.
        most: u32,
    },
    /// It cannot have any.
    NoSriov {
        /// Its driver.
        driver: Option<String>,
    },
    /// The kernel changes the number of VFs only by removing all of them.
    NeedsRecreate {
        /// How many there are.
        have: u32,
        /// What is wanted.
        wanted: u32,
    },
    /// VFs are in use.
    InUse(Vec<(String, VfUser)>),
    /// The node's own traffic may run over it.
    Protected(Vec<ProtectionReason>),
    /// Somebody else made the VFs that are there.
    NotOurs {
        /// How many.
        have: u32,
    },
    /// Somebody else manages it, and it is not as it should be.
    External(String),
}

impl PfRefusal {
    /// That VFs are in use; `None` if none is.
    pub(crate) fn in_use<'a>(vfs: impl Iterator<Item = &'a Vf>) -> Option<Self> {
        let name = |vf: &Vf| format!("VF {} ({})", vf.index, vf.pci);
        let users: Vec<_> =
            vfs.flat_map(|vf| vf.users.iter().map(move |user| (name(vf), user.clone()))).collect();
        (!users.is_empty()).then_some(Self::InUse(users))
    }

    /// Whether the file asks for what this machine does not have, rather than for what must not be done now.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::NoSriov { .. })
    }

    /// Whether the file asks for what no such card can do.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::TooMany { .. })
    }
}

impl fmt::Display for PfRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { wanted, most } => write!(
                f,
                "{} wanted, and its firmware has {most}: ask for fewer, or raise the number in the \
                 firmware (Mellanox: mstconfig set SRIOV_EN=1 NUM_OF_VFS={wanted}, then reboot)",
                if *wanted == 1 { "1 VF is".into() } else { format!("{wanted} VFs are") }
            ),
            Self::NoSriov { driver: Some(driver) } if driver.starts_with("mlx4") => {
                write!(
                    f,
                    "its driver makes VFs by a module parameter only: options mlx4_core num_vfs=… in /etc/modprobe.d"
                )
            }
            Self::NoSriov { driver: Some(driver) } if driver.starts_with("virtio") => write!(
                f,
                "it is a virtual machine's own card ({driver}), which has no VFs: hand the machine a PF or VFs of the \
                 host's card, or use macvlan on it"
            ),
            Self::NoSriov { driver } => write!(
                f,
                "it can have no VFs (no sriov_totalvfs; driver {}): switch SR-IOV on in the machine's setup and in the \
                 card's firmware",
                driver.as_deref().unwrap_or("none")
            ),
            Self::NeedsRecreate { have, wanted } => write!(
                f,
                "it has {} and should have {wanted}: the kernel changes that only by removing all of them; \
                 --allow-recreate does it if none is in use",
                vfs(*have)
            ),
            Self::InUse(users) => {
                write!(f, "VFs are in use:")?;
                for (vf, user) in users {
                    write!(f, "\n  {vf}: {user}")?;
                }
                Ok(())
            }
            Self::Protected(why) => {
                let why: Vec<_> = why.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "the node itself may depend on it: {}; some drivers reset a PF that gets VFs or another MTU (--force-pf, or \
                     `force: true` in the node file, does it all the same)",
                    why.join("; ")
                )
            }
            Self::NotOurs { have } => write!(
                f,
                "it has {}, not made by silkrail: --allow-recreate removes what is there all the same, if nobody uses it",
                vfs(*have)
            ),
            Self::External(what) => write!(f, "it is managed by somebody else, and {what}"),
        }
    }
}

impl Serialize for PfRefusal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
