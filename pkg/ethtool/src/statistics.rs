//! Driver statistics, as `ethtool -S` shows them.

use identifiers::LinkName;

use crate::{
    Error, EthtoolSocket,
    socket::{EthtoolCommand, number, put},
};

const GSTRINGS: EthtoolCommand = EthtoolCommand { number: 0x1b, name: "ETHTOOL_GSTRINGS" };
const GSTATS: EthtoolCommand = EthtoolCommand { number: 0x1d, name: "ETHTOOL_GSTATS" };
const GSSET_INFO: EthtoolCommand = EthtoolCommand { number: 0x37, name: "ETHTOOL_GSSET_INFO" };

/// `ETH_SS_STATS`: the string set with the names of the statistics.
const STATISTICS: u32 = 1;

/// `ETH_GSTRING_LEN`, in bytes.
const NAME: usize = 32;
const VALUE: usize = size_of::<u64>();

/// `struct ethtool_sset_info` for one string set.
mod sets {
    pub(super) const LENGTH: usize = 20;
    pub(super) const MASK: usize = 8;
    pub(super) const COUNT: usize = 16;
}

/// `struct ethtool_gstrings`.
mod strings {
    pub(super) const SET: usize = 4;
    pub(super) const COUNT: usize = 8;
    pub(super) const DATA: usize = 12;
}

/// `struct ethtool_stats`.
mod stats {
    pub(super) const COUNT: usize = 4;
    pub(super) const DATA: usize = 8;
}

/// The set of statistics changes when the link is configured, once or twice in a row.
const ATTEMPTS: usize = 5;

/// The names of a link's statistics, in the driver's order. A driver may use one twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatNames {
    /// As the kernel writes them, [`NAME`] bytes each.
    raw: Vec<u8>,
    texts: Vec<String>,
}

impl StatNames {
    fn of(raw: &[u8]) -> Self {
        Self { raw: raw.to_owned(), texts: raw.chunks_exact(NAME).map(text).collect() }
    }

    /// Returns the names, such as `rx_vport_rdma_unicast_packets`.
    pub fn as_slice(&self) -> &[String] {
        &self.texts
    }

    fn count(&self) -> u32 {
        u32::try_from(self.texts.len()).unwrap_or(u32::MAX)
    }
}

/// Decodes a name. It ends with a zero byte unless it has [`NAME`] bytes.
fn text(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

impl EthtoolSocket {
    /// Reads the names and values that `ethtool -S LINK` shows, in the driver's order; empty if the driver has none.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Refused`], [`Error::Unsteady`].
    pub fn statistics(&self, link: &LinkName) -> Result<Vec<(String, u64)>, Error> {
        for _ in 0..ATTEMPTS {
            let names = self.names(link)?;
            match self.values(link, &names) {
                Ok(Some(values)) => return Ok(names.texts.into_iter().zip(values).collect()),
                Ok(None) => (),
                Err(error) if error.is_unsupported() => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
        Err(Error::Unsteady { link: link.clone() })
    }

    /// Reads the names only, for [`EthtoolSocket::values`]; empty if there are none.
    ///
    /// # Errors
    /// Those of [`EthtoolSocket::statistics`].
    pub fn names(&self, link: &LinkName) -> Result<StatNames, Error> {
        for _ in 0..ATTEMPTS {
            let count = self.count(link)?;
            if let Some(raw) = self.strings(link, count)? {
                return Ok(StatNames::of(&raw));
            }
        }
        Err(Error::Unsteady { link: link.clone() })
    }

    /// Reads the values of these statistics, one for each name. `None` if the driver has other statistics now, for example
    /// after a change of the number of queues or of the priorities with PFC; then the names must be read again.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Refused`].
    pub fn values(&self, link: &LinkName, names: &StatNames) -> Result<Option<Vec<u64>>, Error> {
        let Some(values) = self.stats(link, names.count())? else { return Ok(None) };
        // The number can be the same with other names. Reading names is cheap: it does not access the hardware.
        let now = self.strings(link, self.count(link)?)?;
        Ok(now.filter(|now| *now == names.raw).map(|_| values))
    }

    /// Reads the current number of statistics.
    fn count(&self, link: &LinkName) -> Result<u32, Error> {
        // The mask is a u64 in native byte order: on big-endian machines the lower half is the second word.
        let mask = (1u64 << STATISTICS).to_ne_bytes();
        let fill = |request: &mut [u8]| request[sets::MASK..sets::COUNT].copy_from_slice(&mask);
        let reply = self.request(link, GSSET_INFO, sets::LENGTH, fill)?;
        // The kernel clears the bit of a set that the driver does not have.
        let reply = reply.filter(|reply| reply[sets::MASK..sets::COUNT] == mask);
        Ok(reply.map_or(0, |reply| number(&reply, sets::COUNT)))
    }

    /// Reads the names as the kernel writes them; `None` if there are not `count` of them.
    fn strings(&self, link: &LinkName, count: u32) -> Result<Option<Vec<u8>>, Error> {
        if count == 0 {
            return Ok(Some(Vec::new()));
        }
        let room = strings::DATA + count as usize * NAME;
        let reply = self.request(link, GSTRINGS, room, |request| {
            put(request, strings::SET, STATISTICS);
            put(request, strings::COUNT, count);
        })?;
        // Linux 6.19 and later reply with 0 instead of another count.
        let reply = reply.filter(|reply| number(reply, strings::COUNT) == count);
        Ok(reply.map(|reply| reply[strings::DATA..].to_owned()))
    }

    /// Reads the values; `None` if there are not `count` of them.
    fn stats(&self, link: &LinkName, count: u32) -> Result<Option<Vec<u64>>, Error> {
        if count == 0 {
            return Ok(Some(Vec::new()));
        }
        let room = stats::DATA + count as usize * VALUE;
        let reply = self.request(link, GSTATS, room, |request| put(request, stats::COUNT, count))?;
        let reply = reply.filter(|reply| number(reply, stats::COUNT) == count);
        Ok(reply.map(|reply| values(&reply[stats::DATA..])))
    }
}

fn values(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<VALUE>().0.iter().map(|value| u64::from_ne_bytes(*value)).collect()
}

#[cfg(test)]
mod tests {
    use testkit::{Observe, TestNode};

    use super::*;

    #[test]
    fn renamed_statistics_of_the_same_number_are_detected() {
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        let (socket, link) = (EthtoolSocket::open().unwrap(), "v0".parse().unwrap());
        let mut names = socket.names(&link).unwrap();
        assert_eq!(socket.values(&link, &names).unwrap().unwrap().len(), names.as_slice().len());
        names.raw[0] ^= 1;
        assert_eq!(socket.values(&link, &names), Ok(None));
    }

    #[test]
    fn a_reply_with_another_count_is_none() {
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        let (socket, link) = (EthtoolSocket::open().unwrap(), "v0".parse().unwrap());
        let count = socket.count(&link).unwrap();
        for other in [count - 1, count + 1, 10_000] {
            assert_eq!(socket.strings(&link, other), Ok(None), "{other} of {count}");
            assert_eq!(socket.stats(&link, other), Ok(None), "{other} of {count}");
        }
    }

    #[test]
    fn a_name_can_have_all_bytes_and_any_byte() {
        let mut raw = vec![b'x'; NAME];
        raw.extend([b"rx_\xffy\0 rest".as_slice(), &[0; NAME - 11]].concat());
        let names = StatNames::of(&raw);
        assert_eq!(names.as_slice(), ["x".repeat(NAME), "rx_\u{fffd}y".to_owned()]);
        assert_eq!(names.count(), 2);
    }
}
