//! The statistics of a driver: `ethtool -S`.

use identifiers::LinkName;

use crate::{
    Error, EthtoolSocket,
    socket::{EthtoolCommand, number, put},
};

const GSTRINGS: EthtoolCommand = EthtoolCommand { number: 0x1b, name: "ETHTOOL_GSTRINGS" };
const GSTATS: EthtoolCommand = EthtoolCommand { number: 0x1d, name: "ETHTOOL_GSTATS" };
const GSSET_INFO: EthtoolCommand = EthtoolCommand { number: 0x37, name: "ETHTOOL_GSSET_INFO" };

/// `ETH_SS_STATS`: of the sets of strings that a driver has, the names of its statistics.
const STATISTICS: u32 = 1;

/// `ETH_GSTRING_LEN`.
const NAME: usize = 32;
const VALUE: usize = size_of::<u64>();

/// `struct ethtool_sset_info` with one length.
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

/// Statistics that change while they are read do so because somebody configures the link: once or twice.
const ATTEMPTS: usize = 5;

/// The names of a link's statistics, in the driver's order. A driver may use one twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatNames {
    /// As the kernel writes them: [`NAME`] bytes each.
    raw: Vec<u8>,
    texts: Vec<String>,
}

impl StatNames {
    fn of(raw: &[u8]) -> Self {
        Self { raw: raw.to_owned(), texts: raw.chunks_exact(NAME).map(text).collect() }
    }

    /// The names.
    pub fn as_slice(&self) -> &[String] {
        &self.texts
    }

    fn count(&self) -> u32 {
        u32::try_from(self.texts.len()).unwrap_or(u32::MAX)
    }
}

/// A name ends with a zero, unless it takes all its bytes.
fn text(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

impl EthtoolSocket {
    /// The names and values that `ethtool -S LINK` shows, in the driver's order; empty if it has none.
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

    /// The names only, for those who keep them; empty if there are none.
    ///
    /// # Errors
    /// As of [`EthtoolSocket::statistics`].
    pub fn names(&self, link: &LinkName) -> Result<StatNames, Error> {
        for _ in 0..ATTEMPTS {
            let count = self.count(link)?;
            if let Some(raw) = self.strings(link, count)? {
                return Ok(StatNames::of(&raw));
            }
        }
        Err(Error::Unsteady { link: link.clone() })
    }

    /// The values of these statistics, one for each name; `None` if the driver has others by now, as after a change
    /// of the number of queues or of the priorities with PFC. Read the names again then.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Refused`].
    pub fn values(&self, link: &LinkName, names: &StatNames) -> Result<Option<Vec<u64>>, Error> {
        let Some(values) = self.stats(link, names.count())? else { return Ok(None) };
        // Others may be as many. Their names cost the driver nothing: it need not ask the hardware for them.
        let now = self.strings(link, self.count(link)?)?;
        Ok(now.filter(|now| *now == names.raw).map(|_| values))
    }

    /// How many statistics there are now.
    fn count(&self, link: &LinkName) -> Result<u32, Error> {
        // The mask is a u64, of which the first half in memory need not be the lower one.
        let mask = (1u64 << STATISTICS).to_ne_bytes();
        let fill = |request: &mut [u8]| request[sets::MASK..sets::COUNT].copy_from_slice(&mask);
        let answer = self.request(link, GSSET_INFO, sets::LENGTH, fill)?;
        // The mask that comes back has no bit of a set that the driver does not have.
        let answer = answer.filter(|answer| answer[sets::MASK..sets::COUNT] == mask);
        Ok(answer.map_or(0, |answer| number(&answer, sets::COUNT)))
    }

    /// The names as the kernel writes them; `None` if they are not so many any more.
    fn strings(&self, link: &LinkName, count: u32) -> Result<Option<Vec<u8>>, Error> {
        if count == 0 {
            return Ok(Some(Vec::new()));
        }
        let room = strings::DATA + count as usize * NAME;
        let answer = self.request(link, GSTRINGS, room, |request| {
            put(request, strings::SET, STATISTICS);
            put(request, strings::COUNT, count);
        })?;
        // A kernel from 6.19 on answers with 0 instead of another number.
        let answer = answer.filter(|answer| number(answer, strings::COUNT) == count);
        Ok(answer.map(|answer| answer[strings::DATA..].to_owned()))
    }

    /// The values; `None` if they are not so many any more.
    fn stats(&self, link: &LinkName, count: u32) -> Result<Option<Vec<u64>>, Error> {
        if count == 0 {
            return Ok(Some(Vec::new()));
        }
        let room = stats::DATA + count as usize * VALUE;
        let answer = self.request(link, GSTATS, room, |request| put(request, stats::COUNT, count))?;
        let answer = answer.filter(|answer| number(answer, stats::COUNT) == count);
        Ok(answer.map(|answer| values(&answer[stats::DATA..])))
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
    fn other_statistics_of_the_same_number_are_noticed() {
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        let (socket, link) = (EthtoolSocket::open().unwrap(), "v0".parse().unwrap());
        let mut names = socket.names(&link).unwrap();
        assert_eq!(socket.values(&link, &names).unwrap().unwrap().len(), names.as_slice().len());
        names.raw[0] ^= 1;
        assert_eq!(socket.values(&link, &names), Ok(None));
    }

    #[test]
    fn an_answer_of_another_number_is_none() {
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
    fn a_name_may_take_all_its_bytes_and_have_any() {
        let mut raw = vec![b'x'; NAME];
        raw.extend([b"rx_\xffy\0 rest".as_slice(), &[0; NAME - 11]].concat());
        let names = StatNames::of(&raw);
        assert_eq!(names.as_slice(), ["x".repeat(NAME), "rx_\u{fffd}y".to_owned()]);
        assert_eq!(names.count(), 2);
    }
}
