//! VLAN tag fields.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A VLAN ID, 0 to 4094. As the VLAN of a VF, 0 means no VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct VlanId(u16);

/// A VLAN priority, 0 to 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
#[doc(alias = "PCP")]
pub struct VlanQos(u8);

/// The EtherType of a VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VlanProto {
    /// 0x8100, a customer tag.
    #[serde(rename = "802.1q")]
    Dot1Q,
    /// 0x88a8, a service tag.
    #[serde(rename = "802.1ad")]
    Dot1Ad,
}

/// Why a VLAN field is not valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVlan {
    /// The ID is not between 0 and 4094.
    #[error("vlan id {0} invalid: value must be in the range 0-4094")]
    Id(i64),
    /// The priority is not between 0 and 7.
    #[error("vlan QoS {0} invalid: value must be in the range 0-7")]
    Qos(i64),
    /// The protocol is not the name of an EtherType.
    #[error("vlan Proto {0} invalid: value must be '802.1Q' or '802.1ad'")]
    Proto(String),
}

impl VlanId {
    /// No VLAN.
    pub const NONE: Self = Self(0);

    /// Returns the ID as a number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<i64> for VlanId {
    type Error = InvalidVlan;

    fn try_from(id: i64) -> Result<Self, Self::Error> {
        u16::try_from(id).ok().filter(|id| *id <= 4094).map(Self).ok_or(InvalidVlan::Id(id))
    }
}

impl TryFrom<u16> for VlanId {
    type Error = InvalidVlan;

    fn try_from(id: u16) -> Result<Self, Self::Error> {
        i64::from(id).try_into()
    }
}

impl From<VlanId> for u16 {
    fn from(id: VlanId) -> Self {
        id.0
    }
}

impl VlanQos {
    /// Returns the priority as a number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<i64> for VlanQos {
    type Error = InvalidVlan;

    fn try_from(qos: i64) -> Result<Self, Self::Error> {
        u8::try_from(qos).ok().filter(|qos| *qos <= 7).map(Self).ok_or(InvalidVlan::Qos(qos))
    }
}

impl TryFrom<u16> for VlanQos {
    type Error = InvalidVlan;

    fn try_from(qos: u16) -> Result<Self, Self::Error> {
        i64::from(qos).try_into()
    }
}

impl From<VlanQos> for u16 {
    fn from(qos: VlanQos) -> Self {
        qos.0.into()
    }
}

impl VlanProto {
    /// Returns the EtherType as a number.
    pub fn ether_type(self) -> u16 {
        match self {
            Self::Dot1Q => 0x8100,
            Self::Dot1Ad => 0x88a8,
        }
    }
}

impl FromStr for VlanProto {
    type Err = InvalidVlan;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "802.1q" => Ok(Self::Dot1Q),
            "802.1ad" => Ok(Self::Dot1Ad),
            _ => Err(InvalidVlan::Proto(text.to_owned())),
        }
    }
}

impl fmt::Display for VlanProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dot1Q => "802.1q",
            Self::Dot1Ad => "802.1ad",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold() {
        assert_eq!(VlanId::try_from(4094_i64).unwrap().get(), 4094);
        assert_eq!(VlanId::try_from(4095_i64), Err(InvalidVlan::Id(4095)));
        assert_eq!(VlanId::try_from(-1_i64), Err(InvalidVlan::Id(-1)));
        assert_eq!(VlanQos::try_from(8_i64), Err(InvalidVlan::Qos(8)));
        assert_eq!("802.1AD".parse::<VlanProto>().unwrap(), VlanProto::Dot1Ad);
        assert!("802".parse::<VlanProto>().is_err());
        assert_eq!(
            (VlanId::try_from(0_u16).unwrap(), VlanQos::try_from(7_u16).unwrap().get()),
            (VlanId::NONE, 7)
        );
        assert_eq!([VlanProto::Dot1Q, VlanProto::Dot1Ad].map(VlanProto::ether_type), [0x8100, 0x88a8]);
        for name in ["802.1q", "802.1ad"] {
            assert_eq!(name.parse::<VlanProto>().unwrap().to_string(), name);
        }
    }
}
