//! The counters of the PHY, the MAC and RMON, which have one meaning for all drivers.

use identifiers::LinkName;
use netlink_packet_core::{DefaultNla, NLA_F_NESTED};
use serde::Serialize;

use crate::{
    Error, Handle, Malformed,
    attributes::{Attribute, attributes},
    command::STATS_GET,
    genl::encode,
    handle::malformed,
};

/// `ETHTOOL_A_STATS_`.
const GROUPS: u16 = 3;
const GRP: u16 = 4;
/// `ETHTOOL_A_STATS_GRP_`.
const GRP_ID: u16 = 2;
const GRP_STAT: u16 = 4;
const GRP_HIST_RX: u16 = 5;
const GRP_HIST_TX: u16 = 6;
const GRP_HIST_BKT_LOW: u16 = 7;
const GRP_HIST_BKT_HI: u16 = 8;
const GRP_HIST_VAL: u16 = 9;
/// `ETHTOOL_STATS_`, the groups.
const ETH_PHY: u32 = 0;
const ETH_MAC: u32 = 1;
const RMON: u32 = 3;
/// `ETHTOOL_A_BITSET_`.
const BITSET_NOMASK: u16 = 1;
const BITSET_SIZE: u16 = 2;
const BITSET_VALUE: u16 = 4;

/// The standard counters of a link; `None` if the driver does not report one.
///
/// The comments give the names in IEEE 802.3 clause 30 and in RFC 2819.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkStatistics {
    /// aSymbolErrorDuringCarrier: the receiver saw invalid symbols.
    pub symbol_errors: Option<u64>,
    /// aFramesTransmittedOK.
    pub frames_transmitted: Option<u64>,
    /// aFramesReceivedOK.
    pub frames_received: Option<u64>,
    /// aOctetsTransmittedOK.
    pub octets_transmitted: Option<u64>,
    /// aOctetsReceivedOK.
    pub octets_received: Option<u64>,
    /// aFrameCheckSequenceErrors: received frames with a wrong checksum.
    pub fcs_errors: Option<u64>,
    /// aAlignmentErrors.
    pub alignment_errors: Option<u64>,
    /// aFramesLostDueToIntMACXmitError.
    pub internal_transmit_errors: Option<u64>,
    /// aFramesLostDueToIntMACRcvError.
    pub internal_receive_errors: Option<u64>,
    /// aInRangeLengthErrors.
    pub in_range_length_errors: Option<u64>,
    /// aOutOfRangeLengthField.
    pub out_of_range_length_fields: Option<u64>,
    /// aFrameTooLongErrors.
    pub too_long_frames: Option<u64>,
    /// etherStatsUndersizePkts.
    pub undersize_packets: Option<u64>,
    /// etherStatsOversizePkts.
    pub oversize_packets: Option<u64>,
    /// etherStatsFragments.
    pub fragments: Option<u64>,
    /// etherStatsJabbers.
    pub jabbers: Option<u64>,
    /// Received packets by size (`ETHTOOL_A_STATS_GRP_HIST_RX`).
    pub received_sizes: Vec<SizeBucket>,
    /// Transmitted packets by size (`ETHTOOL_A_STATS_GRP_HIST_TX`).
    pub transmitted_sizes: Vec<SizeBucket>,
}

/// How many packets had a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SizeBucket {
    /// The smallest size in bytes.
    pub low: u32,
    /// The largest size in bytes; 0 means without a limit.
    pub high: u32,
    /// The number of packets.
    pub packets: u64,
}

impl LinkStatistics {
    /// Parses the attributes of a `ETHTOOL_MSG_STATS_GET_REPLY`.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(reply: &[u8]) -> Result<Self, Malformed> {
        let mut statistics = Self::default();
        for attribute in attributes(reply) {
            let attribute = attribute?;
            if attribute.kind == GRP {
                statistics.read_group(&attribute)?;
            }
        }
        Ok(statistics)
    }

    fn read_group(&mut self, group: &Attribute<'_>) -> Result<(), Malformed> {
        let mut id = None;
        for attribute in group.nested() {
            let attribute = attribute?;
            match attribute.kind {
                GRP_ID => id = Some(attribute.u32("ETHTOOL_A_STATS_GRP_ID")?),
                GRP_STAT => {
                    // The kernel sends the number of the group first.
                    let id = id.ok_or(Malformed::Missing { attribute: "ETHTOOL_A_STATS_GRP_ID" })?;
                    self.read_counters(id, &attribute)?;
                }
                GRP_HIST_RX => self.received_sizes.push(SizeBucket::parse(&attribute)?),
                GRP_HIST_TX => self.transmitted_sizes.push(SizeBucket::parse(&attribute)?),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_counters(&mut self, group: u32, nest: &Attribute<'_>) -> Result<(), Malformed> {
        for attribute in nest.nested() {
            let attribute = attribute?;
            if let Some(counter) = self.counter(group, attribute.kind) {
                *counter = Some(attribute.u64("a counter of ETHTOOL_A_STATS_GRP_STAT")?);
            }
        }
        Ok(())
    }

    /// The place of a counter with the number that `ETHTOOL_A_STATS_ETH_PHY_`, `_ETH_MAC_` or `_RMON_` gives it.
    fn counter(&mut self, group: u32, number: u16) -> Option<&mut Option<u64>> {
        Some(match (group, number) {
            (ETH_PHY, 0) => &mut self.symbol_errors,
            (ETH_MAC, 0) => &mut self.frames_transmitted,
            (ETH_MAC, 3) => &mut self.frames_received,
            (ETH_MAC, 4) => &mut self.fcs_errors,
            (ETH_MAC, 5) => &mut self.alignment_errors,
            (ETH_MAC, 6) => &mut self.octets_transmitted,
            (ETH_MAC, 10) => &mut self.internal_transmit_errors,
            (ETH_MAC, 12) => &mut self.octets_received,
            (ETH_MAC, 13) => &mut self.internal_receive_errors,
            (ETH_MAC, 19) => &mut self.in_range_length_errors,
            (ETH_MAC, 20) => &mut self.out_of_range_length_fields,
            (ETH_MAC, 21) => &mut self.too_long_frames,
            (RMON, 0) => &mut self.undersize_packets,
            (RMON, 1) => &mut self.oversize_packets,
            (RMON, 2) => &mut self.fragments,
            (RMON, 3) => &mut self.jabbers,
            _ => return None,
        })
    }
}

impl SizeBucket {
    fn parse(nest: &Attribute<'_>) -> Result<Self, Malformed> {
        let mut bucket = Self { low: 0, high: 0, packets: 0 };
        for attribute in nest.nested() {
            let attribute = attribute?;
            match attribute.kind {
                GRP_HIST_BKT_LOW => bucket.low = attribute.u32("ETHTOOL_A_STATS_GRP_HIST_BKT_LOW")?,
                GRP_HIST_BKT_HI => bucket.high = attribute.u32("ETHTOOL_A_STATS_GRP_HIST_BKT_HI")?,
                GRP_HIST_VAL => bucket.packets = attribute.u64("ETHTOOL_A_STATS_GRP_HIST_VAL")?,
                _ => {}
            }
        }
        Ok(bucket)
    }
}

impl Handle {
    /// Reads a link's standard counters; `None` if the driver reports none of them.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Malformed`], [`Error::Netlink`].
    ///
    /// # Kernel
    /// `ETHTOOL_MSG_STATS_GET` with the groups `eth-phy`, `eth-mac` and `rmon`. The kernel replies for any driver, with
    /// empty groups.
    pub fn statistics(&self, link: &LinkName) -> Result<Option<LinkStatistics>, Error> {
        let Some(reply) = self.request(link, &STATS_GET, 0, vec![groups()])? else { return Ok(None) };
        let statistics = LinkStatistics::parse(&reply).map_err(malformed(link, &STATS_GET))?;
        Ok(Some(statistics).filter(|statistics| *statistics != LinkStatistics::default()))
    }
}

/// The requested groups as a compact bit set, which may be sent in any case.
fn groups() -> DefaultNla {
    let (size, value) = (RMON + 1, 1_u32 << ETH_PHY | 1 << ETH_MAC | 1 << RMON);
    let set = [
        DefaultNla::new(BITSET_NOMASK, Vec::new()),
        DefaultNla::new(BITSET_SIZE, size.to_ne_bytes().to_vec()),
        DefaultNla::new(BITSET_VALUE, value.to_ne_bytes().to_vec()),
    ];
    DefaultNla::new(GROUPS | NLA_F_NESTED, encode(&set))
}
