//! The settings of a link besides its names, MAC address, MTU and up state.
//!
//! The owner of a network namespace may change them (`RTM_NEWLINK`), and a link keeps them when it moves to another one.

use std::collections::BTreeMap;

use identifiers::MacAddr;
use netlink_packet_core::{DefaultNla, NLA_TYPE_MASK, Nla, NlasIterator};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkXdp};
use rtnetlink::LinkUnspec;
use serde::{Deserialize, Serialize};

use crate::{Error, Handle, attributes::text};

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
const FLAGS: LinkFlags = LinkFlags::Debug
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
    flags: u32,
    /// The alias; invalid UTF-8 and control characters are replaced by U+FFFD.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    alias: String,
    /// The broadcast address; `None` if it does not have six bytes.
    broadcast: Option<MacAddr>,
    /// The attributes of [`NUMBERS`] that the kernel supports.
    numbers: BTreeMap<String, u32>,
    /// The mode of the attached XDP program, an `XDP_ATTACHED_` number; 0 means none.
    xdp: u8,
}

impl LinkSettings {
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

    /// Returns the modes (`XDP_FLAGS_`) in which a program must be removed, one by one.
    fn programs_besides(&self, former: &Self) -> &'static [u32] {
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
    fn changes(&self, former: &Self) -> Vec<LinkAttribute> {
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

impl Handle {
    /// Removes the XDP programs of a link that are not in `former`. This must be done before other changes: a program
    /// blocks some MTUs, channels and offloads.
    ///
    /// # Errors
    /// Refused with `EBUSY` if a running process holds a program on the link (by a `bpf_link`). Any other of [`Error`].
    #[doc(alias = "ip link set xdp off")]
    pub fn remove_programs(
        &self,
        index: u32,
        now: &LinkSettings,
        former: &LinkSettings,
    ) -> Result<(), Error> {
        now.programs_besides(former).iter().try_for_each(|flags| {
            let mut message = LinkUnspec::new_with_index(index).build();
            message.attributes.push(LinkAttribute::Xdp(vec![LinkXdp::Fd(-1), LinkXdp::Flags(*flags)]));
            self.change_link("remove the XDP program from", index, message)
        })
    }

    /// Changes the settings of a link from `now` to `former`, except XDP programs: see [`Handle::remove_programs`].
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn restore_settings(
        &self,
        index: u32,
        now: &LinkSettings,
        former: &LinkSettings,
    ) -> Result<(), Error> {
        const OPERATION: &str = "restore the settings of";
        let mut flags = LinkUnspec::new_with_index(index).build();
        flags.header.change_mask = LinkFlags::from_bits_retain(now.flags ^ former.flags) & FLAGS;
        flags.header.flags = LinkFlags::from_bits_retain(former.flags);
        let mut result = Ok(());
        if !flags.header.change_mask.is_empty() {
            result = self.change_link(OPERATION, index, flags);
        }
        let message = |attributes| {
            let mut message = LinkUnspec::new_with_index(index).build();
            message.attributes = attributes;
            message
        };
        let changes = now.changes(former);
        if changes.is_empty() || self.change_link(OPERATION, index, message(changes.clone())).is_ok() {
            return result;
        }
        // Set them one by one, so that a setting that the driver refuses does not affect the others.
        for change in changes {
            result = result.and(self.change_link(OPERATION, index, message(vec![change])));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Observe, TestNode};

    use super::*;

    fn settings(links: &Handle) -> LinkSettings {
        links.link(&"v0".parse().unwrap()).unwrap().settings
    }

    #[test]
    fn every_changed_setting_is_restored() {
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        node.run_ip("link set v0 alias rail group 7 gso_max_size 60000 gro_max_size 50000");
        let links = Handle::open().unwrap();
        let (index, before, shown) =
            (links.link(&"v0".parse().unwrap()).unwrap().index, settings(&links), node.link("v0"));
        for change in [
            "promisc on allmulticast on multicast off arp off dynamic on trailers off",
            "alias evil group 9 txqueuelen 3 mode dormant",
            "broadcast 02:66:66:66:66:66",
            "gso_max_size 3000 gso_max_segs 3 gro_max_size 3000",
        ] {
            for change in change.split(' ').collect::<Vec<_>>().chunks(2) {
                node.run_ip(&format!("link set v0 {}", change.join(" ")));
            }
            let now = settings(&links);
            assert_ne!(now, before, "{change}");
            links.restore_settings(index, &now, &before).unwrap();
            assert_eq!(node.link("v0"), shown, "{change}");
            assert_eq!(settings(&links), before, "{change}");
        }
    }

    #[test]
    fn a_new_alias_is_removed_and_an_unreadable_former_one_is_not_restored() {
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        let links = Handle::open().unwrap();
        let (index, before) = (links.link(&"v0".parse().unwrap()).unwrap().index, settings(&links));
        node.run_ip("link set v0 alias evil");
        links.restore_settings(index, &settings(&links), &before).unwrap();
        assert!(node.link("v0").unwrap()["ifalias"].is_null());
        node.run_ip("link set v0 alias evil");
        let unknown = LinkSettings { alias: "\u{fffd}".into(), ..before };
        links.restore_settings(index, &settings(&links), &unknown).unwrap();
        assert_eq!(node.link("v0").unwrap()["ifalias"], "evil");
    }
}
