//! Forward error correction (FEC).

use std::fmt::{self, Display};

use identifiers::LinkName;
use serde::Serialize;

use crate::{
    Error, Handle, Malformed,
    attributes::{Attribute, attributes},
    bitset::bits,
    command::FEC_GET,
    handle::malformed,
};

/// `ETHTOOL_A_FEC_`.
const MODES: u16 = 2;
const AUTO: u16 = 3;
const ACTIVE: u16 = 4;
const STATS: u16 = 5;
/// `ETHTOOL_A_FEC_STAT_`.
const STAT_CORRECTED: u16 = 2;
const STAT_UNCORR: u16 = 3;
const STAT_CORR_BITS: u16 = 4;
const STAT_HIST: u16 = 5;
/// `ETHTOOL_A_FEC_HIST_`.
const HIST_BIN_LOW: u16 = 2;
const HIST_BIN_HIGH: u16 = 3;
const HIST_BIN_VAL: u16 = 4;
const HIST_BIN_VAL_PER_LANE: u16 = 5;

/// The FEC of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fec {
    /// The mode that the link runs in (`ETHTOOL_A_FEC_ACTIVE`); `None` if the link is down on some drivers, or if its mode
    /// has no FEC to configure.
    pub active: Option<FecMode>,
    /// Whether the driver selects the mode by the module and the link mode (`ETHTOOL_A_FEC_AUTO`). This is not
    /// autonegotiation.
    pub auto: bool,
    /// The configured modes (`ETHTOOL_A_FEC_MODES`); some drivers list the supported ones.
    pub modes: Vec<FecMode>,
    /// The counters (`ETHTOOL_A_FEC_STATS`).
    pub statistics: FecStatistics,
}

/// A FEC mode (`ETHTOOL_LINK_MODE_FEC_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FecMode {
    /// No FEC (`FEC_NONE`).
    Off,
    /// Reed-Solomon, both RS(528,514) and RS(544,514) (`FEC_RS`).
    Rs,
    /// Fire code of IEEE 802.3 clause 74 (`FEC_BASER`).
    BaseR,
    /// Low-latency Reed-Solomon, RS(272,257) (`FEC_LLRS`).
    Llrs,
    /// A mode of a newer kernel, by the number of its bit in the link modes.
    Other(u32),
}

impl Display for FecMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Rs => f.write_str("RS"),
            Self::BaseR => f.write_str("BaseR"),
            Self::Llrs => f.write_str("LLRS"),
            Self::Other(bit) => write!(f, "link mode {bit}"),
        }
    }
}

/// The counters of a link's FEC; `None` if the driver does not report them. Some begin with the card's reset, some with the
/// driver.
///
/// Corrected blocks are normal with modes that need FEC, such as all with PAM4. An uncorrectable block is a lost frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FecStatistics {
    /// Blocks with errors that were corrected (`ETHTOOL_A_FEC_STAT_CORRECTED`).
    pub corrected_blocks: Option<FecCounter>,
    /// Blocks with more errors than can be corrected (`ETHTOOL_A_FEC_STAT_UNCORR`).
    pub uncorrectable_blocks: Option<FecCounter>,
    /// Bits that were corrected (`ETHTOOL_A_FEC_STAT_CORR_BITS`).
    pub corrected_bits: Option<FecCounter>,
    /// Blocks by their number of errors (`ETHTOOL_A_FEC_STAT_HIST`, Linux 6.18); empty if the driver does not report them.
    pub histogram: Vec<FecBin>,
}

/// A counter of FEC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FecCounter {
    /// The sum of all lanes.
    pub total: u64,
    /// The lanes, from lane 0; empty if the driver reports only the sum.
    pub lanes: Vec<u64>,
}

/// A bin of the histogram of errors in a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FecBin {
    /// The lowest number of errors (symbols with RS) of this bin.
    pub low: u32,
    /// The highest number of errors of this bin.
    pub high: u32,
    /// The blocks with that many errors.
    pub blocks: u64,
    /// The blocks of each lane, from lane 0; empty if the driver reports only the sum.
    pub lanes: Vec<u64>,
}

impl FecMode {
    fn from_link_mode(bit: u32) -> Self {
        match bit {
            49 => Self::Off,
            50 => Self::Rs,
            51 => Self::BaseR,
            74 => Self::Llrs,
            other => Self::Other(other),
        }
    }
}

impl Fec {
    /// Parses the attributes of a `ETHTOOL_MSG_FEC_GET_REPLY`.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(reply: &[u8]) -> Result<Self, Malformed> {
        let (mut active, mut auto, mut modes) = (None, None, None);
        let mut statistics = FecStatistics::default();
        for attribute in attributes(reply) {
            let attribute = attribute?;
            match attribute.kind {
                MODES => modes = Some(fec_modes(&attribute)?),
                AUTO => auto = Some(attribute.u8("ETHTOOL_A_FEC_AUTO")? != 0),
                ACTIVE => active = Some(FecMode::from_link_mode(attribute.u32("ETHTOOL_A_FEC_ACTIVE")?)),
                STATS => statistics = FecStatistics::parse(&attribute)?,
                _ => {}
            }
        }
        let auto = auto.ok_or(Malformed::Missing { attribute: "ETHTOOL_A_FEC_AUTO" })?;
        let modes = modes.ok_or(Malformed::Missing { attribute: "ETHTOOL_A_FEC_MODES" })?;
        Ok(Self { active, auto, modes, statistics })
    }
}

fn fec_modes(bitset: &Attribute<'_>) -> Result<Vec<FecMode>, Malformed> {
    let set = bits(bitset)?.into_iter().filter(|bit| bit.set);
    Ok(set.map(|bit| FecMode::from_link_mode(bit.index)).collect())
}

impl FecStatistics {
    fn parse(nest: &Attribute<'_>) -> Result<Self, Malformed> {
        let mut statistics = Self::default();
        for attribute in nest.nested() {
            let attribute = attribute?;
            match attribute.kind {
                STAT_CORRECTED => {
                    statistics.corrected_blocks = counter(attribute.u64s("ETHTOOL_A_FEC_STAT_CORRECTED")?);
                }
                STAT_UNCORR => {
                    statistics.uncorrectable_blocks = counter(attribute.u64s("ETHTOOL_A_FEC_STAT_UNCORR")?);
                }
                STAT_CORR_BITS => {
                    statistics.corrected_bits = counter(attribute.u64s("ETHTOOL_A_FEC_STAT_CORR_BITS")?);
                }
                STAT_HIST => statistics.histogram.push(FecBin::parse(&attribute)?),
                _ => {}
            }
        }
        Ok(statistics)
    }
}

/// Reads a counter: the sum, then the lanes. The kernel sends an empty array if the driver does not report it.
fn counter(mut numbers: Vec<u64>) -> Option<FecCounter> {
    if numbers.is_empty() {
        return None;
    }
    let lanes = numbers.split_off(1);
    numbers.first().map(|total| FecCounter { total: *total, lanes })
}

impl FecBin {
    fn parse(nest: &Attribute<'_>) -> Result<Self, Malformed> {
        let mut bin = Self { low: 0, high: 0, blocks: 0, lanes: Vec::new() };
        for attribute in nest.nested() {
            let attribute = attribute?;
            match attribute.kind {
                HIST_BIN_LOW => bin.low = attribute.u32("ETHTOOL_A_FEC_HIST_BIN_LOW")?,
                HIST_BIN_HIGH => bin.high = attribute.u32("ETHTOOL_A_FEC_HIST_BIN_HIGH")?,
                HIST_BIN_VAL => bin.blocks = attribute.uint("ETHTOOL_A_FEC_HIST_BIN_VAL")?,
                HIST_BIN_VAL_PER_LANE => {
                    bin.lanes = attribute.u64s("ETHTOOL_A_FEC_HIST_BIN_VAL_PER_LANE")?;
                }
                _ => {}
            }
        }
        Ok(bin)
    }
}

impl Handle {
    /// Reads a link's FEC and its counters; `None` if the driver has no FEC, or not for this link mode.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Malformed`], [`Error::Netlink`].
    ///
    /// # Kernel
    /// `ETHTOOL_MSG_FEC_GET` with `ETHTOOL_FLAG_STATS`.
    pub fn fec(&self, link: &LinkName) -> Result<Option<Fec>, Error> {
        let reply = self.request_with_statistics(link, &FEC_GET)?;
        reply.map(|reply| Fec::parse(&reply)).transpose().map_err(malformed(link, &FEC_GET))
    }
}
