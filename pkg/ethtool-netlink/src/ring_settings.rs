//! The settings of a link's rings and of its coalescing that only netlink has.

use std::ops::RangeFrom;

use identifiers::LinkName;
use netlink_packet_core::{DefaultNla, NLA_F_NESTED, Nla};
use serde::{Deserialize, Serialize};

use crate::{
    Error, Handle, Malformed,
    attributes::{Attribute, attributes},
    command::{COALESCE_GET, COALESCE_SET, Command, RINGS_GET, RINGS_SET},
    genl::encode,
    handle::malformed,
};

/// The attributes that the structures of `ETHTOOL_GRINGPARAM` and `ETHTOOL_GCOALESCE` do not have: from
/// `ETHTOOL_A_RINGS_RX_BUF_LEN` and `ETHTOOL_A_COALESCE_USE_CQE_MODE_TX` on.
const RINGS: RangeFrom<u16> = 10..;
const COALESCING: RangeFrom<u16> = 24..;

/// `ETHTOOL_A_COALESCE_RX_PROFILE` and `ETHTOOL_A_COALESCE_TX_PROFILE`.
const PROFILES: [u16; 2] = [29, 30];

/// Settings of a link's rings (the length of receive buffers, the split of TCP data, the size of completions, pushing) and of
/// its coalescing (whether its timer starts with a completion, aggregation of transmitted packets, profiles of adaptive
/// coalescing), as the kernel's attributes. Empty if the driver has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingSettings {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rings: Vec<u8>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    coalescing: Vec<u8>,
}

impl Handle {
    /// Reads these settings of a link.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Malformed`], [`Error::Netlink`].
    ///
    /// # Kernel
    /// `ETHTOOL_MSG_RINGS_GET` and `ETHTOOL_MSG_COALESCE_GET`.
    pub fn ring_settings(&self, link: &LinkName) -> Result<RingSettings, Error> {
        let rings = self.settings(link, &RINGS_GET, RINGS)?;
        Ok(RingSettings { rings, coalescing: self.settings(link, &COALESCE_GET, COALESCING)? })
    }

    /// Restores those of the former settings that differ. If one fails, the others are still restored.
    ///
    /// # Errors
    /// The first error.
    pub fn restore_ring_settings(&self, link: &LinkName, former: &RingSettings) -> Result<(), Error> {
        let rings = self.restore(link, [&RINGS_GET, &RINGS_SET], RINGS, &former.rings);
        rings.and(self.restore(link, [&COALESCE_GET, &COALESCE_SET], COALESCING, &former.coalescing))
    }

    fn settings(
        &self,
        link: &LinkName,
        get: &'static Command,
        kinds: RangeFrom<u16>,
    ) -> Result<Vec<u8>, Error> {
        let reply = self.request(link, get, 0, Vec::new())?.unwrap_or_default();
        Ok(encode(&read(&reply, kinds).map_err(malformed(link, get))?))
    }

    fn restore(
        &self,
        link: &LinkName,
        [get, set]: [&'static Command; 2],
        kinds: RangeFrom<u16>,
        former: &[u8],
    ) -> Result<(), Error> {
        if former.is_empty() {
            return Ok(());
        }
        let now = self.settings(link, get, kinds)?;
        let changes = changes(&now, former).map_err(malformed(link, get))?;
        if changes.is_empty() || self.change(link, set, changes.clone()).is_ok() {
            return Ok(());
        }
        // One by one, so that a setting that the driver refuses does not affect the others.
        let mut result = Ok(());
        for change in changes {
            result = result.and(self.change(link, set, vec![change]));
        }
        result
    }
}

/// Returns the attributes of these kinds. A nest has its flag, as the kernel demands it in a request.
fn read(bytes: &[u8], kinds: RangeFrom<u16>) -> Result<Vec<DefaultNla>, Malformed> {
    let mut found = Vec::new();
    for attribute in attributes(bytes) {
        let Attribute { kind, value } = attribute?;
        let flag = if PROFILES.contains(&kind) { NLA_F_NESTED } else { 0 };
        if kinds.contains(&kind) {
            found.push(DefaultNla::new(kind | flag, value.to_vec()));
        }
    }
    Ok(found)
}

/// Returns the attributes that restore what differs. Limits, which cannot be set, do not differ.
fn changes(now: &[u8], former: &[u8]) -> Result<Vec<DefaultNla>, Malformed> {
    let now = read(now, 0..)?;
    let mut former = read(former, 0..)?;
    former.retain(|former| now.iter().any(|now| now.kind() == former.kind() && now != former));
    Ok(former)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_are_restored_if_the_driver_still_has_them() {
        // RX, RX_BUF_LEN, TX_PUSH, and HDS_THRESH_MAX.
        let reply = [
            &[8, 0, 6, 0, 0, 1, 0, 0][..],
            &[8, 0, 10, 0, 0, 8, 0, 0],
            &[5, 0, 13, 0, 0, 0, 0, 0],
            &[8, 0, 18, 0, 9, 0, 0, 0],
        ];
        let former = encode(&read(&reply.concat(), RINGS).unwrap());
        assert_eq!(former, reply[1..].concat(), "without what the ioctl restores");
        let now = [reply[1], &[5, 0, 13, 0, 1, 0, 0, 0], reply[3]].concat();
        assert_eq!(encode(&changes(&now, &former).unwrap()), reply[2]);
        assert!(changes(&[], &former).unwrap().is_empty(), "another driver has none of them");
        assert_eq!(read(&[9, 0, 10, 0, 7], RINGS), Err(Malformed::Truncated));
        let profile = |value| [8, 0, 29, 0, value, 0, 0, 0];
        let nest = [8, 0, 29, 0x80, 2, 0, 0, 0];
        assert_eq!(encode(&changes(&profile(1), &profile(2)).unwrap()), nest);
    }

    #[test]
    fn a_driver_without_such_settings_has_none_and_nothing_is_restored() {
        let (handle, link) = (Handle::open().unwrap(), "lo".parse().unwrap());
        let none = handle.ring_settings(&link).unwrap();
        assert_eq!(none, RingSettings::default());
        assert_eq!(serde_json::to_string(&none).unwrap(), "{}");
        let former = RingSettings { rings: vec![5, 0, 13, 0, 1, 0, 0, 0], ..none };
        handle.restore_ring_settings(&link, &former).unwrap();
        let gone = handle.ring_settings(&"gone0".parse().unwrap());
        assert!(matches!(gone, Err(Error::NoSuchLink { .. })), "{gone:?}");
    }
}
