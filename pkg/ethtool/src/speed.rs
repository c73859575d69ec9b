//! The speed of a link.

use identifiers::LinkName;

use crate::{
    Error, EthtoolSocket,
    socket::{EthtoolCommand, number},
};

const GSET: EthtoolCommand = EthtoolCommand { number: 0x01, name: "ETHTOOL_GSET" };
const GLINK: EthtoolCommand = EthtoolCommand { number: 0x0a, name: "ETHTOOL_GLINK" };
const GLINKSETTINGS: EthtoolCommand = EthtoolCommand { number: 0x4c, name: "ETHTOOL_GLINKSETTINGS" };

/// `struct ethtool_cmd`.
mod cmd {
    pub(super) const LENGTH: usize = 44;
    pub(super) const SPEED: usize = 12;
    pub(super) const SPEED_HI: usize = 28;
}

/// `struct ethtool_link_settings`. Three bit masks of `link_mode_masks_nwords` words each follow it.
mod settings {
    pub(super) const LENGTH: usize = 48;
    pub(super) const SPEED: usize = 4;
    pub(super) const MASK_WORDS: usize = 15;
}

impl EthtoolSocket {
    /// A link's speed in Mb/s, as `ethtool LINK` shows it; `None` if the link is down, has no speed (`lo`), or
    /// its driver does not know it.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Refused`].
    pub fn speed(&self, link: &LinkName) -> Result<Option<u32>, Error> {
        // Some drivers still report the former speed of a link that is down.
        if !self.is_up(link)? {
            return Ok(None);
        }
        let speed = match unless_unsupported(self.link_settings(link))? {
            Some(speed) => Some(speed),
            // A kernel before 4.6, or no speed at all.
            None => unless_unsupported(self.settings(link))?,
        };
        Ok(speed.filter(is_known))
    }

    /// Whether the link has a carrier. Assumed if the driver does not implement `ETHTOOL_GLINK`.
    fn is_up(&self, link: &LinkName) -> Result<bool, Error> {
        let reply = unless_unsupported(self.request(link, GLINK, 8, |_| ()))?.flatten();
        Ok(reply.is_none_or(|value| number(&value, 4) != 0))
    }

    fn link_settings(&self, link: &LinkName) -> Result<u32, Error> {
        // The kernel replies to the first request with the masks' length only, as a negative number.
        let first = self.request(link, GLINKSETTINGS, settings::LENGTH, |_| ())?;
        let words = first.map_or(0, |first| mask_words(&first));
        let room = settings::LENGTH + 3 * 4 * usize::from(words);
        let reply =
            self.request(link, GLINKSETTINGS, room, |request| request[settings::MASK_WORDS] = words)?;
        Ok(reply.map_or(0, |reply| number(&reply, settings::SPEED)))
    }

    fn settings(&self, link: &LinkName) -> Result<u32, Error> {
        let reply = self.request(link, GSET, cmd::LENGTH, |_| ())?;
        Ok(reply.map_or(0, |reply| split_speed(&reply)))
    }
}

/// Whether a speed is neither `SPEED_UNKNOWN` (all ones) nor 0, which some drivers report instead.
fn is_known(speed: &u32) -> bool {
    !matches!(*speed, 0 | u32::MAX)
}

fn mask_words(settings: &[u8]) -> u8 {
    let words = settings[settings::MASK_WORDS].cast_signed();
    words.min(0).unsigned_abs()
}

/// Reads the speed from `speed_hi` and `speed`, 16 bits each. An unknown speed is all ones, or from older drivers all ones
/// in the lower half only.
fn split_speed(cmd: &[u8]) -> u32 {
    let half = |at: usize| u16::from_ne_bytes([cmd[at], cmd[at + 1]]);
    match (half(cmd::SPEED_HI), half(cmd::SPEED)) {
        (0, u16::MAX) => u32::MAX,
        (high, low) => u32::from(high) << 16 | u32::from(low),
    }
}

fn unless_unsupported<T>(reply: Result<T, Error>) -> Result<Option<T>, Error> {
    match reply {
        Err(error) if error.is_unsupported() => Ok(None),
        reply => reply.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Observe, TestNode};

    use super::*;

    #[test]
    fn the_obsolete_command_reports_the_same_speed() {
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        let (socket, link) = (EthtoolSocket::open().unwrap(), "v0".parse().unwrap());
        assert_eq!(socket.link_settings(&link), Ok(10_000));
        assert_eq!(socket.settings(&link), Ok(10_000));
    }

    #[test]
    fn the_halves_of_a_speed_are_combined() {
        let speed = |high: u16, low: u16| {
            let mut cmd = [0; cmd::LENGTH];
            cmd[cmd::SPEED..][..2].copy_from_slice(&low.to_ne_bytes());
            cmd[cmd::SPEED_HI..][..2].copy_from_slice(&high.to_ne_bytes());
            split_speed(&cmd)
        };
        assert_eq!(speed(0, 25_000), 25_000);
        assert_eq!(speed(6, 6_784), 400_000);
        assert_eq!(speed(0, u16::MAX), u32::MAX);
        assert_eq!(speed(u16::MAX, u16::MAX), u32::MAX);
    }

    #[test]
    fn zero_and_all_ones_are_unknown_speeds() {
        assert_eq!([0, 10, 400_000, u32::MAX].map(|speed| is_known(&speed)), [false, true, true, false]);
    }

    #[test]
    fn only_a_negative_number_of_words_is_requested_again() {
        let words = |words: i8| {
            let mut settings = [0; settings::LENGTH];
            settings[settings::MASK_WORDS] = words.cast_unsigned();
            mask_words(&settings)
        };
        assert_eq!((words(-4), words(0), words(3), words(i8::MIN)), (4, 0, 0, 128));
    }
}
