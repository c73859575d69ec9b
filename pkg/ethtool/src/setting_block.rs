//! The settings of a driver that are one structure each.

use crate::socket::EthtoolCommand;

/// A structure of `linux/ethtool.h` that one command reads and another command sets unchanged.
pub(crate) struct SettingBlock {
    /// The key in journals.
    pub(crate) name: &'static str,
    pub(crate) get: EthtoolCommand,
    pub(crate) set: EthtoolCommand,
    pub(crate) length: usize,
    /// The words after the command's number that say what is read: a flow type, or a tunable with its type and length.
    pub(crate) selector: &'static [u32],
}

const fn setting(
    name: &'static str,
    get: (u32, &'static str),
    set: (u32, &'static str),
    length: usize,
) -> SettingBlock {
    let (get, set) =
        (EthtoolCommand { number: get.0, name: get.1 }, EthtoolCommand { number: set.0, name: set.1 });
    SettingBlock { name, get, set, length, selector: &[] }
}

/// The packet fields that are hashed to select the receive queue, for a flow type (`TCP_V4_FLOW` and others).
const fn hash(name: &'static str, flow_type: &'static [u32; 1]) -> SettingBlock {
    SettingBlock {
        selector: flow_type,
        ..setting(name, (0x29, "ETHTOOL_GRXFH"), (0x2a, "ETHTOOL_SRXFH"), 16)
    }
}

/// `struct ethtool_tunable`: the number of the tunable, its type (`ETHTOOL_TUNABLE_`) and its length in bytes.
const fn tunable(name: &'static str, selector: &'static [u32; 3]) -> SettingBlock {
    let length = 16 + selector[2] as usize;
    let (get, set) = ((0x48, "ETHTOOL_GTUNABLE"), (0x49, "ETHTOOL_STUNABLE"));
    SettingBlock { selector, ..setting(name, get, set, length) }
}

impl SettingBlock {
    /// `struct ethtool_coalesce` without `use_adaptive_rx_coalesce` and `use_adaptive_tx_coalesce`; `None` for another
    /// structure, or if both are 0.
    pub(crate) fn without_adaptive_words(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        const ADAPTIVE: std::ops::Range<usize> = 40..48;
        if self.name != COALESCING || bytes[ADAPTIVE].iter().all(|byte| *byte == 0) {
            return None;
        }
        let mut bytes = bytes.to_vec();
        bytes[ADAPTIVE].fill(0);
        Some(bytes)
    }
}

const TUNABLE_U16: u32 = 2;
const TUNABLE_U32: u32 = 3;

const COALESCING: &str = "coalescing";

/// In the order in which they are set: earlier settings limit the values of later ones.
pub(crate) const SETTINGS: [SettingBlock; 23] = [
    setting("privateFlags", (0x27, "ETHTOOL_GPFLAGS"), (0x28, "ETHTOOL_SPFLAGS"), 8),
    setting("channels", (0x3c, "ETHTOOL_GCHANNELS"), (0x3d, "ETHTOOL_SCHANNELS"), 36),
    setting("rings", (0x10, "ETHTOOL_GRINGPARAM"), (0x11, "ETHTOOL_SRINGPARAM"), 36),
    setting(COALESCING, (0x0e, "ETHTOOL_GCOALESCE"), (0x0f, "ETHTOOL_SCOALESCE"), 92),
    setting("messages", (0x07, "ETHTOOL_GMSGLVL"), (0x08, "ETHTOOL_SMSGLVL"), 8),
    hash("hashTcp4", &[1]),
    hash("hashUdp4", &[2]),
    hash("hashSctp4", &[3]),
    hash("hashAhEsp4", &[4]),
    hash("hashTcp6", &[5]),
    hash("hashUdp6", &[6]),
    hash("hashSctp6", &[7]),
    hash("hashAhEsp6", &[8]),
    hash("hashAh4", &[9]),
    hash("hashEsp4", &[10]),
    hash("hashAh6", &[11]),
    hash("hashEsp6", &[12]),
    hash("hashIp4", &[16]),
    hash("hashIp6", &[17]),
    tunable("rxCopybreak", &[1, TUNABLE_U32, 4]),
    tunable("txCopybreak", &[2, TUNABLE_U32, 4]),
    tunable("pfcPreventionTimeout", &[3, TUNABLE_U16, 2]),
    tunable("txCopybreakBufferSize", &[4, TUNABLE_U32, 4]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_coalescing_is_switched_off_for_a_moment_only_if_it_was_on() {
        let of = |name: &str| SETTINGS.iter().find(|setting| setting.name == name).unwrap();
        let mut coalescing: Vec<u8> = (1..=92).collect();
        let fixed = of(COALESCING).without_adaptive_words(&coalescing).unwrap();
        coalescing[40..48].fill(0);
        assert_eq!(fixed, coalescing);
        assert_eq!(of(COALESCING).without_adaptive_words(&coalescing), None);
        coalescing[44] = 1;
        assert!(of(COALESCING).without_adaptive_words(&coalescing).is_some(), "of transmission only");
        assert_eq!(of("rings").without_adaptive_words(&[1; 92]), None);
    }
}
