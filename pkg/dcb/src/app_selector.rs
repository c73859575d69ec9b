//! What the protocol of an application priority is.

use serde::{Deserialize, Serialize};

use crate::uapi::{DCB_ATTR_DCB_APP, DCB_ATTR_IEEE_APP};

/// The kind of a protocol, and what a port can trust, `IEEE_8021QAZ_APP_SEL_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[doc(alias = "IEEE_8021QAZ_APP_SEL_DSCP")]
pub enum AppSelector {
    /// An EtherType, such as 0x8915 for RoCE v1. EtherType 0 stands for all frames without another entry: it has the default
    /// priority.
    Ethertype,
    /// A port of TCP or SCTP.
    StreamPort,
    /// A port of UDP or DCCP, such as 4791 for RoCE v2.
    DatagramPort,
    /// A port of TCP, SCTP, UDP or DCCP.
    Port,
    /// A differentiated services code point: 0 to 63.
    Dscp,
    /// The priority code point of a VLAN tag: 0 to 7, and 8 to 15 with the drop eligible indicator. Since Linux 6.2.
    Pcp,
    /// Another number.
    Other(u8),
}

impl AppSelector {
    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Ethertype,
            2 => Self::StreamPort,
            3 => Self::DatagramPort,
            4 => Self::Port,
            5 => Self::Dscp,
            255 => Self::Pcp,
            other => Self::Other(other),
        }
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Ethertype => 1,
            Self::StreamPort => 2,
            Self::DatagramPort => 3,
            Self::Port => 4,
            Self::Dscp => 5,
            Self::Pcp => 255,
            Self::Other(number) => number,
        }
    }

    /// The type of the attribute of an entry with this selector: the kernel refuses the other one.
    pub(crate) fn attribute(self) -> u16 {
        match self {
            Self::Pcp => DCB_ATTR_DCB_APP,
            _ => DCB_ATTR_IEEE_APP,
        }
    }

    /// The highest protocol number.
    pub(crate) fn max_protocol(self) -> u16 {
        match self {
            Self::Dscp => 63,
            Self::Pcp => 15,
            _ => u16::MAX,
        }
    }
}
