//! The steps of a plan. Each is one write to the kernel.

use std::fmt;

use dcb::DcbChange;
use identifiers::VfIndex;
use rtnl::VfSetting;
use serde::{Serialize, Serializer};

/// A step of configuring a PF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PfStep {
    /// Set the PF's link up, without which VFs carry no traffic.
    Up,
    /// Change the PF's MTU.
    PfMtu {
        /// The current MTU.
        from: u32,
        /// The new MTU.
        to: u32,
    },
    /// Change a DCB setting of the PF.
    Dcb(DcbChange),
    /// Set `sriov_drivers_autoprobe`: whether the kernel binds VFs to their driver.
    Autoprobe(bool),
    /// Remove all VFs.
    RemoveVfs {
        /// Their number.
        count: u32,
    },
    /// Create VFs.
    CreateVfs {
        /// Their number.
        count: u32,
    },
    /// Change a setting of a VF.
    Configure {
        /// The VF's index.
        vf: VfIndex,
        /// The setting and its new value.
        change: VfSetting,
    },
    /// Unbind a VF's driver, so that it reads the address again.
    Unbind {
        /// The VF's index.
        vf: VfIndex,
    },
    /// Bind a VF to its driver.
    Bind {
        /// The VF's index.
        vf: VfIndex,
    },
    /// Change the MTU of a VF's link.
    VfMtu {
        /// The VF's index.
        vf: VfIndex,
        /// The new MTU.
        to: u32,
    },
}

impl PfStep {
    /// Returns the VF that the step changes; `None` if it changes the PF.
    pub fn vf(&self) -> Option<VfIndex> {
        match *self {
            Self::Configure { vf, .. } | Self::Unbind { vf } | Self::Bind { vf } | Self::VfMtu { vf, .. } => {
                Some(vf)
            }
            Self::Up
            | Self::PfMtu { .. }
            | Self::Dcb(_)
            | Self::Autoprobe(_)
            | Self::RemoveVfs { .. }
            | Self::CreateVfs { .. } => None,
        }
    }

    /// Returns the step in words, without values that differ between VFs.
    pub fn kind(&self) -> String {
        match self {
            Self::Configure { change: VfSetting::Mac(_), .. } => "set the MAC address".into(),
            Self::Configure { change: VfSetting::NodeGuid(_), .. } => "set the node GUID".into(),
            Self::Configure { change: VfSetting::PortGuid(_), .. } => "set the port GUID".into(),
            _ => self.act(),
        }
    }

    fn act(&self) -> String {
        match self {
            Self::Up => "set the link up".into(),
            Self::PfMtu { from, to } => format!("change the MTU from {from} to {to}"),
            Self::Dcb(change) => change.to_string(),
            Self::Autoprobe(true) => "enable automatic binding of VFs to their driver".into(),
            Self::Autoprobe(false) => "disable automatic binding of VFs to their driver".into(),
            Self::RemoveVfs { count } => format!("remove {}", vfs(*count)),
            Self::CreateVfs { count } => format!("create {}", vfs(*count)),
            Self::Configure { change, .. } => format!("set {}", VfSettingText(*change)),
            Self::Unbind { .. } => "unbind the driver, so that it reads the address again".into(),
            Self::Bind { .. } => "bind to the driver".into(),
            Self::VfMtu { to, .. } => format!("set the MTU to {to}"),
        }
    }
}

impl fmt::Display for PfStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vf() {
            Some(vf) => write!(f, "VF {vf}: {}", self.act()),
            None => f.write_str(&self.act()),
        }
    }
}

/// Displays a setting in words.
pub(crate) struct VfSettingText(pub(crate) VfSetting);

impl fmt::Display for VfSettingText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use VfSetting::{LinkState, Mac, NodeGuid, PortGuid, Rate, SpoofCheck, Trust, Vlan};
        let on = |on: bool| if on { "on" } else { "off" };
        match self.0 {
            Mac(mac) => write!(f, "the MAC address to {mac}"),
            NodeGuid(guid) => write!(f, "the node GUID to {guid:016x}"),
            PortGuid(guid) => write!(f, "the port GUID to {guid:016x}"),
            Trust(to) => write!(f, "trust {}", on(to)),
            SpoofCheck(to) => write!(f, "the spoof check {}", on(to)),
            LinkState(0) => write!(f, "the link state to auto"),
            LinkState(1) => write!(f, "the link state to enable"),
            LinkState(_) => write!(f, "the link state to disable"),
            Rate(min, max) => write!(f, "the rate to {min} to {max} Mbit/s"),
            Vlan(tag) => write!(f, "the VLAN to {}", tag.id.get()),
        }
    }
}

impl Serialize for PfStep {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Returns a number of VFs in words, such as `1 VF` or `8 VFs`.
pub fn vfs(count: u32) -> String {
    format!("{count} VF{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_in_words() {
        for (state, text) in [(0, "auto"), (1, "enable"), (2, "disable")] {
            let step = PfStep::Configure { vf: VfIndex(3), change: VfSetting::LinkState(state) };
            assert_eq!(step.to_string(), format!("VF 3: set the link state to {text}"));
        }
        let step = PfStep::Configure { vf: VfIndex(0), change: VfSetting::SpoofCheck(false) };
        assert_eq!(step.to_string(), "VF 0: set the spoof check off");
        assert_eq!(PfStep::PfMtu { from: 1500, to: 9000 }.to_string(), "change the MTU from 1500 to 9000");
        assert_eq!([0, 1, 2].map(vfs), ["0 VFs", "1 VF", "2 VFs"]);
    }
}
