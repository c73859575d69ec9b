//! Transmission selection algorithms (IEEE 802.1Q).

use serde::{Deserialize, Serialize};

/// How a port selects the traffic class whose frame it transmits next, `IEEE_8021QAZ_TSA_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[doc(alias = "IEEE_8021QAZ_TSA_STRICT")]
pub enum TransmissionSelection {
    /// Strict priority: before all lower classes.
    Strict,
    /// A credit-based shaper.
    CreditBasedShaper,
    /// Enhanced transmission selection: a share of the bandwidth that strict classes leave.
    Ets,
    /// The vendor's own algorithm. It is the default of mlx5, which then serves all classes alike.
    Vendor,
    /// Another number.
    Other(u8),
}

impl TransmissionSelection {
    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Strict,
            1 => Self::CreditBasedShaper,
            2 => Self::Ets,
            255 => Self::Vendor,
            other => Self::Other(other),
        }
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Strict => 0,
            Self::CreditBasedShaper => 1,
            Self::Ets => 2,
            Self::Vendor => 255,
            Self::Other(number) => number,
        }
    }
}
