//! Pause frames (IEEE 802.3 Annex 31B), not those of a priority (PFC).

use identifiers::LinkName;
use serde::Serialize;

use crate::{
    Error, Handle, Malformed,
    attributes::{Attribute, attributes},
    command::PAUSE_GET,
    handle::malformed,
};

/// `ETHTOOL_A_PAUSE_`.
const AUTONEG: u16 = 2;
const RX: u16 = 3;
const TX: u16 = 4;
const STATS: u16 = 5;
/// `ETHTOOL_A_PAUSE_STAT_`.
const STAT_TX_FRAMES: u16 = 2;
const STAT_RX_FRAMES: u16 = 3;

/// The pause settings of a link, and how often pause frames were sent.
///
/// These are global pause frames. A rail with PFC has them disabled, and its counters are per priority: see the driver's
/// own counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Whether pause is negotiated (`ETHTOOL_A_PAUSE_AUTONEG`). Then `rx` and `tx` are what the port advertises.
    pub autonegotiation: bool,
    /// Whether received pause frames stop the transmitter (`ETHTOOL_A_PAUSE_RX`).
    pub rx: bool,
    /// Whether pause frames are sent when the receiver is full (`ETHTOOL_A_PAUSE_TX`).
    pub tx: bool,
    /// The counters (`ETHTOOL_A_PAUSE_STATS`, Linux 5.10).
    pub statistics: PauseStatistics,
}

/// The counters of pause frames; `None` if the driver does not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseStatistics {
    /// Frames sent (`ETHTOOL_A_PAUSE_STAT_TX_FRAMES`, aPAUSEMACCtrlFramesTransmitted).
    pub tx_frames: Option<u64>,
    /// Frames received (`ETHTOOL_A_PAUSE_STAT_RX_FRAMES`, aPAUSEMACCtrlFramesReceived).
    pub rx_frames: Option<u64>,
}

impl Pause {
    /// Parses the attributes of a `ETHTOOL_MSG_PAUSE_GET_REPLY`.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(reply: &[u8]) -> Result<Self, Malformed> {
        let (mut autonegotiation, mut rx, mut tx) = (None, None, None);
        let mut statistics = PauseStatistics::default();
        for attribute in attributes(reply) {
            let attribute = attribute?;
            match attribute.kind {
                AUTONEG => autonegotiation = Some(attribute.u8("ETHTOOL_A_PAUSE_AUTONEG")? != 0),
                RX => rx = Some(attribute.u8("ETHTOOL_A_PAUSE_RX")? != 0),
                TX => tx = Some(attribute.u8("ETHTOOL_A_PAUSE_TX")? != 0),
                STATS => statistics = PauseStatistics::parse(&attribute)?,
                _ => {}
            }
        }
        Ok(Self {
            autonegotiation: autonegotiation
                .ok_or(Malformed::Missing { attribute: "ETHTOOL_A_PAUSE_AUTONEG" })?,
            rx: rx.ok_or(Malformed::Missing { attribute: "ETHTOOL_A_PAUSE_RX" })?,
            tx: tx.ok_or(Malformed::Missing { attribute: "ETHTOOL_A_PAUSE_TX" })?,
            statistics,
        })
    }
}

impl PauseStatistics {
    fn parse(nest: &Attribute<'_>) -> Result<Self, Malformed> {
        let mut statistics = Self::default();
        for attribute in nest.nested() {
            let attribute = attribute?;
            match attribute.kind {
                STAT_TX_FRAMES => {
                    statistics.tx_frames = Some(attribute.u64("ETHTOOL_A_PAUSE_STAT_TX_FRAMES")?);
                }
                STAT_RX_FRAMES => {
                    statistics.rx_frames = Some(attribute.u64("ETHTOOL_A_PAUSE_STAT_RX_FRAMES")?);
                }
                _ => {}
            }
        }
        Ok(statistics)
    }
}

impl Handle {
    /// Reads a link's pause settings and counters; `None` if the driver has no pause frames.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Malformed`], [`Error::Netlink`].
    ///
    /// # Kernel
    /// `ETHTOOL_MSG_PAUSE_GET` with `ETHTOOL_FLAG_STATS`.
    pub fn pause(&self, link: &LinkName) -> Result<Option<Pause>, Error> {
        let reply = self.request_with_statistics(link, &PAUSE_GET)?;
        reply.map(|reply| Pause::parse(&reply)).transpose().map_err(malformed(link, &PAUSE_GET))
    }
}
