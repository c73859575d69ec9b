//! Whether a link is up, and why it is down.

use std::fmt::{self, Display};

use identifiers::LinkName;
use serde::Serialize;

use crate::{Error, Handle, Malformed, attributes::attributes, command::LINKSTATE_GET, handle::malformed};

/// `ETHTOOL_A_LINKSTATE_`.
const LINK: u16 = 2;
const SQI: u16 = 3;
const SQI_MAX: u16 = 4;
const EXT_STATE: u16 = 5;
const EXT_SUBSTATE: u16 = 6;
const EXT_DOWN_CNT: u16 = 7;

/// The state of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkState {
    /// Whether the link is up (`ETHTOOL_A_LINKSTATE_LINK`); `None` if the driver does not report it.
    pub up: Option<bool>,
    /// The signal quality index (`ETHTOOL_A_LINKSTATE_SQI`), from 0 to `sqi_max`; only of PHYs for single-pair Ethernet.
    pub sqi: Option<u32>,
    /// The best signal quality index (`ETHTOOL_A_LINKSTATE_SQI_MAX`).
    pub sqi_max: Option<u32>,
    /// Why the link is down; `None` if it is up, if it is administratively down, or if the driver does not know.
    pub extended: Option<ExtendedState>,
    /// How often the link went down since the driver was loaded (`ETHTOOL_A_LINKSTATE_EXT_DOWN_CNT`, Linux 6.3); `None` if
    /// the driver does not count it.
    pub down_events: Option<u32>,
}

/// Why a link is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedState {
    /// The cause (`ETHTOOL_A_LINKSTATE_EXT_STATE`).
    pub state: LinkExtState,
    /// More about the cause (`ETHTOOL_A_LINKSTATE_EXT_SUBSTATE`), if it is known.
    pub substate: Option<ExtendedSubstate>,
}

/// A cause of a link that is down (`ETHTOOL_LINK_EXT_STATE_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LinkExtState {
    /// Autonegotiation failed.
    Autoneg,
    /// Link training failed.
    LinkTrainingFailure,
    /// The two sides differ in the coding or in FEC.
    LinkLogicalMismatch,
    /// The signal is too bad.
    BadSignalIntegrity,
    /// No cable or module is plugged in.
    NoCable,
    /// The cable has a fault or is not supported.
    CableIssue,
    /// The EEPROM of the cable or module cannot be read or understood.
    EepromIssue,
    /// The calibration failed.
    CalibrationFailure,
    /// The module needs more power than the port may give.
    PowerBudgetExceeded,
    /// The module is too hot.
    Overheat,
    /// The module is not ready or has a fault.
    Module,
    /// The card is not licensed for this speed.
    OtpSpeedViolation,
    /// The BMC requested the link to be down.
    BmcRequestDown,
    /// A cause of a newer kernel, by its number.
    Other(u8),
}

/// More about a cause (`ETHTOOL_LINK_EXT_SUBSTATE_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedSubstate {
    /// The number, which has a meaning only together with the state.
    pub number: u8,
    /// The meaning; `None` if the number is of a newer kernel.
    pub meaning: Option<&'static str>,
}

impl LinkExtState {
    const STATES: [Self; 13] = [
        Self::Autoneg,
        Self::LinkTrainingFailure,
        Self::LinkLogicalMismatch,
        Self::BadSignalIntegrity,
        Self::NoCable,
        Self::CableIssue,
        Self::EepromIssue,
        Self::CalibrationFailure,
        Self::PowerBudgetExceeded,
        Self::Overheat,
        Self::Module,
        Self::OtpSpeedViolation,
        Self::BmcRequestDown,
    ];

    fn from_number(number: u8) -> Self {
        Self::STATES.get(usize::from(number)).copied().unwrap_or(Self::Other(number))
    }

    /// The meanings of this state's substates, which count from 1.
    fn substates(self) -> &'static [&'static str] {
        match self {
            Self::Autoneg => &[
                "no link partner detected",
                "the partner did not acknowledge",
                "the next pages were not exchanged",
                "no link partner detected in force mode",
                "FEC mismatch of the two sides during override",
                "no common mode",
            ],
            Self::LinkTrainingFailure => &[
                "the KR frame lock was not acquired",
                "the KR link inhibit timer expired",
                "the partner's receiver did not become ready",
                "remote fault",
            ],
            Self::LinkLogicalMismatch => &[
                "the PCS did not acquire block lock",
                "the PCS did not acquire alignment marker lock",
                "the PCS did not get the align status",
                "the FC-FEC is not locked",
                "the RS-FEC is not locked",
            ],
            Self::BadSignalIntegrity => &[
                "many physical errors",
                "unsupported rate",
                "the SerDes lost its reference clock",
                "the SerDes has no analog signal",
            ],
            Self::CableIssue => &["unsupported cable", "the cable test failed"],
            Self::Module => &["the CMIS module did not become ready"],
            _ => &[],
        }
    }

    fn substate(self, number: u8) -> ExtendedSubstate {
        let place = usize::from(number).checked_sub(1);
        let meaning = place.and_then(|place| self.substates().get(place)).copied();
        ExtendedSubstate { number, meaning }
    }
}

impl Display for LinkExtState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Autoneg => "autonegotiation failed",
            Self::LinkTrainingFailure => "link training failed",
            Self::LinkLogicalMismatch => "the two sides differ in coding or FEC",
            Self::BadSignalIntegrity => "bad signal",
            Self::NoCable => "no cable",
            Self::CableIssue => "faulty or unsupported cable",
            Self::EepromIssue => "the EEPROM of the module cannot be read",
            Self::CalibrationFailure => "the calibration failed",
            Self::PowerBudgetExceeded => "the module needs more power than the port may give",
            Self::Overheat => "the module is too hot",
            Self::Module => "the module is not ready or has a fault",
            Self::OtpSpeedViolation => "the card is not licensed for this speed",
            Self::BmcRequestDown => "requested by the BMC",
            Self::Other(number) => return write!(f, "cause {number} (ETHTOOL_LINK_EXT_STATE)"),
        })
    }
}

impl LinkState {
    /// Parses the attributes of a `ETHTOOL_MSG_LINKSTATE_GET_REPLY`.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(reply: &[u8]) -> Result<Self, Malformed> {
        let mut read = Self { up: None, sqi: None, sqi_max: None, extended: None, down_events: None };
        let (mut state, mut substate) = (None, None);
        for attribute in attributes(reply) {
            let attribute = attribute?;
            match attribute.kind {
                LINK => read.up = Some(attribute.u8("ETHTOOL_A_LINKSTATE_LINK")? != 0),
                SQI => read.sqi = Some(attribute.u32("ETHTOOL_A_LINKSTATE_SQI")?),
                SQI_MAX => read.sqi_max = Some(attribute.u32("ETHTOOL_A_LINKSTATE_SQI_MAX")?),
                EXT_STATE => state = Some(attribute.u8("ETHTOOL_A_LINKSTATE_EXT_STATE")?),
                EXT_SUBSTATE => substate = Some(attribute.u8("ETHTOOL_A_LINKSTATE_EXT_SUBSTATE")?),
                EXT_DOWN_CNT => read.down_events = Some(attribute.u32("ETHTOOL_A_LINKSTATE_EXT_DOWN_CNT")?),
                _ => {}
            }
        }
        read.extended = state
            .map(LinkExtState::from_number)
            .map(|state| ExtendedState { state, substate: substate.map(|number| state.substate(number)) });
        Ok(read)
    }
}

impl Handle {
    /// Reads whether a link is up, and why it is down; `None` if the kernel does not support it.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Malformed`], [`Error::Netlink`].
    ///
    /// # Kernel
    /// `ETHTOOL_MSG_LINKSTATE_GET` with `ETHTOOL_FLAG_STATS`. The extended state is read only from a link that is
    /// administratively up.
    pub fn link_state(&self, link: &LinkName) -> Result<Option<LinkState>, Error> {
        let reply = self.request_with_statistics(link, &LINKSTATE_GET)?;
        reply.map(|reply| LinkState::parse(&reply)).transpose().map_err(malformed(link, &LINKSTATE_GET))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_numbers_of_the_kernel() {
        assert_eq!(LinkExtState::from_number(0), LinkExtState::Autoneg);
        assert_eq!(LinkExtState::from_number(4), LinkExtState::NoCable);
        assert_eq!(LinkExtState::from_number(10), LinkExtState::Module);
        assert_eq!(LinkExtState::from_number(12), LinkExtState::BmcRequestDown);
        assert_eq!(LinkExtState::from_number(13), LinkExtState::Other(13));
    }

    #[test]
    fn every_substate_is_kept_with_or_without_a_meaning() {
        for state in LinkExtState::STATES.into_iter().chain([LinkExtState::Other(255)]) {
            for number in 0..=u8::MAX {
                let known = (1..=state.substates().len()).contains(&usize::from(number));
                let substate = state.substate(number);
                assert_eq!((substate.number, substate.meaning.is_some()), (number, known), "{state:?}");
            }
        }
    }
}
