//! What can go wrong with a VF, beside what can with any link.

use std::{path::PathBuf, time::Duration};

use identifiers::{Attachment, InvalidLinkName, MacAddr, PciAddress, VfIndex};
use plugin_runtime::{Condition, PluginError};

/// A VF cannot be given to a pod, or taken from it, or is not as it was given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SriovError {
    /// CHECK: there is no journal.
    #[error("there is no attachment {0}")]
    NoAttachment(Attachment),
    /// CHECK: the link has another MAC address.
    #[error("link {name} has the MAC address {is}, ADD left it with {was}")]
    OtherMac { name: String, is: String, was: String },
    /// CHECK: a setting of the VF is another one.
    #[error("VF {vf}: {key} is not as ADD set it ({set}); it is {now}")]
    OtherSetting { vf: PciAddress, key: &'static str, set: String, now: String },
    /// CHECK: the pod's namespace is not there.
    #[error("the namespace {} is gone", .0.display())]
    NamespaceGone(PathBuf),
    /// CHECK: the pod gave the link another name.
    #[error("the link of VF {vf} is called {name} now, not {ifname}")]
    Renamed { vf: PciAddress, name: String, ifname: String },
    /// CHECK: the link is not there.
    #[error("the link of VF {0} is not in the pod any more")]
    Gone(PciAddress),
    /// A pod of the Go plugin has the VF.
    #[error("pci address {vf} is already allocated")]
    GoPluginHasIt { vf: PciAddress, netns: PathBuf },
    /// The node itself uses the VF.
    #[error("VF {vf} is in use by the node: its link {link} {used}")]
    NodeUsesIt { vf: PciAddress, link: String, used: String },
    /// A VF of InfiniBand.
    #[error(
        "VF {vf} is an InfiniBand VF: its link {link} has hardware type {}, and sriov is for Ethernet, {}",
        rtnl::INFINIBAND,
        rtnl::ETHERNET
    )]
    IsInfiniBand { vf: PciAddress, link: String },
    /// The PF's driver does not have a setting.
    #[error("{key}: the driver {driver} of PF {pf} does not support it for VF {vf}")]
    UnsupportedSetting {
        key: &'static str,
        driver: String,
        pf: String,
        vf: PciAddress,
        source: plugin_runtime::Error,
    },
    /// The PF does not tell of its VF.
    #[error("PF {pf} does not tell the settings of its VF {index}")]
    NoSettings { pf: String, index: VfIndex },
    /// The VF's link is somewhere else.
    #[error("the VF {vf} does not have a interface name or a dpdk driver: it is bound to {driver}")]
    NoLink { vf: PciAddress, driver: String },
    /// The VF has no driver.
    #[error("the VF {0} does not have a interface name or a dpdk driver: no driver is bound to it")]
    NoDriver(PciAddress),
    /// The driver does not take a MAC address.
    #[error("mac: effective mac address is different from requested one: {link} has {is}, not {wanted}")]
    MacRefused { link: String, is: String, wanted: MacAddr, source: Option<rtnl::Error> },
    /// The link did not come back from a namespace that died.
    #[error("VF {vf} has not come home within {waited:?}: its network device is in no namespace we know")]
    NotReturned { vf: PciAddress, waited: Duration },
    /// The pod renames it all the time.
    #[error("VF {0}: its pod gives it names faster than they can be taken away")]
    RenamedFaster(PciAddress),
    /// A program of the pod stays on the link.
    #[error("{0}: an XDP program of the pod is held on it by a process that lives")]
    ProgramHeld(String),
    /// The kernel gave a link a name that cannot be.
    #[error("VF {vf}: {source}")]
    Nameless { vf: PciAddress, source: InvalidLinkName },
}

impl PluginError for SriovError {
    fn condition(&self) -> Condition {
        match self {
            Self::NoAttachment(_)
            | Self::OtherMac { .. }
            | Self::OtherSetting { .. }
            | Self::NamespaceGone(_)
            | Self::Renamed { .. }
            | Self::Gone(_) => Condition::Changed,
            Self::GoPluginHasIt { .. } | Self::NodeUsesIt { .. } => Condition::InUse,
            Self::IsInfiniBand { .. } | Self::UnsupportedSetting { .. } => Condition::UnsupportedField,
            Self::NoSettings { .. }
            | Self::NoLink { .. }
            | Self::NoDriver(_)
            | Self::MacRefused { .. }
            | Self::NotReturned { .. }
            | Self::RenamedFaster(_)
            | Self::ProgramHeld(_) => Condition::TryAgain,
            Self::Nameless { .. } => Condition::Internal,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::GoPluginHasIt { netns, .. } => format!(
                "by the Go plugin, to the pod whose namespace {} lives; nothing was touched",
                netns.display()
            ),
            Self::UnsupportedSetting { key, source, .. } => {
                format!("leave {key} out, or use another card; the kernel's answer: {source}")
            }
            Self::NoDriver(vf) => {
                format!("bind one: `echo {vf} > /sys/bus/pci/drivers_probe`; then the device can be attached")
            }
            Self::MacRefused { source: Some(source), .. } => source.to_string(),
            other => other.remedy().into(),
        }
    }
}

impl SriovError {
    fn remedy(&self) -> &'static str {
        match self {
            Self::NodeUsesIt { .. } => "give it to pods or to the node, not to both",
            Self::IsInfiniBand { .. } => {
                "use the plugin ib-sriov for it, without rdma after it: the link belongs to the VF's RDMA device and \
                 would vanish when that moves; a card in Ethernet mode (LINK_TYPE_P1=2, by mlxconfig) has VFs for sriov"
            }
            Self::NoSettings { .. } => "was sriov_numvfs changed?",
            Self::NoLink { .. } => {
                "its network device is in another network namespace, or its driver failed; \
                 `silkrail pods` shows who has it"
            }
            Self::NotReturned { .. } => {
                "a process may still hold the pod's namespace open; binding its driver anew brings the device back"
            }
            Self::RenamedFaster(_) => "end the pod's processes",
            Self::ProgramHeld(_) => {
                "end the pod's processes, and those that they gave it to; `silkrail recover` binds the VF's driver \
                 anew, which takes it off too"
            }
            _ => "",
        }
    }
}
