//! The driver settings that the owner of a link's network namespace can change: reads them, and restores them.

use std::collections::BTreeMap;

use identifiers::LinkName;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    Error, EthtoolSocket, hex,
    kernel::Ioctl,
    layout::{features, rss, rules},
    setting_block::{SETTINGS, SettingBlock},
    socket::{EthtoolCommand, number, put},
};

const FEATURES: &str = "features";
const GFEATURES: EthtoolCommand = EthtoolCommand { number: 0x3a, name: "ETHTOOL_GFEATURES" };
const SFEATURES: EthtoolCommand = EthtoolCommand { number: 0x3b, name: "ETHTOOL_SFEATURES" };

const RSS: &str = "receiveSideScaling";
const GRSSH: EthtoolCommand = EthtoolCommand { number: 0x46, name: "ETHTOOL_GRSSH" };
const SRSSH: EthtoolCommand = EthtoolCommand { number: 0x47, name: "ETHTOOL_SRSSH" };

const TIMESTAMPS: &str = "timestamps";
/// The length of `struct hwtstamp_config`.
const TIMESTAMPS_LENGTH: usize = 12;

/// The highest number of an additional context of receive side scaling that is searched for. Contexts have the lowest free
/// number, and mlx5 and bnxt have at most 16 and 32 of them (`MLX5E_MAX_NUM_RSS`, `BNXT_MAX_ETH_RSS_CTX`).
const MAX_RSS_CONTEXT: u32 = 64;

const RULES: &str = "flowRules";
const GRXCLSRLCNT: EthtoolCommand = EthtoolCommand { number: 0x2e, name: "ETHTOOL_GRXCLSRLCNT" };
const GRXCLSRLALL: EthtoolCommand = EthtoolCommand { number: 0x30, name: "ETHTOOL_GRXCLSRLALL" };
const SRXCLSRLDEL: EthtoolCommand = EthtoolCommand { number: 0x31, name: "ETHTOOL_SRXCLSRLDEL" };

/// A link's settings by name: the bytes of the kernel's structures, as hexadecimal digits. Settings that the driver does not
/// support are absent.
///
/// Settings that a VF's driver leaves to the PF (speed, pause, FEC, EEE, wake-on-LAN) and settings of single queues are not
/// included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DriverSettings(BTreeMap<String, String>);

impl EthtoolSocket {
    /// Reads the settings of a link.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`]. A setting that the driver rejects for another reason is omitted.
    pub fn driver_settings(&self, link: &LinkName) -> Result<DriverSettings, Error> {
        let mut found = BTreeMap::new();
        let mut note = |name: &str, bytes: Result<Option<Vec<u8>>, Error>| match bytes {
            Ok(Some(bytes)) => {
                found.insert(name.to_owned(), hex::encode(&bytes));
                Ok(())
            }
            Err(error @ Error::NoSuchLink { .. }) => Err(error),
            Ok(None) | Err(_) => Ok(()),
        };
        for setting in &SETTINGS {
            note(setting.name, self.get(link, setting))?;
        }
        note(FEATURES, self.features(link).map(|it| it.map(|it| features::requested(&it))))?;
        note(RSS, self.rss(link))?;
        note(TIMESTAMPS, self.timestamps(link))?;
        note(RULES, self.rules(link).map(|it| it.map(|it| rules::bytes(&it))))?;
        Ok(DriverSettings(found))
    }

    /// Restores every setting that differs from `former`. Settings that `former` does not contain are left unchanged. If one
    /// setting fails, the others are still restored. Flow rules that were deleted since are not created again.
    ///
    /// # Errors
    /// The first error.
    pub fn restore_driver_settings(&self, link: &LinkName, former: &DriverSettings) -> Result<(), Error> {
        if former.0.is_empty() {
            return Ok(()); // they are unknown
        }
        let former = |name: &str| former.0.get(name).and_then(|digits| hex::decode(digits));
        // First: mlx5 may refuse to compress completions while packets have time stamps
        // (`mlx5e_modify_rx_cqe_compression_locked`).
        let mut result = former(TIMESTAMPS).map_or(Ok(()), |config| self.restore_timestamps(link, &config));
        // The kernel refuses to remove queues that flow rules or an indirection table refer to.
        let locations = former(RULES).map(|locations| rules::parse(&locations));
        if let Some(locations) = &locations {
            result = result.and(self.remove_rules_besides(link, locations));
        }
        // Without rules, none of them was in use: the pod added them, or they had no effect.
        if locations.is_none_or(|locations| locations.is_empty()) {
            result = result.and(self.remove_rss_contexts(link));
        }
        let rss = former(RSS).filter(|bytes| bytes.len() >= rss::DATA);
        if let Some(bytes) = &rss {
            result = result.and(self.restore_default_table(link, bytes));
        }
        for setting in &SETTINGS {
            if let Some(bytes) = former(setting.name).filter(|bytes| bytes.len() == setting.length) {
                result = result.and(self.restore(link, setting, &bytes));
            }
        }
        if let Some(requested) = former(FEATURES) {
            result = result.and(self.restore_features(link, &requested));
        }
        if let Some(bytes) = &rss {
            result = result.and(self.restore_rss(link, bytes));
        }
        result
    }

    fn get(&self, link: &LinkName, setting: &SettingBlock) -> Result<Option<Vec<u8>>, Error> {
        self.request(link, setting.get, setting.length, |request| {
            for (word, value) in setting.selector.iter().enumerate() {
                put(request, 4 * (word + 1), *value);
            }
        })
    }

    fn restore(&self, link: &LinkName, setting: &SettingBlock, former: &[u8]) -> Result<(), Error> {
        if self.get(link, setting)?.as_deref() == Some(former) {
            return Ok(());
        }
        let Err(refused) = self.set(link, setting.set, former) else { return Ok(()) };
        let Some(fixed) = setting.without_adaptive_words(former) else { return Err(refused) };
        // Some drivers (iavf) reject coalescing times in adaptive mode, even their current ones.
        self.set(link, setting.set, &fixed)?;
        self.set(link, setting.set, former)
    }

    /// Sends a structure with a set command, which replaces the command number in its first word.
    fn set(&self, link: &LinkName, command: EthtoolCommand, bytes: &[u8]) -> Result<(), Error> {
        self.request(link, command, bytes.len(), |request| request[4..].copy_from_slice(&bytes[4..]))
            .map(drop)
    }

    fn features(&self, link: &LinkName) -> Result<Option<Vec<u8>>, Error> {
        let room = features::length(features::MAX_BLOCKS);
        self.request(link, GFEATURES, room, |request| put(request, features::COUNT, features::MAX_BLOCKS))
    }

    fn restore_features(&self, link: &LinkName, former: &[u8]) -> Result<(), Error> {
        let Some(now) = self.features(link)? else { return Ok(()) };
        features::change(&now, former).map_or(Ok(()), |change| self.set(link, SFEATURES, &change))
    }

    /// Reads receive side scaling: the indirection table, the hash key and the hash function.
    fn rss(&self, link: &LinkName) -> Result<Option<Vec<u8>>, Error> {
        let Some(sizes) = self.request(link, GRSSH, rss::DATA, |_| {})? else { return Ok(None) };
        let (table, key) = (number(&sizes, rss::TABLE), number(&sizes, rss::KEY));
        self.request(link, GRSSH, rss::length(table, key), |request| {
            put(request, rss::TABLE, table);
            put(request, rss::KEY, key);
        })
    }

    /// Requests the driver's default indirection table if the table differs from the former one. The default table follows the
    /// number of queues; a table that was set does not.
    fn restore_default_table(&self, link: &LinkName, former: &[u8]) -> Result<(), Error> {
        match self.rss(link)? {
            Some(now) if rss::table(&now) != rss::table(former) => {
                self.set(link, SRSSH, &rss::default_table(former))
            }
            _ => Ok(()),
        }
    }

    fn restore_rss(&self, link: &LinkName, former: &[u8]) -> Result<(), Error> {
        match self.rss(link)?.and_then(|now| rss::change(&now, former)) {
            Some(change) => self.set(link, SRSSH, &change),
            None => Ok(()),
        }
    }

    /// Removes the contexts of receive side scaling besides that of the link itself. Rules must not refer to them.
    fn remove_rss_contexts(&self, link: &LinkName) -> Result<(), Error> {
        let mut result = Ok(());
        for context in 1..=MAX_RSS_CONTEXT {
            let select = |request: &mut [u8]| put(request, rss::CONTEXT, context);
            match self.request(link, GRSSH, rss::DATA, select) {
                // Without a table, the context is deleted.
                Ok(_) => result = result.and(self.request(link, SRSSH, rss::DATA, select).map(drop)),
                Err(Error::Refused { errno: Errno::ENOENT, .. }) => {}
                Err(error @ Error::NoSuchLink { .. }) => return Err(error),
                // The driver has none, or not that many.
                Err(_) => break,
            }
        }
        result
    }

    /// Reads which packets the card provides with time stamps. The card does not do so by default.
    fn timestamps(&self, link: &LinkName) -> Result<Option<Vec<u8>>, Error> {
        self.ioctl(link, Ioctl::GetTimestamps, "SIOCGHWTSTAMP", TIMESTAMPS_LENGTH, |_| {})
    }

    fn restore_timestamps(&self, link: &LinkName, former: &[u8]) -> Result<(), Error> {
        if former.len() != TIMESTAMPS_LENGTH || self.timestamps(link)?.as_deref() == Some(former) {
            return Ok(());
        }
        let fill = |request: &mut [u8]| request.copy_from_slice(former);
        self.ioctl(link, Ioctl::SetTimestamps, "SIOCSHWTSTAMP", TIMESTAMPS_LENGTH, fill).map(drop)
    }

    /// Reads the locations of the flow rules.
    fn rules(&self, link: &LinkName) -> Result<Option<Vec<u32>>, Error> {
        let Some(count) = self.request(link, GRXCLSRLCNT, rules::LOCATIONS + 4, |_| {})? else {
            return Ok(None);
        };
        let count = number(&count, rules::COUNT);
        if count == 0 {
            return Ok(Some(Vec::new()));
        }
        let room = rules::LOCATIONS + 4 * (count as usize).next_multiple_of(2) + 4;
        let all = self.request(link, GRXCLSRLALL, room, |request| put(request, rules::COUNT, count))?;
        Ok(all.map(|all| rules::parse(&all[rules::LOCATIONS..][..4 * count as usize])))
    }

    fn remove_rules_besides(&self, link: &LinkName, former: &[u32]) -> Result<(), Error> {
        let now = match self.rules(link) {
            Err(error) if !error.is_unsupported() => return Err(error),
            now => now.ok().flatten().unwrap_or_default(),
        };
        now.iter().filter(|location| !former.contains(location)).try_for_each(|location| {
            let room = rules::LOCATIONS + 4;
            self.request(link, SRXCLSRLDEL, room, |request| put(request, rules::LOCATION, *location))
                .map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use nix::sched::{CloneFlags, unshare};
    use testkit::{Observe, TestNode};

    use super::*;

    /// A node with the link `v0`, whose driver (veth) has settings.
    fn node() -> TestNode {
        let node = TestNode::new();
        node.run_ip(
            "link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1 numtxqueues 4 numrxqueues 4",
        );
        node
    }

    fn shown(node: &TestNode) -> String {
        ["-k", "-l", "-c"]
            .map(|what| {
                let output = node.command("ethtool").args([what, "v0"]).output().unwrap();
                String::from_utf8(output.stdout).unwrap()
            })
            .concat()
    }

    #[test]
    fn changed_settings_are_restored() {
        let node = node();
        let (link, socket) = ("v0".parse().unwrap(), EthtoolSocket::open().unwrap());
        node.run("ethtool", &["-L", "v0", "rx", "2", "tx", "3"]);
        let (before, text) = (socket.driver_settings(&link).unwrap(), shown(&node));
        assert!(text.contains("RX:\t\t2") && text.contains("TX:\t\t3"), "{text}");
        node.run("ethtool", &["-L", "v0", "rx", "1", "tx", "1"]);
        node.run("ethtool", &["-K", "v0", "tso", "off", "gro", "on", "tx", "off"]);
        assert_ne!(shown(&node), text);
        assert_ne!(socket.driver_settings(&link).unwrap(), before);
        socket.restore_driver_settings(&link, &before).unwrap();
        assert_eq!(shown(&node), text);
        assert_eq!(socket.driver_settings(&link).unwrap(), before);
    }

    #[test]
    fn a_setting_that_fails_does_not_keep_the_others_from_being_restored() {
        let node = node();
        let (link, socket) = ("v0".parse().unwrap(), EthtoolSocket::open().unwrap());
        let (mut former, text) = (socket.driver_settings(&link).unwrap(), shown(&node));
        // The first settings, and the driver has neither.
        for (name, length) in [(RSS, rss::DATA), ("privateFlags", 8)] {
            former.0.insert(name.into(), "00".repeat(length));
        }
        node.run("ethtool", &["-L", "v0", "rx", "4", "tx", "4"]);
        node.run("ethtool", &["-K", "v0", "tso", "off"]);
        let error = socket.restore_driver_settings(&link, &former).unwrap_err();
        assert!(
            matches!(error, Error::Refused { operation: "ETHTOOL_GRSSH", .. }),
            "the first error: {error}"
        );
        assert_eq!(shown(&node), text);
    }

    #[test]
    fn unknown_and_malformed_settings_are_ignored() {
        let node = node();
        let (link, socket) = ("v0".parse().unwrap(), EthtoolSocket::open().unwrap());
        let before = shown(&node);
        let mut odd = DriverSettings::default();
        for (name, digits) in
            [("channels", "00"), ("rings", "zz"), (RSS, "00"), ("unknown", "00"), (RULES, "0")]
        {
            odd.0.insert(name.into(), digits.into());
        }
        for former in [DriverSettings::default(), odd] {
            socket.restore_driver_settings(&link, &former).unwrap();
            assert_eq!(shown(&node), before);
        }
        drop(node);
    }

    #[test]
    fn a_missing_link_is_an_error() {
        let thread = thread::spawn(|| {
            #[expect(clippy::disallowed_methods, reason = "the thread ends afterwards")]
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            EthtoolSocket::open().unwrap().driver_settings(&"v0".parse().unwrap())
        });
        assert!(matches!(thread.join().unwrap(), Err(Error::NoSuchLink { .. })));
    }
}
