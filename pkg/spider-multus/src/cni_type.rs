//! The kind of a network.

use std::str::FromStr;

/// The kind of the network, `spec.cniType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CniType {
    /// `macvlan`
    Macvlan,
    /// `ipvlan`
    Ipvlan,
    /// `vlan`
    Vlan,
    /// `sriov`
    Sriov,
    /// `ib-sriov`
    IbSriov,
    /// `ipoib`
    Ipoib,
    /// `ovs`
    Ovs,
    /// `custom`
    Custom,
}

impl CniType {
    /// All types.
    pub const ALL: [Self; 8] = [
        Self::Macvlan,
        Self::Ipvlan,
        Self::Vlan,
        Self::Sriov,
        Self::IbSriov,
        Self::Ipoib,
        Self::Ovs,
        Self::Custom,
    ];

    /// Returns the value of `spec.cniType`, which is also the name of the plugin.
    pub fn name(self) -> &'static str {
        match self {
            Self::Macvlan => "macvlan",
            Self::Ipvlan => "ipvlan",
            Self::Vlan => "vlan",
            Self::Sriov => "sriov",
            Self::IbSriov => "ib-sriov",
            Self::Ipoib => "ipoib",
            Self::Ovs => "ovs",
            Self::Custom => "custom",
        }
    }

    /// Returns the key of its settings in `spec`.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::IbSriov => "ibsriov",
            Self::Custom => "customCNI",
            other => other.name(),
        }
    }
}

impl FromStr for CniType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|it| it.name() == text).ok_or_else(|| {
            format!("expected one of {}, found {text:?}", Self::ALL.map(Self::name).join(", "))
        })
    }
}
