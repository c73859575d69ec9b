//! The driver settings that the owner of a link's network namespace can change: reads them, and restores them.

use std::collections::BTreeMap;

use identifiers::LinkName;
use serde::{Deserialize, Serialize};

use crate::{
    Error, EthtoolSocket, hex,
    layout::{features, rss, rules},
    socket::{EthtoolCommand, number, put},
};

/// A structure of `linux/ethtool.h` that one command reads and another command sets unchanged.
struct SettingBlock {
    name: &'static str,
    get: EthtoolCommand,
    set: EthtoolCommand,
    length: usize,
    /// The flow type in the second word, such as `TCP_V4_FLOW`; 0 if the structure has none.
    flow_type: u32,
}

const fn setting(
    name: &'static str,
    get: (u32, &'static str),
    set: (u32, &'static str),
    length: usize,
) -> SettingBlock {
    let (get, set) =
        (EthtoolCommand { number: get.0, name: get.1 }, EthtoolCommand { number: set.0, name: set.1 });
    SettingBlock { name, get, set, length, flow_type: 0 }
}

/// The packet fields that are hashed to select the receive queue, for a flow type (`TCP_V4_FLOW` and others).
const fn hash(name: &'static str, flow_type: u32) -> SettingBlock {
    SettingBlock { flow_type, ..setting(name, (0x29, "ETHTOOL_GRXFH"), (0x2a, "ETHTOOL_SRXFH"), 16) }
}

impl SettingBlock {
    /// `struct ethtool_coalesce` without `use_adaptive_rx_coalesce` and `use_adaptive_tx_coalesce`; `None` for another
    /// structure, or if both are 0.
    fn without_adaptive_words(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        const ADAPTIVE: std::ops::Range<usize> = 40..48;
        if self.name != COALESCING || bytes[ADAPTIVE].iter().all(|byte| *byte == 0) {
            return None;
        }
        let mut bytes = bytes.to_vec();
        bytes[ADAPTIVE].fill(0);
        Some(bytes)
    }
}

const COALESCING: &str = "coalescing";

/// In the order in which they are set: earlier settings limit the values of later ones.
const SETTINGS: [SettingBlock; 9] = [
    setting("privateFlags", (0x27, "ETHTOOL_GPFLAGS"), (0x28, "ETHTOOL_SPFLAGS"), 8),
    setting("channels", (0x3c, "ETHTOOL_GCHANNELS"), (0x3d, "ETHTOOL_SCHANNELS"), 36),
    setting("rings", (0x10, "ETHTOOL_GRINGPARAM"), (0x11, "ETHTOOL_SRINGPARAM"), 36),
    setting(COALESCING, (0x0e, "ETHTOOL_GCOALESCE"), (0x0f, "ETHTOOL_SCOALESCE"), 92),
    setting("messages", (0x07, "ETHTOOL_GMSGLVL"), (0x08, "ETHTOOL_SMSGLVL"), 8),
    hash("hashTcp4", 1),
    hash("hashUdp4", 2),
    hash("hashTcp6", 5),
    hash("hashUdp6", 6),
];

const FEATURES: &str = "features";
const GFEATURES: EthtoolCommand = EthtoolCommand { number: 0x3a, name: "ETHTOOL_GFEATURES" };
const SFEATURES: EthtoolCommand = EthtoolCommand { number: 0x3b, name: "ETHTOOL_SFEATURES" };

const RSS: &str = "receiveSideScaling";
const GRSSH: EthtoolCommand = EthtoolCommand { number: 0x46, name: "ETHTOOL_GRSSH" };
const SRSSH: EthtoolCommand = EthtoolCommand { number: 0x47, name: "ETHTOOL_SRSSH" };

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
        note(RULES, self.rules(link).map(|it| it.map(|it| rules::bytes(&it))))?;
        Ok(DriverSettings(found))
    }

    /// Restores every setting that differs from `former`. Settings that `former` does not contain are left unchanged. If one
    /// setting fails, the others are still restored. Flow rules that were deleted since are not created again.
    ///
    /// # Errors
    /// The first error.
    pub fn restore_driver_settings(&self, link: &LinkName, former: &DriverSettings) -> Result<(), Error> {
        let mut result = Ok(());
        let former = |name: &str| former.0.get(name).and_then(|digits| hex::decode(digits));
        // The kernel refuses to remove queues that flow rules or the indirection table refer to.
        if let Some(locations) = former(RULES) {
            result = result.and(self.remove_rules_besides(link, &rules::parse(&locations)));
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
        let reply = self.request(link, setting.get, setting.length, |request| {
            if setting.flow_type != 0 {
                put(request, 4, setting.flow_type);
            }
        })?;
        Ok(reply.map(|bytes| bytes.to_vec()))
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
        let reply = self
            .request(link, GFEATURES, room, |request| put(request, features::COUNT, features::MAX_BLOCKS))?;
        Ok(reply.map(|bytes| bytes.to_vec()))
    }

    fn restore_features(&self, link: &LinkName, former: &[u8]) -> Result<(), Error> {
        let Some(now) = self.features(link)? else { return Ok(()) };
        features::change(&now, former).map_or(Ok(()), |change| self.set(link, SFEATURES, &change))
    }

    /// Reads receive side scaling: the indirection table, the hash key and the hash function.
    fn rss(&self, link: &LinkName) -> Result<Option<Vec<u8>>, Error> {
        let Some(sizes) = self.request(link, GRSSH, rss::DATA, |_| {})? else { return Ok(None) };
        let (table, key) = (number(&sizes, rss::TABLE), number(&sizes, rss::KEY));
        let reply = self.request(link, GRSSH, rss::length(table, key), |request| {
            put(request, rss::TABLE, table);
            put(request, rss::KEY, key);
        })?;
        Ok(reply.map(|bytes| bytes.to_vec()))
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
