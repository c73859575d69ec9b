//! Priority-based flow control (IEEE 802.1Qbb).

use netlink_packet_core::DecodeError;
use serde::Serialize;

use crate::{structure::Fields, uapi::MAX_TCS};

/// Priority-based flow control of a link, `struct ieee_pfc`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[doc(alias = "ieee_pfc")]
pub struct Pfc {
    /// The priorities (0 to 7, ascending) that are paused instead of dropped: the bits of `pfc_en`.
    pub enabled: Vec<u8>,
    /// The number of traffic classes that can have PFC at the same time, `pfc_cap`.
    pub capacity: u8,
    /// The allowance for the round trip on the cable, in bit times, `delay`. mlx5 has the length of the cable in metres here.
    pub delay: u16,
    /// Whether the link's frames bypass MACsec, `mbc`.
    pub macsec_bypass: bool,
    /// The number of pause frames that were sent, for each priority, `requests`. ice counts only those that start a pause.
    pub requests: [u64; MAX_TCS],
    /// The number of pause frames that were received, for each priority, `indications`.
    pub indications: [u64; MAX_TCS],
}

impl Pfc {
    /// Reads `struct ieee_pfc`: two holes align its numbers.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::new("struct ieee_pfc", bytes);
        let [capacity, enabled, bypass, _] = fields.bytes()?;
        let delay = fields.u16()?;
        fields.bytes::<2>()?;
        Ok(Self {
            enabled: priorities(enabled),
            capacity,
            delay,
            macsec_bypass: bypass != 0,
            requests: fields.u64s()?,
            indications: fields.u64s()?,
        })
    }

    /// Encodes `struct ieee_pfc` for a change. The counters are zero: they cannot be set.
    pub(crate) fn encode(&self, enabled: u8) -> Vec<u8> {
        let mut bytes = vec![self.capacity, enabled, u8::from(self.macsec_bypass), 0];
        bytes.extend(self.delay.to_ne_bytes());
        bytes.resize(8 + 2 * 8 * MAX_TCS, 0);
        bytes
    }
}

/// Returns the numbers of the bits that are set.
pub(crate) fn priorities(bitmap: u8) -> Vec<u8> {
    (0..8).filter(|bit| bitmap & (1 << bit) != 0).collect()
}

/// Returns the bitmap of priorities; `None` if one is higher than 7.
pub(crate) fn bitmap(priorities: &[u8]) -> Option<u8> {
    priorities.iter().try_fold(0, |bits, priority| Some(bits | 1_u8.checked_shl(u32::from(*priority))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bitmap_is_read_as_it_is_set() {
        for bits in 0..=u8::MAX {
            assert_eq!(bitmap(&priorities(bits)), Some(bits));
        }
        assert_eq!(bitmap(&[3, 3, 0]), Some(0b1001));
        assert_eq!(bitmap(&[8]), None);
        assert_eq!(bitmap(&[255]), None);
    }

    #[test]
    fn a_change_has_the_layout_of_the_kernel() {
        let pfc = Pfc { capacity: 8, delay: 7, macsec_bypass: true, requests: [9; 8], ..Pfc::default() };
        let bytes = pfc.encode(0b1000);
        assert_eq!(
            (bytes.len(), &bytes[..4], &bytes[4..6]),
            (136, &[8, 8, 1, 0][..], &7_u16.to_ne_bytes()[..])
        );
        assert_eq!(Pfc::parse(&bytes).unwrap(), Pfc { enabled: vec![3], requests: [0; 8], ..pfc });
    }
}
