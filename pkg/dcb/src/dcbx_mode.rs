//! Who negotiates with the peer.

use serde::Serialize;

/// The mode of the DCBX protocol, `DCB_CAP_DCBX_`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[doc(alias = "DCB_CAP_DCBX_HOST")]
pub struct DcbxMode {
    /// The host manages the settings: they can be set here or by an LLDP agent of the host. Without it the card's firmware
    /// manages them, even if [`Self::lld_managed`] is not set: mlx5 never sets that.
    pub host: bool,
    /// Another entity than the host negotiates, such as the card's firmware.
    pub lld_managed: bool,
    /// Version CEE is supported.
    pub cee: bool,
    /// Version IEEE 802.1Qaz is supported.
    pub ieee: bool,
    /// The settings are static: nothing is negotiated.
    #[serde(rename = "static")]
    pub is_static: bool,
}

const HOST: u8 = 0x01;
const LLD_MANAGED: u8 = 0x02;
const CEE: u8 = 0x04;
const IEEE: u8 = 0x08;
const STATIC: u8 = 0x10;

impl DcbxMode {
    /// Whether the card's firmware manages the settings.
    pub fn is_by_firmware(self) -> bool {
        !self.host
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self {
            host: bits & HOST != 0,
            lld_managed: bits & LLD_MANAGED != 0,
            cee: bits & CEE != 0,
            ieee: bits & IEEE != 0,
            is_static: bits & STATIC != 0,
        }
    }

    pub(crate) fn bits(self) -> u8 {
        let flags = [
            (self.host, HOST),
            (self.lld_managed, LLD_MANAGED),
            (self.cee, CEE),
            (self.ieee, IEEE),
            (self.is_static, STATIC),
        ];
        flags.into_iter().filter(|(set, _)| *set).fold(0, |bits, (_, flag)| bits | flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_read_as_it_is_set() {
        for bits in 0..0x20 {
            assert_eq!(DcbxMode::from_bits(bits).bits(), bits);
        }
        assert_eq!(DcbxMode::from_bits(0xe1).bits(), 1, "flags of later kernels are left out");
    }
}
