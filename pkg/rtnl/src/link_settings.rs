//! The settings of a link besides its names, MAC address, MTU and up state.
//!
//! The owner of a network namespace may change them (`RTM_NEWLINK`), and a link keeps them when it moves to another one.

use std::collections::BTreeMap;

use identifiers::MacAddr;
use netlink_packet_core::{DefaultNla, NLA_TYPE_MASK, Nla, NlasIterator};
use netlink_packet_route::link::{InfoData, InfoIpoib, InfoKind, LinkAttribute, LinkFlags, LinkInfo};
use serde::{Deserialize, Serialize};

use crate::kernel_text::text;

const BROADCAST: u16 = 2;
const IFALIAS: u16 = 20;
const XDP: u16 = 43;

/// Attributes that are one number: the key in journals, the `IFLA_` number, and the length in bytes. The order matters:
/// setting a general size also changes the one for IPv4.
const NUMBERS: [(&str, u16, usize); 8] = [
    ("mode", 17, 1),
    ("txqueuelen", 13, 4),
    ("group", 27, 4),
    ("gsoMaxSegs", 40, 4),
    ("gsoMaxSize", 41, 4),
    ("groMaxSize", 58, 4),
    ("gsoIpv4MaxSize", 63, 4),
    ("groIpv4MaxSize", 64, 4),
];

/// The `IFF_` flags that can be set, except `IFF_UP`.
pub(crate) const FLAGS: LinkFlags = LinkFlags::Debug
    .union(LinkFlags::Notrailers)
    .union(LinkFlags::Noarp)
    .union(LinkFlags::Promisc)
    .union(LinkFlags::Allmulti)
    .union(LinkFlags::Multicast)
    .union(LinkFlags::Portsel)
    .union(LinkFlags::Automedia)
    .union(LinkFlags::Dynamic);

/// Settings of a link, as read from an `RTM_NEWLINK` message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkSettings {
    /// The `IFF_` flags of [`FLAGS`], like `IFF_PROMISC`.
    pub(crate) flags: u32,
    /// The alias; invalid UTF-8 and control characters are replaced by U+FFFD.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) alias: String,
    /// The broadcast address; `None` if it does not have six bytes.
    pub(crate) broadcast: Option<MacAddr>,
    /// The attributes of [`NUMBERS`] that the kernel supports.
    pub(crate) numbers: BTreeMap<String, u32>,
    /// Those of an IP over InfiniBand link; absent for another one, and in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ipoib: Option<IpoibMulticast>,
    /// The mode of the attached XDP program, an `XDP_ATTACHED_` number; 0 means none.
    pub(crate) xdp: u8,
}

/// The settings of an IP over InfiniBand link that can be changed while it exists (`ipoib_changelink`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IpoibMulticast {
    /// `IFLA_IPOIB_MODE`: 0 datagram, 1 connected.
    pub(crate) mode: u16,
    /// `IFLA_IPOIB_UMCAST`: whether programs may join multicast groups.
    pub(crate) umcast: u16,
}

impl LinkSettings {
    /// Whether the link has `IFF_NOARP`.
    pub fn is_noarp(&self) -> bool {
        LinkFlags::from_bits_retain(self.flags).contains(LinkFlags::Noarp)
    }

    /// Whether an attribute is a setting.
    pub(crate) fn has(kind: u16) -> bool {
        matches!(kind, BROADCAST | IFALIAS | XDP) || NUMBERS.iter().any(|(_, number, _)| *number == kind)
    }

    /// Reads the flags of the message's header.
    pub(crate) fn read_flags(&mut self, flags: LinkFlags) {
        self.flags = (flags & FLAGS).bits();
    }

    /// Reads an attribute, if it is a setting.
    pub(crate) fn read(&mut self, attribute: &DefaultNla) {
        let kind = attribute.kind() & NLA_TYPE_MASK;
        let mut value = vec![0; attribute.value_len()];
        attribute.emit_value(&mut value);
        match kind {
            BROADCAST => self.broadcast = MacAddr::from_bytes(&value),
            IFALIAS => self.alias = text(&value),
            XDP => self.xdp = xdp_attached(&value),
            _ => {
                let name = NUMBERS.iter().find(|(_, number, _)| *number == kind).map(|(name, ..)| *name);
                self.numbers.extend(name.zip(number(&value)).map(|(name, number)| (name.to_owned(), number)));
            }
        }
    }

    /// Reads those of an IP over InfiniBand link.
    pub(crate) fn read_info(&mut self, infos: &[LinkInfo]) {
        let (mut mode, mut umcast) = (None, None);
        for info in infos {
            let LinkInfo::Data(InfoData::Ipoib(settings)) = info else { continue };
            for setting in settings {
                match setting {
                    InfoIpoib::Mode(is) => mode = Some((*is).into()),
                    InfoIpoib::UmCast(is) => umcast = Some(*is),
                    _ => {}
                }
            }
        }
        self.ipoib = mode.zip(umcast).map(|(mode, umcast)| IpoibMulticast { mode, umcast });
    }

    /// Returns the modes (`XDP_FLAGS_`) in which a program must be removed, one by one.
    pub(crate) fn programs_besides(&self, former: &Self) -> &'static [u32] {
        const SKB: u32 = 2;
        const DRIVER: u32 = 4;
        const HARDWARE: u32 = 8;
        match self.xdp {
            now if now == former.xdp => &[],
            0 => &[],
            1 => &[DRIVER],
            2 => &[SKB],
            3 => &[HARDWARE],
            _ => &[SKB, DRIVER, HARDWARE],
        }
    }

    /// Returns the attributes that change these settings to `former`.
    pub(crate) fn changes(&self, former: &Self) -> Vec<LinkAttribute> {
        let mut changes = Vec::new();
        let raw = |kind: u16, value: &[u8]| LinkAttribute::Other(DefaultNla::new(kind, value.to_vec()));
        if let Some(broadcast) = former.broadcast.filter(|it| Some(*it) != self.broadcast) {
            changes.push(LinkAttribute::Broadcast(broadcast.bytes().to_vec()));
        }
        if self.alias != former.alias && !former.alias.contains(char::REPLACEMENT_CHARACTER) {
            changes.push(raw(IFALIAS, former.alias.as_bytes()));
        }
        if self.numbers != former.numbers {
            let known = |name: &str| former.numbers.get(name).filter(|_| self.numbers.contains_key(name));
            changes.extend(NUMBERS.iter().filter_map(|(name, kind, length)| {
                let number = known(name)?;
                Some(match length {
                    1 => raw(*kind, &[u8::try_from(*number).ok()?]),
                    _ => raw(*kind, &number.to_ne_bytes()),
                })
            }));
        }
        if let (Some(now), Some(former)) = (self.ipoib, former.ipoib)
            && now != former
        {
            let data = vec![InfoIpoib::Mode(former.mode.into()), InfoIpoib::UmCast(former.umcast)];
            let info = vec![LinkInfo::Kind(InfoKind::Ipoib), LinkInfo::Data(InfoData::Ipoib(data))];
            changes.push(LinkAttribute::LinkInfo(info));
        }
        changes
    }
}

/// Returns `IFLA_XDP_ATTACHED` of an `IFLA_XDP` attribute.
fn xdp_attached(value: &[u8]) -> u8 {
    const ATTACHED: u16 = 2;
    let mut within = NlasIterator::new(value).map_while(Result::ok);
    within
        .find(|attribute| attribute.kind() == ATTACHED)
        .and_then(|it| it.value().first().copied())
        .unwrap_or(0)
}

/// Returns the number in an attribute of one or four bytes.
fn number(value: &[u8]) -> Option<u32> {
    match value {
        [byte] => Some(u32::from(*byte)),
        _ => Some(u32::from_ne_bytes(*value.first_chunk()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_xdp_program_is_removed_in_its_own_mode_unless_it_was_there_before() {
        let programs = |now, former| {
            let with = |xdp| LinkSettings { xdp, ..LinkSettings::default() };
            with(now).programs_besides(&with(former))
        };
        for (now, modes) in [(0, &[][..]), (1, &[4]), (2, &[2]), (3, &[8]), (4, &[2, 4, 8])] {
            assert_eq!(programs(now, u8::from(now == 0)), modes, "attached in mode {now}");
            assert_eq!(programs(now, now), [0; 0], "it was there before");
        }
    }

    #[test]
    fn an_ipoib_link_gets_its_former_mode_and_multicast_setting() {
        let info = |mode: u16, umcast| {
            let data = vec![InfoIpoib::Pkey(0xffff), InfoIpoib::Mode(mode.into()), InfoIpoib::UmCast(umcast)];
            let mut settings = LinkSettings::default();
            settings.read_info(&[LinkInfo::Kind(InfoKind::Ipoib), LinkInfo::Data(InfoData::Ipoib(data))]);
            settings
        };
        let data = vec![InfoIpoib::Mode(0.into()), InfoIpoib::UmCast(0)];
        let former = vec![LinkInfo::Kind(InfoKind::Ipoib), LinkInfo::Data(InfoData::Ipoib(data))];
        for now in [info(1, 0), info(0, 1)] {
            assert_eq!(now.changes(&info(0, 0)), [LinkAttribute::LinkInfo(former.clone())]);
            assert!(now.changes(&now).is_empty());
            assert!(now.changes(&LinkSettings::default()).is_empty(), "a journal of an earlier release");
        }
    }

    #[test]
    fn what_one_of_the_two_kernels_did_not_report_is_not_changed() {
        let with = |numbers: &[(&str, u32)]| LinkSettings {
            numbers: numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect(),
            ..LinkSettings::default()
        };
        let broadcast = LinkSettings { broadcast: Some(MacAddr::ZERO), ..LinkSettings::default() };
        assert!(broadcast.changes(&LinkSettings::default()).is_empty());
        assert!(with(&[("group", 7)]).changes(&with(&[("groMaxSize", 9)])).is_empty());
        assert_eq!(with(&[("group", 7)]).changes(&with(&[("group", 0), ("groMaxSize", 9)])).len(), 1);
        assert!(with(&[("group", 7)]).changes(&with(&[("group", 7)])).is_empty());
    }
}
