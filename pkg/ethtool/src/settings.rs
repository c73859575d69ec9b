//! What a driver lets the owner of a link's network namespace change: read as it is, and set so again.

use std::collections::BTreeMap;

use identifiers::LinkName;
use serde::{Deserialize, Serialize};

use crate::{
    Error, EthtoolSocket,
    hex::{self, unhex},
    layout::{features, rules, spread},
    socket::{EthtoolCommand, number, put},
};

/// A structure of `linux/ethtool.h` that one command reads and another takes back as it is.
struct SettingBlock {
    name: &'static str,
    get: EthtoolCommand,
    set: EthtoolCommand,
    length: usize,
    /// What the second word asks for, if the structure is one of several.
    of: u32,
}

const fn setting(
    name: &'static str,
    get: (u32, &'static str),
    set: (u32, &'static str),
    length: usize,
) -> SettingBlock {
    let (get, set) =
        (EthtoolCommand { number: get.0, name: get.1 }, EthtoolCommand { number: set.0, name: set.1 });
    SettingBlock { name, get, set, length, of: 0 }
}

/// The fields of a packet by which its queue is chosen, for a kind of flow (`TCP_V4_FLOW` and others).
const fn hash(name: &'static str, flow: u32) -> SettingBlock {
    SettingBlock { of: flow, ..setting(name, (0x29, "ETHTOOL_GRXFH"), (0x2a, "ETHTOOL_SRXFH"), 16) }
}

impl SettingBlock {
    /// `struct ethtool_coalesce` without `use_adaptive_rx_coalesce` and `use_adaptive_tx_coalesce`; `None` of another one, or if
    /// they are not set.
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

/// In the order in which they are set: the first decide what the others may be.
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

const SPREAD: &str = "receiveSideScaling";
const GRSSH: EthtoolCommand = EthtoolCommand { number: 0x46, name: "ETHTOOL_GRSSH" };
const SRSSH: EthtoolCommand = EthtoolCommand { number: 0x47, name: "ETHTOOL_SRSSH" };

const RULES: &str = "flowRules";
const GRXCLSRLCNT: EthtoolCommand = EthtoolCommand { number: 0x2e, name: "ETHTOOL_GRXCLSRLCNT" };
const GRXCLSRLALL: EthtoolCommand = EthtoolCommand { number: 0x30, name: "ETHTOOL_GRXCLSRLALL" };
const SRXCLSRLDEL: EthtoolCommand = EthtoolCommand { number: 0x31, name: "ETHTOOL_SRXCLSRLDEL" };

/// A link's settings by their names, as the kernel told them: the bytes of its structures, as hexadecimal digits. What a
/// driver does not have is not there.
///
/// What a VF's driver leaves to the PF (speed, pause, FEC, EEE, wake-up) is none of them, nor is what belongs to a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DriverSettings(BTreeMap<String, String>);

impl EthtoolSocket {
    /// A link's settings.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`]. What the driver refuses for another reason is not known, and left out.
    pub fn driver_settings(&self, link: &LinkName) -> Result<DriverSettings, Error> {
        let mut found = BTreeMap::new();
        let mut note = |name: &str, bytes: Result<Option<Vec<u8>>, Error>| match bytes {
            Ok(Some(bytes)) => {
                found.insert(name.to_owned(), hex::of(&bytes));
                Ok(())
            }
            Err(error @ Error::NoSuchLink { .. }) => Err(error),
            Ok(None) | Err(_) => Ok(()),
        };
        for setting in &SETTINGS {
            note(setting.name, self.get(link, setting))?;
        }
        note(FEATURES, self.features(link).map(|it| it.map(|it| features::requested(&it))))?;
        note(SPREAD, self.spread(link))?;
        note(RULES, self.rules(link).map(|it| it.map(|it| rules::bytes(&it))))?;
        Ok(DriverSettings(found))
    }

    /// Sets what differs from what it was; what is not known of `former` stays as it is. A setting that cannot be set keeps
    /// no other from it. Rules for flows that were there and are not any more are not made again.
    ///
    /// # Errors
    /// The first that there was.
    pub fn restore_driver_settings(&self, link: &LinkName, former: &DriverSettings) -> Result<(), Error> {
        let mut result = Ok(());
        let former = |name: &str| former.0.get(name).and_then(|digits| unhex(digits));
        // Rules and tables that lead to queues keep their number from being changed.
        if let Some(locations) = former(RULES) {
            result = result.and(self.remove_rules_besides(link, &rules::parse(&locations)));
        }
        let spread = former(SPREAD).filter(|bytes| bytes.len() >= spread::DATA);
        if let Some(bytes) = &spread {
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
        if let Some(bytes) = &spread {
            result = result.and(self.restore_spread(link, bytes));
        }
        result
    }

    fn get(&self, link: &LinkName, setting: &SettingBlock) -> Result<Option<Vec<u8>>, Error> {
        let answer = self.request(link, setting.get, setting.length, |request| {
            if setting.of != 0 {
                put(request, 4, setting.of);
            }
        })?;
        Ok(answer.map(|bytes| bytes.to_vec()))
    }

    fn restore(&self, link: &LinkName, setting: &SettingBlock, former: &[u8]) -> Result<(), Error> {
        if self.get(link, setting)?.as_deref() == Some(former) {
            return Ok(());
        }
        let Err(refused) = self.set(link, setting.set, former) else { return Ok(()) };
        let Some(fixed) = setting.without_adaptive_words(former) else { return Err(refused) };
        // Some drivers (iavf) take no times while they adapt them, not even those that they told.
        self.set(link, setting.set, &fixed)?;
        self.set(link, setting.set, former)
    }

    /// Sends a structure under another command.
    fn set(&self, link: &LinkName, command: EthtoolCommand, bytes: &[u8]) -> Result<(), Error> {
        self.request(link, command, bytes.len(), |request| request[4..].copy_from_slice(&bytes[4..]))
            .map(drop)
    }

    fn features(&self, link: &LinkName) -> Result<Option<Vec<u8>>, Error> {
        let room = features::length(features::MAX_BLOCKS);
        let answer = self
            .request(link, GFEATURES, room, |request| put(request, features::COUNT, features::MAX_BLOCKS))?;
        Ok(answer.map(|bytes| bytes.to_vec()))
    }

    fn restore_features(&self, link: &LinkName, former: &[u8]) -> Result<(), Error> {
        let Some(now) = self.features(link)? else { return Ok(()) };
        features::change(&now, former).map_or(Ok(()), |change| self.set(link, SFEATURES, &change))
    }

    /// How packets are spread over the queues: the table, the key and the function.
    fn spread(&self, link: &LinkName) -> Result<Option<Vec<u8>>, Error> {
        let Some(sizes) = self.request(link, GRSSH, spread::DATA, |_| {})? else { return Ok(None) };
        let (table, key) = (number(&sizes, spread::TABLE), number(&sizes, spread::KEY));
        let answer = self.request(link, GRSSH, spread::length(table, key), |request| {
            put(request, spread::TABLE, table);
            put(request, spread::KEY, key);
        })?;
        Ok(answer.map(|bytes| bytes.to_vec()))
    }

    /// Has the driver make its own table, if it has another than it had. What it makes follows the number of queues; what is set
    /// does not any more.
    fn restore_default_table(&self, link: &LinkName, former: &[u8]) -> Result<(), Error> {
        match self.spread(link)? {
            Some(now) if spread::table(&now) != spread::table(former) => {
                self.set(link, SRSSH, &spread::default_table(former))
            }
            _ => Ok(()),
        }
    }

    fn restore_spread(&self, link: &LinkName, former: &[u8]) -> Result<(), Error> {
        match self.spread(link)?.and_then(|now| spread::change(&now, former)) {
            Some(change) => self.set(link, SRSSH, &change),
            None => Ok(()),
        }
    }

    /// Where the driver has rules for flows.
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

    /// A node with a link that has settings.
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
    fn what_somebody_changed_is_as_it_was() {
        let node = node();
        let (link, socket) = ("v0".parse().unwrap(), EthtoolSocket::open().unwrap());
        node.run("ethtool", &["-L", "v0", "rx", "2", "tx", "3"]);
        let (before, told) = (socket.driver_settings(&link).unwrap(), shown(&node));
        assert!(told.contains("RX:\t\t2") && told.contains("TX:\t\t3"), "{told}");
        node.run("ethtool", &["-L", "v0", "rx", "1", "tx", "1"]);
        node.run("ethtool", &["-K", "v0", "tso", "off", "gro", "on", "tx", "off"]);
        assert_ne!(shown(&node), told);
        assert_ne!(socket.driver_settings(&link).unwrap(), before);
        socket.restore_driver_settings(&link, &before).unwrap();
        assert_eq!(shown(&node), told);
        assert_eq!(socket.driver_settings(&link).unwrap(), before);
    }

    #[test]
    fn what_is_not_known_stays_and_what_is_no_setting_is_passed_over() {
        let node = node();
        let (link, socket) = ("v0".parse().unwrap(), EthtoolSocket::open().unwrap());
        let told = shown(&node);
        let mut odd = DriverSettings::default();
        for (name, digits) in
            [("channels", "00"), ("rings", "zz"), (SPREAD, "00"), ("unknown", "00"), (RULES, "0")]
        {
            odd.0.insert(name.into(), digits.into());
        }
        for former in [DriverSettings::default(), odd] {
            socket.restore_driver_settings(&link, &former).unwrap();
            assert_eq!(shown(&node), told);
        }
        drop(node);
    }

    #[test]
    fn a_link_that_is_not_there_is_told_of() {
        let asked = thread::spawn(|| {
            #[expect(clippy::disallowed_methods, reason = "the thread ends there")]
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            EthtoolSocket::open().unwrap().driver_settings(&"v0".parse().unwrap())
        });
        assert!(matches!(asked.join().unwrap(), Err(Error::NoSuchLink { .. })));
    }
}
