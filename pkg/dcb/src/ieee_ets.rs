//! Enhanced transmission selection (IEEE 802.1Qaz).

use netlink_packet_core::DecodeError;
use serde::{Deserialize, Serialize};

use crate::{TransmissionSelection, structure::Fields, uapi::MAX_TCS};

/// The traffic classes of a link, `struct ieee_ets`. The index of an array is a traffic class unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[doc(alias = "ieee_ets")]
pub struct Ets {
    /// Whether the link adopts what its peer recommends through DCBX, `willing`.
    pub willing: bool,
    /// The number of traffic classes that the link supports, `ets_cap`: 1 to 8. ice sends the 3 bits of the TLV, in which 0
    /// stands for 8, if its firmware runs LLDP; it is 8 here.
    pub max_classes: u8,
    /// Whether the link supports credit-based shapers, `cbs`.
    pub credit_based_shaper: bool,
    /// The traffic class of each priority, `prio_tc`. bnxt reports class 8, which does not exist, for every priority if the
    /// first change failed.
    pub priority_class: [u8; MAX_TCS],
    /// The share of the transmit bandwidth in percent, `tc_tx_bw`. It has a meaning only for classes with
    /// [`TransmissionSelection::Ets`]: mlx5 reports 100 for the others.
    pub transmit_bandwidth: [u8; MAX_TCS],
    /// The share of the receive bandwidth in percent, `tc_rx_bw`. mlx5 does not fill it, ice repeats the transmit bandwidth.
    pub receive_bandwidth: [u8; MAX_TCS],
    /// The transmission selection algorithm, `tc_tsa`.
    pub algorithm: [TransmissionSelection; MAX_TCS],
    /// The transmit bandwidth in percent that is recommended to the peer, `tc_reco_bw`.
    pub recommended_bandwidth: [u8; MAX_TCS],
    /// The algorithm that is recommended to the peer, `tc_reco_tsa`.
    pub recommended_algorithm: [TransmissionSelection; MAX_TCS],
    /// The traffic class of each priority that is recommended to the peer, `reco_prio_tc`.
    pub recommended_priority_class: [u8; MAX_TCS],
}

/// Why a change of [`Ets`] is not sent. The kernel has these rules only in drivers, which refuse with `EINVAL`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEts {
    /// A priority has a class that does not exist.
    #[error("priority {priority} has traffic class {class}: the link has the classes 0 to {}", max_classes.saturating_sub(1))]
    Class {
        /// The priority.
        priority: usize,
        /// The traffic class.
        class: u8,
        /// The number of classes of the link.
        max_classes: u8,
    },
    /// The shares of the bandwidth are not the whole.
    #[error(
        "the traffic classes with the algorithm ets have {sum} % of the bandwidth together: expected 100 %"
    )]
    Bandwidth {
        /// The sum of the shares in percent.
        sum: u16,
    },
}

impl Ets {
    /// Reads `struct ieee_ets`, which has no holes.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::new("struct ieee_ets", bytes);
        let [willing, max_classes, cbs] = fields.bytes()?;
        let (transmit_bandwidth, receive_bandwidth) = (fields.bytes()?, fields.bytes()?);
        let (algorithm, priority_class) = (algorithms(&mut fields)?, fields.bytes()?);
        Ok(Self {
            willing: willing != 0,
            max_classes: if max_classes == 0 { 8 } else { max_classes },
            credit_based_shaper: cbs != 0,
            priority_class,
            transmit_bandwidth,
            receive_bandwidth,
            algorithm,
            recommended_bandwidth: fields.bytes()?,
            recommended_algorithm: algorithms(&mut fields)?,
            recommended_priority_class: fields.bytes()?,
        })
    }

    /// Encodes `struct ieee_ets`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.willing), self.max_classes, u8::from(self.credit_based_shaper)];
        bytes.extend(self.transmit_bandwidth);
        bytes.extend(self.receive_bandwidth);
        bytes.extend(self.algorithm.map(TransmissionSelection::number));
        bytes.extend(self.priority_class);
        bytes.extend(self.recommended_bandwidth);
        bytes.extend(self.recommended_algorithm.map(TransmissionSelection::number));
        bytes.extend(self.recommended_priority_class);
        bytes
    }

    /// Whether frames are transmitted in the same way: the classes of all priorities, and the algorithms and shares of these
    /// classes. Drivers report any share for a class without [`TransmissionSelection::Ets`].
    pub(crate) fn transmits_as(&self, other: &Self) -> bool {
        self.priority_class == other.priority_class
            && self.priority_class.iter().all(|class| self.class(*class) == other.class(*class))
    }

    fn class(&self, class: u8) -> (Option<TransmissionSelection>, Option<u8>) {
        let at = usize::from(class);
        let algorithm = self.algorithm.get(at).copied();
        let share = self.transmit_bandwidth.get(at).copied();
        (algorithm, share.filter(|_| algorithm == Some(TransmissionSelection::Ets)))
    }

    /// Checks what every driver requires of a change.
    ///
    /// # Errors
    /// [`InvalidEts`].
    pub(crate) fn check(&self, max_classes: u8) -> Result<(), InvalidEts> {
        let unknown = self.priority_class.iter().position(|class| *class >= max_classes);
        if let Some((priority, class)) = unknown.and_then(|at| Some((at, *self.priority_class.get(at)?))) {
            return Err(InvalidEts::Class { priority, class, max_classes });
        }
        let shares = self.algorithm.iter().zip(self.transmit_bandwidth);
        let mut shares = shares.filter(|(it, _)| **it == TransmissionSelection::Ets).peekable();
        if shares.peek().is_none() {
            return Ok(());
        }
        let sum = shares.map(|(_, share)| u16::from(share)).sum();
        if sum == 100 { Ok(()) } else { Err(InvalidEts::Bandwidth { sum }) }
    }
}

fn algorithms(fields: &mut Fields<'_>) -> Result<[TransmissionSelection; MAX_TCS], DecodeError> {
    fields.bytes().map(|numbers| numbers.map(TransmissionSelection::from_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered() -> Vec<u8> {
        [&[1, 8, 1], &(10..66).collect::<Vec<u8>>()[..]].concat()
    }

    #[test]
    fn a_change_has_the_layout_of_the_kernel() {
        let ets = Ets::parse(&numbered()).unwrap();
        assert_eq!(
            (ets.transmit_bandwidth[0], ets.receive_bandwidth[0], ets.priority_class[0]),
            (10, 18, 34)
        );
        assert_eq!(ets.recommended_priority_class[7], 65);
        assert_eq!(ets.encode(), numbered());
        assert!(Ets::parse(&numbered()[..58]).is_err());
    }

    #[test]
    fn a_change_that_drivers_refuse_is_not_sent() {
        let mut ets = Ets::parse(&[0; 59]).unwrap();
        assert_eq!(ets.max_classes, 8);
        assert_eq!(ets.check(8), Ok(()), "strict classes need no bandwidth");
        ets.algorithm[1] = TransmissionSelection::Ets;
        assert_eq!(ets.check(8), Err(InvalidEts::Bandwidth { sum: 0 }));
        ets.transmit_bandwidth = [0, 100, 0, 0, 7, 0, 0, 0];
        assert_eq!(ets.check(8), Ok(()), "the share of a strict class does not count");
        ets.priority_class[3] = 4;
        assert_eq!(
            ets.check(4).unwrap_err().to_string(),
            "priority 3 has traffic class 4: the link has the classes 0 to 3"
        );
        ets.algorithm = [TransmissionSelection::Ets; 8];
        ets.transmit_bandwidth = [255; 8];
        assert_eq!(ets.check(8), Err(InvalidEts::Bandwidth { sum: 2040 }));
    }
}
