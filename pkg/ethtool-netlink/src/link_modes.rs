//! The speed of a link and the modes that it could run in.

use identifiers::LinkName;
use serde::Serialize;

use crate::{
    Error, Handle, Malformed,
    attributes::attributes,
    bitset::{Bit, bits},
    command::LINKMODES_GET,
    handle::malformed,
};

/// `ETHTOOL_A_LINKMODES_`.
const AUTONEG: u16 = 2;
const OURS: u16 = 3;
const PEER: u16 = 4;
const SPEED: u16 = 5;
const DUPLEX: u16 = 6;
const LANES: u16 = 9;

/// `AUTONEG_ENABLE`.
const ENABLED: u8 = 1;

/// The speed and the modes of a link.
///
/// The lists contain the kernel's names: modes such as `400000baseSR8/Full`, and abilities that are not modes, such as
/// `Autoneg`, `FIBRE`, `Pause` and `RS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkModes {
    /// Whether autonegotiation is enabled (`ETHTOOL_A_LINKMODES_AUTONEG`).
    pub autonegotiation: bool,
    /// The speed in Mb/s (`ETHTOOL_A_LINKMODES_SPEED`); `None` if it is unknown, as on a link that is down. Some drivers
    /// still report the former speed of a link that is down.
    pub speed: Option<u32>,
    /// The duplex mode (`ETHTOOL_A_LINKMODES_DUPLEX`); `None` if it is unknown.
    pub duplex: Option<Duplex>,
    /// The number of lanes (`ETHTOOL_A_LINKMODES_LANES`, Linux 5.12); `None` if the driver does not report it.
    pub lanes: Option<u32>,
    /// The modes that the port supports: the mask of `ETHTOOL_A_LINKMODES_OURS`. Some drivers leave out those that the
    /// module or the cable cannot run in.
    pub supported: Vec<String>,
    /// The modes that the port advertises: the value of `ETHTOOL_A_LINKMODES_OURS`.
    pub advertised: Vec<String>,
    /// The modes that the link partner advertised (`ETHTOOL_A_LINKMODES_PEER`); empty without autonegotiation.
    pub peer: Vec<String>,
    /// The highest speed of a supported mode in Mb/s; `None` if no mode with a speed is listed, as for a virtual link.
    pub highest_supported_speed: Option<u32>,
}

/// A duplex mode (`DUPLEX_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Duplex {
    /// Both sides send in turn.
    Half,
    /// Both sides send at the same time.
    Full,
}

impl LinkModes {
    /// Parses the attributes of a `ETHTOOL_MSG_LINKMODES_GET_REPLY`.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(reply: &[u8]) -> Result<Self, Malformed> {
        let (mut autonegotiation, mut speed, mut duplex, mut lanes) = (false, None, None, None);
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for attribute in attributes(reply) {
            let attribute = attribute?;
            match attribute.kind {
                AUTONEG => autonegotiation = attribute.u8("ETHTOOL_A_LINKMODES_AUTONEG")? == ENABLED,
                OURS => ours = bits(&attribute)?,
                PEER => peer = bits(&attribute)?,
                SPEED => speed = known_speed(attribute.u32("ETHTOOL_A_LINKMODES_SPEED")?),
                DUPLEX => duplex = known_duplex(attribute.u8("ETHTOOL_A_LINKMODES_DUPLEX")?),
                LANES => lanes = Some(attribute.u32("ETHTOOL_A_LINKMODES_LANES")?),
                _ => {}
            }
        }
        let supported = names(&ours, |_| true);
        let highest_supported_speed = supported.iter().filter_map(|mode| speed_of(mode)).max();
        let (advertised, peer) = (names(&ours, |bit| bit.set), names(&peer, |bit| bit.set));
        Ok(Self {
            autonegotiation,
            speed,
            duplex,
            lanes,
            supported,
            advertised,
            peer,
            highest_supported_speed,
        })
    }

    /// Whether the link runs at a lower speed than its port supports, as after a bad cable or a wrong setting of the switch.
    pub fn is_below_highest_speed(&self) -> bool {
        matches!((self.speed, self.highest_supported_speed), (Some(speed), Some(highest)) if speed < highest)
    }
}

impl Handle {
    /// Reads a link's speed and modes; `None` if the driver does not report them.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Malformed`], [`Error::Netlink`].
    ///
    /// # Kernel
    /// `ETHTOOL_MSG_LINKMODES_GET`.
    pub fn link_modes(&self, link: &LinkName) -> Result<Option<LinkModes>, Error> {
        let reply = self.request(link, &LINKMODES_GET, 0, Vec::new())?;
        reply.map(|reply| LinkModes::parse(&reply)).transpose().map_err(malformed(link, &LINKMODES_GET))
    }
}

fn names(bits: &[Bit], listed: impl Fn(&Bit) -> bool) -> Vec<String> {
    bits.iter().filter(|bit| listed(bit)).map(|bit| bit.name.clone()).collect()
}

/// Returns the speed of a mode in Mb/s: `400000baseSR8/Full` has 400000.
fn speed_of(mode: &str) -> Option<u32> {
    mode.split_once("base")?.0.parse().ok()
}

/// `SPEED_UNKNOWN` is all ones, and some drivers report 0 instead. The kernel allows speeds up to `INT_MAX`.
fn known_speed(speed: u32) -> Option<u32> {
    Some(speed).filter(|speed| matches!(*speed, 1..=0x7fff_ffff))
}

fn known_duplex(duplex: u8) -> Option<Duplex> {
    match duplex {
        0 => Some(Duplex::Half),
        1 => Some(Duplex::Full),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_a_mode_is_in_its_name() {
        assert_eq!(speed_of("800000baseDR8_2/Full"), Some(800_000));
        assert_eq!(speed_of("10000baseR_FEC"), Some(10_000));
        for ability in ["Autoneg", "FIBRE", "BASER", "Asym_Pause", "baseT", ""] {
            assert_eq!(speed_of(ability), None, "{ability}");
        }
    }

    #[test]
    fn a_speed_that_is_not_known_is_none() {
        assert_eq!([0, u32::MAX, 0x8000_0000, 400_000].map(known_speed), [None, None, None, Some(400_000)]);
    }

    #[test]
    fn a_reply_without_attributes_has_no_modes() {
        let modes = LinkModes::parse(&[]).unwrap();
        assert!(modes.supported.is_empty() && !modes.is_below_highest_speed());
    }
}
