//! One step: one write to the kernel.

use std::fmt;

use identifiers::VfIndex;
use rtnl::VfSetting;
use serde::{Serialize, Serializer};

/// A step of making a PF as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PfStep {
    /// The PF's link goes up: VFs of one that is down carry nothing.
    Up,
    /// The PF's MTU changes.
    PfMtu {
        /// From this.
        from: u32,
        /// To this.
        to: u32,
    },
    /// The kernel binds new VFs to their driver by itself, or does not.
    Autoprobe(bool),
    /// All VFs go.
    RemoveVfs {
        /// So many.
        count: u32,
    },
    /// VFs are made.
    CreateVfs {
        /// So many.
        count: u32,
    },
    /// A setting of a VF changes.
    Configure {
        /// Its number.
        vf: VfIndex,
        /// The setting.
        change: VfSetting,
    },
    /// A VF is let go by its driver, to read its address anew.
    Unbind {
        /// Its number.
        vf: VfIndex,
    },
    /// A VF gets its driver.
    Bind {
        /// Its number.
        vf: VfIndex,
    },
    /// The MTU of a VF's link changes.
    VfMtu {
        /// Its number.
        vf: VfIndex,
        /// To this.
        to: u32,
    },
}

impl PfStep {
    /// The VF that it is about; none if it is about the PF.
    pub fn vf(&self) -> Option<VfIndex> {
        match *self {
            Self::Configure { vf, .. } | Self::Unbind { vf } | Self::Bind { vf } | Self::VfMtu { vf, .. } => {
                Some(vf)
            }
            Self::Up
            | Self::PfMtu { .. }
            | Self::Autoprobe(_)
            | Self::RemoveVfs { .. }
            | Self::CreateVfs { .. } => None,
        }
    }

    /// What it does, without what differs from VF to VF.
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
            Self::Autoprobe(true) => "let the kernel bind VFs to their driver".into(),
            Self::Autoprobe(false) => "keep the kernel from binding VFs that are not configured".into(),
            Self::RemoveVfs { count } => format!("remove {}", vfs(*count)),
            Self::CreateVfs { count } => format!("create {}", vfs(*count)),
            Self::Configure { change, .. } => format!("set {}", VfSettingText(*change)),
            Self::Unbind { .. } => "let the driver go, to read the address anew".into(),
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

/// A setting in words.
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

/// So many VFs, in words.
pub fn vfs(count: u32) -> String {
    format!("{count} VF{}", if count == 1 { "" } else { "s" })
}
