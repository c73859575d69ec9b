//! The errors of VFs, besides those that all plugins have.

use std::{path::PathBuf, time::Duration};

use identifiers::{Attachment, InvalidLinkName, MacAddr, PciAddress, VfIndex};
use plugin_runtime::{Condition, PluginError};
use rdma::Guid;
use sysfs::Function;

/// A VF cannot be moved to a pod or returned to the host, or CHECK found a difference.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VfError {
    /// CHECK: there is no journal.
    #[error("there is no attachment {0}")]
    NoAttachment(Attachment),
    /// CHECK: the VF has another GUID.
    #[error("VF {vf} has the {which} GUID {}, expected {} as set by ADD", is.in_bytes(), was.in_bytes())]
    OtherGuid { vf: PciAddress, which: &'static str, is: Guid, was: Guid },
    /// CHECK: the link has another MAC address.
    #[error("link {name} has the MAC address {is}, expected {was} as set by ADD")]
    OtherMac { name: String, is: String, was: String },
    /// CHECK: a setting of the VF has another value.
    #[error("VF {vf}: {key}: expected {set} as set by ADD, got {now}")]
    OtherSetting { vf: PciAddress, key: &'static str, set: String, now: String },
    /// CHECK: the pod's network namespace does not exist any more.
    #[error("the network namespace {} is gone", .0.display())]
    NamespaceGone(PathBuf),
    /// CHECK: the pod renamed the link.
    #[error("the link of {} {vf} was renamed from {ifname} to {name}", noun(vf))]
    Renamed { vf: Function, name: String, ifname: String },
    /// CHECK: the link is not in the pod.
    #[error("the link of {kind} {0} is not in the pod any more", kind = noun(.0))]
    Gone(Function),
    /// The node itself uses the VF.
    #[error("{} {vf} is in use by the node: its link {link} {used}", noun(vf))]
    NodeUsesIt { vf: Function, link: String, used: String },
    /// The VF's link is IP over InfiniBand.
    #[error(
        "{} {vf} is an InfiniBand {}: its link {link} has hardware type {}, and sriov is for Ethernet, {}",
        noun(vf),
        noun(vf),
        rtnl::INFINIBAND,
        rtnl::ETHERNET
    )]
    IsInfiniBand { vf: Function, link: String },
    /// The VF's link is not IP over InfiniBand.
    #[error(
        "VF {vf} is not an InfiniBand VF: its link {link} has hardware type {hardware}, expected {} (Ethernet has {})",
        rtnl::INFINIBAND,
        rtnl::ETHERNET
    )]
    IsEthernet { vf: Function, link: String, hardware: u16 },
    /// The PF's driver does not support a setting.
    #[error("{key}: the driver {driver} of PF {pf} does not support it for VF {vf}")]
    UnsupportedSetting {
        key: &'static str,
        driver: String,
        pf: String,
        vf: PciAddress,
        source: plugin_runtime::Error,
    },
    /// The PF refused a GUID.
    #[error("failed to add {which} guid {}: PF {pf} refused it for VF {vf}", guid.in_bytes())]
    GuidRefused { which: &'static str, guid: Guid, pf: String, vf: PciAddress, source: plugin_runtime::Error },
    /// The driver did not create the VF's link again.
    #[error("VF {vf} has no link after {after}: its driver {driver} did not create one within {waited}")]
    NoLinkAfter { vf: PciAddress, after: &'static str, driver: String, waited: String },
    /// The PF has no link in the node's network namespace.
    #[error(
        "PF {pf} has no link on the node, through which its VFs are configured: {}",
        driver.as_ref().map_or_else(|| "it has no driver".to_owned(), |driver| format!("its driver is {driver}"))
    )]
    NoPfLink { pf: PciAddress, driver: Option<String> },
    /// The PF does not list the VF.
    #[error("PF {pf} does not report the settings of its VF {index}")]
    NoSettings { pf: String, index: VfIndex },
    /// The VF's link is not on the host.
    #[error("the {} {vf} does not have a interface name or a dpdk driver: it is bound to {driver}", noun(vf))]
    NoLink { vf: Function, driver: String },
    /// The VF has no driver.
    #[error("the {kind} {0} does not have a interface name or a dpdk driver: no driver is bound to it", kind = noun(.0))]
    NoDriver(Function),
    /// The driver did not set a MAC address in time.
    #[error("mac: effective mac address is different from requested one: {link} has {is}, not {wanted}")]
    MacRefused { link: String, is: String, wanted: MacAddr, source: Option<rtnl::Error> },
    /// The link did not return from a namespace that was deleted.
    #[error(
        "{} {vf} did not return to the host within {waited:?}: its network device is not in a known namespace",
        noun(vf)
    )]
    NotReturned { vf: Function, waited: Duration },
    /// The pod adds names all the time.
    #[error("{kind} {0}: the pod adds names faster than they can be removed", kind = noun(.0))]
    RenamedFaster(Function),
    /// An XDP program of the pod cannot be removed from the link.
    #[error("{0}: a running process holds an XDP program of the pod on this link")]
    ProgramHeld(String),
    /// A link name is not valid.
    #[error("{} {vf}: {source}", noun(vf))]
    Nameless { vf: Function, source: InvalidLinkName },
}

/// Returns what users call a function.
pub(crate) fn noun(function: &Function) -> &'static str {
    match function {
        Function::Pci(_) => "VF",
        Function::Auxiliary(_) => "SF",
    }
}

impl PluginError for VfError {
    fn condition(&self) -> Condition {
        match self {
            Self::NoAttachment(_)
            | Self::OtherGuid { .. }
            | Self::OtherMac { .. }
            | Self::OtherSetting { .. }
            | Self::NamespaceGone(_)
            | Self::Renamed { .. }
            | Self::Gone(_) => Condition::Changed,
            Self::NodeUsesIt { .. } => Condition::InUse,
            Self::IsInfiniBand { .. } | Self::IsEthernet { .. } | Self::UnsupportedSetting { .. } => {
                Condition::UnsupportedField
            }
            Self::GuidRefused { .. }
            | Self::NoLinkAfter { .. }
            | Self::NoPfLink { .. }
            | Self::NoSettings { .. }
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
            Self::UnsupportedSetting { key, source, .. } => {
                format!("remove {key} from the configuration, or use another card; kernel error: {source}")
            }
            Self::GuidRefused { source, .. } => format!("kernel error: {source}"),
            Self::NoDriver(vf) => {
                let bus = if vf.pci().is_some() { "pci" } else { "auxiliary" };
                format!(
                    "bind a driver with `echo {vf} > /sys/bus/{bus}/drivers_probe`; then it can be attached"
                )
            }
            Self::MacRefused { source: Some(source), .. } => source.to_string(),
            other => other.remedy().into(),
        }
    }
}

impl VfError {
    fn remedy(&self) -> &'static str {
        match self {
            Self::NodeUsesIt { .. } => "use the VF for pods or for the node, not for both",
            Self::IsInfiniBand { .. } => {
                "use the plugin ib-sriov for it, without rdma after it: the link belongs to the VF's RDMA device and is \
                 deleted when that moves; a card in Ethernet mode (LINK_TYPE_P1=2, by mlxconfig) has VFs for sriov"
            }
            Self::IsEthernet { .. } => {
                "use the plugin sriov for it; a card in InfiniBand mode (LINK_TYPE_P1=1, by mlxconfig) has VFs for ib-sriov"
            }
            Self::NoPfLink { .. } => {
                "try again after a reload of the driver; if it stays so, bind the driver, or move the link of the PF back to the network \
                 namespace of the node, in which the plugin must run (hostNetwork of the pod of Multus)"
            }
            Self::NoSettings { .. } => {
                "try again: its driver may be initialising or resetting the VF. If it stays so, the PF cannot configure its VFs, as on \
                 the host of a DPU: remove the keys that set something of the VF (vlan, mac, spoofchk, trust, link_state, rates, guid)"
            }
            Self::NoLink { .. } => {
                "its network device is in another network namespace, or its driver failed; \
                 `silkrail pods` shows the pod that has it"
            }
            Self::MacRefused { .. } => {
                "the driver accepted the address and did not set it: try again; if it fails again, remove mac, or set trust to \
                 on, without which some drivers keep the VF's own address"
            }
            Self::NotReturned { .. } => {
                "a process may still hold the pod's network namespace open; rebinding the VF's driver returns the device"
            }
            Self::RenamedFaster(_) => "end the pod's processes",
            Self::ProgramHeld(_) => {
                "end the pod's processes and those that got the program from them; `silkrail recover` rebinds the VF's \
                 driver, which removes the program too"
            }
            _ => "",
        }
    }
}
