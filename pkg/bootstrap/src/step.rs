//! One step: one write to the kernel.

use std::fmt;

use rtnl::VfSettingsChange;
use serde::{Serialize, Serializer};

/// A step of making a PF as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
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
        vf: u32,
        /// The setting.
        change: VfSettingsChange,
    },
    /// A VF is let go by its driver, to read its address anew.
    Unbind {
        /// Its number.
        vf: u32,
    },
    /// A VF gets its driver.
    Bind {
        /// Its number.
        vf: u32,
    },
    /// The MTU of a VF's link changes.
    VfMtu {
        /// Its number.
        vf: u32,
        /// To this.
        to: u32,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => write!(f, "set the link up"),
            Self::PfMtu { from, to } => write!(f, "change the MTU from {from} to {to}"),
            Self::Autoprobe(true) => write!(f, "let the kernel bind new VFs to their driver"),
            Self::Autoprobe(false) => {
                write!(f, "keep the kernel from binding new VFs before they are configured")
            }
            Self::RemoveVfs { count } => write!(f, "remove {count} VFs"),
            Self::CreateVfs { count } => write!(f, "create {count} VFs"),
            Self::Configure { vf, change } => write!(f, "VF {vf}: set the {}", Setting(*change)),
            Self::Unbind { vf } => write!(f, "VF {vf}: let its driver go, to read its address anew"),
            Self::Bind { vf } => write!(f, "VF {vf}: bind it to its driver"),
            Self::VfMtu { vf, to } => write!(f, "VF {vf}: set the MTU to {to}"),
        }
    }
}

/// A setting in words.
pub(crate) struct Setting(pub(crate) VfSettingsChange);

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use VfSettingsChange::{LinkState, Mac, NodeGuid, PortGuid, Rate, SpoofCheck, Trust, Vlan};
        let on = |on: bool| if on { "on" } else { "off" };
        match self.0 {
            Mac(mac) => write!(f, "MAC address to {mac}"),
            NodeGuid(guid) => write!(f, "node GUID to {guid:016x}"),
            PortGuid(guid) => write!(f, "port GUID to {guid:016x}"),
            Trust(to) => write!(f, "trust {}", on(to)),
            SpoofCheck(to) => write!(f, "spoof check {}", on(to)),
            LinkState(0) => write!(f, "link state to auto"),
            LinkState(1) => write!(f, "link state to enable"),
            LinkState(_) => write!(f, "link state to disable"),
            Rate(min, max) => write!(f, "rate to {min} to {max} Mbit/s"),
            Vlan(tag) => write!(f, "VLAN to {}", tag.id.get()),
        }
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
