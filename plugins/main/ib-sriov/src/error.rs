//! The errors of the ib-sriov plugin, besides those that all plugins and all VFs have.

use identifiers::PciAddress;
use plugin_runtime::{Condition, PluginError};
use rdma::Guid;

/// An ADD of the ib-sriov plugin failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IbSriovError {
    /// The VF has no GUID, and none is configured.
    #[error("VF {vf} GUID is not valid: it is {} and no GUID is configured", is.in_bytes())]
    NoGuid { vf: PciAddress, is: Guid },
    /// ib-kubernetes assigns GUIDs, and none is configured.
    #[error("ibKubernetesEnabled: no guid for VF {0} in runtimeConfig.infinibandGUID or args.cni.guid")]
    NoConfiguredGuid(PciAddress),
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
            Self::NoGuid { .. } | Self::NoConfiguredGuid(_) | Self::NotVfio { .. } | Self::IsPf(_) => {
                Condition::InvalidConfig
            }
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
            Self::NotVfio { device, .. } => {
                format!("bind it with `driverctl set-override {device} vfio-pci`, or remove vfioPciMode")
            }
            Self::IsPf(_) => "set deviceID to a VF; a whole PF can be passed to a VM only".into(),
        }
    }
}
