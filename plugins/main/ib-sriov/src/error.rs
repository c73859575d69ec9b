//! The errors of the ib-sriov plugin, besides those that all plugins and all VFs have.

use identifiers::{Attachment, PciAddress};
use plugin_runtime::{Condition, PluginError};
use rdma::Guid;

/// An ADD or CHECK of the ib-sriov plugin failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IbSriovError {
    /// CHECK: there is no journal.
    #[error("there is no attachment {0}")]
    NoAttachment(Attachment),
    /// CHECK: the VF has another GUID.
    #[error("VF {vf} has the {which} GUID {}, expected {} as set by ADD", is.in_bytes(), was.in_bytes())]
    OtherGuid { vf: PciAddress, which: &'static str, is: Guid, was: Guid },
    /// The VF has no GUID, and none is configured.
    #[error("VF {vf} GUID is not valid: it is {} and no GUID is configured", is.in_bytes())]
    NoGuid { vf: PciAddress, is: Guid },
    /// ib-kubernetes assigns GUIDs, and none is configured.
    #[error("ibKubernetesEnabled: no guid for VF {0} in runtimeConfig.infinibandGUID or args.cni.guid")]
    NoConfiguredGuid(PciAddress),
    /// The PF refused a GUID.
    #[error("failed to add {which} guid {}: PF {pf} refused it for VF {vf}", guid.in_bytes())]
    GuidRefused { which: &'static str, guid: Guid, pf: String, vf: PciAddress, source: plugin_runtime::Error },
    /// The driver did not create the VF's link again.
    #[error("VF {vf} has no link after {after}: its driver {driver} did not create one within {waited}")]
    NoLinkAfter { vf: PciAddress, after: &'static str, driver: String, waited: String },
    /// `vfioPciMode` is set, and the device has another driver.
    #[error("vfioPciMode is enabled but device {device} is not bound to vfio-pci driver: it has {driver}")]
    NotVfio { device: PciAddress, driver: String },
    /// The device is not a VF.
    #[error("PF device {0} requires vfioPciMode to be enabled: it is not a VF")]
    IsPf(PciAddress),
}

impl PluginError for IbSriovError {
    fn condition(&self) -> Condition {
        match self {
            Self::NoAttachment(_) | Self::OtherGuid { .. } => Condition::Changed,
            Self::NoGuid { .. } | Self::NoConfiguredGuid(_) | Self::NotVfio { .. } | Self::IsPf(_) => {
                Condition::InvalidConfig
            }
            Self::GuidRefused { .. } | Self::NoLinkAfter { .. } => Condition::TryAgain,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoGuid { .. } => {
                "set it with `ip link set PF vf N node_guid ... port_guid ...` and rebind the VF, or let ib-kubernetes or \
                 runtimeConfig.infinibandGUID assign one"
                    .into()
            }
            Self::NoConfiguredGuid(_) => {
                "check that ib-kubernetes runs and that the network declares the capability infinibandGUID".into()
            }
            Self::GuidRefused { source, .. } => format!("kernel error: {source}"),
            Self::NotVfio { device, .. } => {
                format!("bind it with `driverctl set-override {device} vfio-pci`, or remove vfioPciMode")
            }
            Self::IsPf(_) => "set deviceID to a VF; a whole PF can be passed to a VM only".into(),
            Self::NoAttachment(_) | Self::OtherGuid { .. } | Self::NoLinkAfter { .. } => String::new(),
        }
    }
}
