//! Messages with which the kernel describes its objects: a header and attributes. Snapshots compare their bytes.
//!
//! This is not a decoder: what an attribute means does not matter for a comparison, except that some values change over time.
//! The tables name attributes for readers, and those to ignore. An attribute that they do not contain is compared, and shown
//! as a number.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::{Ipv4Addr, Ipv6Addr},
    ops::Range,
};

/// The names of the links of a namespace, by index.
pub(crate) type LinkNames = BTreeMap<u32, String>;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Link,
    Address,
    Route,
    Rule,
    RdmaDevice,
}

/// An object, without what changes over time, or differs for every new link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    kind: Kind,
    /// The names of the links that it refers to, in place of their indexes.
    links: Vec<String>,
    bytes: Vec<u8>,
}

/// What the value of an attribute is.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// Bytes to compare.
    Value,
    /// Attributes.
    Attributes(&'static [Attribute]),
    /// Attributes of a kind of link, whose name is the attribute before. The tables have what is not only to be compared.
    OfLinkKind(&'static [(&'static str, &'static [Attribute])]),
    /// The next hops of a route: headers, each with attributes.
    NextHops,
    /// Numbers of four bytes: the settings of a link.
    Settings,
    /// The index of a link.
    LinkIndex,
    /// The index of a link that is in another namespace if the attribute [`LINK_NETNSID`] is there.
    LowerLink,
    /// The address of a link.
    LinkAddress,
    /// What changes over time, or is a counter.
    Volatile,
    /// The same, except for a part.
    VolatileExcept(usize, usize),
}

#[derive(Debug)]
struct Attribute(u16, &'static str, Content);

use Content::*;

const IFNAME: u16 = 3;
const LINK_NETNSID: u16 = 37;
const ARPHRD_INFINIBAND: u16 = 32;
/// The flags of an attribute's type.
const TYPE: u16 = 0x3fff;

const LINK: &[Attribute] = &[
    Attribute(1, "address", LinkAddress),
    Attribute(2, "broadcast", Value),
    Attribute(IFNAME, "name", Value),
    Attribute(4, "mtu", Value),
    Attribute(5, "lower", LowerLink),
    Attribute(6, "qdisc", Value),
    Attribute(7, "statistics", Volatile),
    Attribute(10, "master", LinkIndex),
    Attribute(13, "txqlen", Value),
    Attribute(16, "operstate", Value),
    Attribute(18, "info", Attributes(LINK_INFO)),
    Attribute(20, "alias", Value),
    Attribute(22, "vf", Attributes(&[Attribute(1, "", Attributes(VF))])),
    Attribute(23, "statistics", Volatile),
    Attribute(26, "settings", Attributes(FAMILIES)),
    Attribute(30, "promiscuity", Value),
    // Of a link that is down it depends on the past; of one that is up the flags have it (net/core/dev.c: dev_get_flags).
    Attribute(33, "carrier", Volatile),
    Attribute(35, "carrier changes", Volatile),
    Attribute(LINK_NETNSID, "lower's namespace", Volatile),
    Attribute(39, "protodown", Value),
    Attribute(47, "carrier changes", Volatile),
    Attribute(48, "carrier changes", Volatile),
    Attribute(52, "altnames", Attributes(&[Attribute(53, "", Value)])),
    // No request sets it, but igbvf does when it resets a VF: to the current address (igbvf/netdev.c: igbvf_reset).
    Attribute(54, "permanent address", Volatile),
    Attribute(56, "parent", Value),
    Attribute(61, "allmulti", Value),
];

const LINK_INFO: &[Attribute] = &[
    Attribute(1, "kind", Value),
    Attribute(2, "", OfLinkKind(LINK_KINDS)),
    Attribute(3, "statistics", Volatile),
    Attribute(4, "port of", Value),
    Attribute(5, "port", OfLinkKind(PORT_KINDS)),
];

const LINK_KINDS: &[(&str, &[Attribute])] = &[
    ("bond", &[Attribute(2, "active port", LinkIndex), Attribute(11, "primary port", LinkIndex)]),
    (
        "bridge",
        &[
            Attribute(16, "hello timer", Volatile),
            Attribute(17, "tcn timer", Volatile),
            Attribute(18, "topology change timer", Volatile),
            Attribute(19, "gc timer", Volatile),
            Attribute(48, "learnt addresses", Volatile),
        ],
    ),
    ("vxlan", &[Attribute(3, "lower", LinkIndex)]),
];

const PORT_KINDS: &[(&str, &[Attribute])] = &[(
    "bridge",
    &[
        Attribute(21, "message age timer", Volatile),
        Attribute(22, "forward delay timer", Volatile),
        Attribute(23, "hold timer", Volatile),
    ],
)];

const VF: &[Attribute] = &[
    Attribute(1, "mac", Value),
    Attribute(2, "vlan", Value),
    Attribute(3, "tx rate", Value),
    Attribute(4, "spoofchk", Value),
    Attribute(5, "state", Value),
    Attribute(6, "rate", Value),
    Attribute(8, "statistics", Volatile),
    Attribute(9, "trust", Value),
    Attribute(10, "node guid", Value),
    Attribute(11, "port guid", Value),
    Attribute(12, "vlans", Value),
];

/// The settings of a link, which are sysctls, by address family.
const FAMILIES: &[Attribute] = &[
    Attribute(2, "ipv4", Attributes(&[Attribute(1, "", Settings)])),
    Attribute(
        10,
        "ipv6",
        Attributes(&[
            // Whether routers were solicited, and the moments of that.
            Attribute(1, "flags", Volatile),
            Attribute(2, "", Settings),
            Attribute(3, "statistics", Volatile),
            Attribute(5, "times", Volatile),
            Attribute(6, "statistics", Volatile),
            Attribute(7, "token", Value),
            Attribute(8, "addrgenmode", Value),
        ]),
    ),
];

const ADDRESS: &[Attribute] = &[
    Attribute(1, "address", Value),
    Attribute(2, "local", Value),
    Attribute(3, "label", Value),
    Attribute(4, "broadcast", Value),
    Attribute(6, "lifetimes", Volatile),
    Attribute(8, "flags", Value),
    Attribute(9, "metric", Value),
];

const ROUTE: &[Attribute] = &[
    Attribute(1, "to", Value),
    Attribute(2, "from", Value),
    Attribute(3, "in", LinkIndex),
    Attribute(4, "out", LinkIndex),
    Attribute(5, "via", Value),
    Attribute(6, "metric", Value),
    Attribute(7, "source", Value),
    Attribute(8, "metrics", Value),
    Attribute(9, "next hop", NextHops),
    // The age and the users of a route, but not its error.
    Attribute(12, "cache", VolatileExcept(12, 16)),
    Attribute(15, "table", Value),
    Attribute(20, "preference", Value),
    Attribute(23, "expires", Volatile),
];

const RULE: &[Attribute] = &[
    Attribute(1, "to", Value),
    Attribute(2, "from", Value),
    Attribute(3, "in", Value),
    Attribute(6, "priority", Value),
    Attribute(10, "mark", Value),
    Attribute(15, "table", Value),
    Attribute(17, "out", Value),
];

const RDMA_DEVICE: &[Attribute] = &[
    Attribute(1, "index", Volatile),
    Attribute(2, "name", Value),
    Attribute(3, "ports", Value),
    Attribute(4, "capabilities", Value),
    Attribute(5, "firmware", Value),
    Attribute(6, "node guid", Value),
    Attribute(7, "system image guid", Value),
    Attribute(14, "node type", Value),
];

impl Kind {
    /// The length of the header, and its part with the index of a link.
    fn header(self) -> (usize, Option<Range<usize>>) {
        match self {
            Self::Link => (16, Some(4..8)),
            Self::Address => (8, Some(4..8)),
            Self::Route | Self::Rule => (12, None),
            Self::RdmaDevice => (0, None),
        }
    }

    fn attributes(self) -> &'static [Attribute] {
        match self {
            Self::Link => LINK,
            Self::Address => ADDRESS,
            Self::Route => ROUTE,
            Self::Rule => RULE,
            Self::RdmaDevice => RDMA_DEVICE,
        }
    }
}

impl Message {
    /// Makes a message comparable: removes what changes, and replaces the indexes of links by their names.
    pub(crate) fn new(kind: Kind, mut bytes: Vec<u8>, names: &LinkNames) -> Self {
        let (length, index) = kind.header();
        let infiniband = kind == Kind::Link && number16(&bytes, 2) == ARPHRD_INFINIBAND;
        let elsewhere = kind == Kind::Link && find(&bytes[length..], LINK_NETNSID).is_some();
        let mut blanked = Blanking { names, infiniband, elsewhere, links: Vec::new() };
        if let Some(index) = index {
            blanked.link(&mut bytes[index]);
        }
        blanked.attributes(&mut bytes[length..], kind.attributes());
        Self { kind, links: blanked.links, bytes }
    }

    /// The words that tell it from most other objects of its kind.
    pub(crate) fn identity(&self) -> String {
        let links = self.links.join(" ");
        match self.kind {
            Kind::Link => format!("link {}", self.text(IFNAME)),
            Kind::Address => format!("addresses of {links}"),
            Kind::RdmaDevice => format!("rdma {}", self.text(2)),
            Kind::Rule => format!("rule {}", self.value(6).map_or(0, |value| number32(value, 0))),
            Kind::Route => {
                let to = self.value(1).map_or_else(|| "default".to_owned(), ip);
                format!("route {to}/{} {links}", self.bytes[1])
            }
        }
    }

    /// One line for each attribute.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (length, _) = self.kind.header();
        let mut shown = Showing { links: self.links.iter(), lines: Vec::new() };
        if length > 0 {
            shown.lines.push(format!("header {}", hex(&self.bytes[..length])));
        }
        if self.kind == Kind::Link || self.kind == Kind::Address {
            shown.links.next();
        }
        shown.attributes(&self.bytes[length..], self.kind.attributes(), &mut String::new());
        if let (Kind::Address, Some(address)) = (self.kind, self.value(1)) {
            let address = format!("{}/{}", ip(address), self.bytes[1]);
            shown.lines.iter_mut().for_each(|line| line.insert_str(0, &format!("{address} ")));
        }
        shown.lines
    }

    fn value(&self, number: u16) -> Option<&[u8]> {
        let bytes = &self.bytes[self.kind.header().0..];
        find(bytes, number).map(|range| &bytes[range])
    }

    fn text(&self, number: u16) -> String {
        self.value(number).and_then(text).unwrap_or_default().to_owned()
    }
}

/// Returns the index and the name of the link that a message describes.
pub(crate) fn link_name(message: &[u8]) -> (u32, String) {
    let (length, _) = Kind::Link.header();
    let name = find(&message[length..], IFNAME).and_then(|range| text(&message[length..][range]));
    (number32(message, 4), name.unwrap_or_default().to_owned())
}

struct Blanking<'a> {
    names: &'a LinkNames,
    infiniband: bool,
    elsewhere: bool,
    links: Vec<String>,
}

impl Blanking<'_> {
    fn attributes(&mut self, bytes: &mut [u8], table: &'static [Attribute]) {
        let mut before = 0..0;
        for (number, range) in ranges(bytes) {
            let content = content(table, number, &bytes[before]);
            let value = &mut bytes[range.clone()];
            match content {
                Value | Settings | OfLinkKind(_) => {}
                Attributes(table) => self.attributes(value, table),
                NextHops => self.next_hops(value),
                LinkIndex => self.link(value),
                LowerLink if self.elsewhere => value.fill(0),
                LowerLink => self.link(value),
                // The number of its queue pair. The kernel creates another one whenever it creates the link, as it does
                // when the RDMA device moves.
                LinkAddress if self.infiniband && value.len() == 20 => value[..4].fill(0),
                LinkAddress => {}
                Volatile => value.fill(0),
                VolatileExcept(from, to) => {
                    let to = to.min(value.len());
                    value[..from.min(to)].fill(0);
                    value[to..].fill(0);
                }
            }
            before = range;
        }
    }

    fn next_hops(&mut self, bytes: &mut [u8]) {
        for hop in hops(bytes) {
            let hop = &mut bytes[hop];
            self.link(&mut hop[4..8]);
            self.attributes(&mut hop[8..], ROUTE);
        }
    }

    fn link(&mut self, index: &mut [u8]) {
        let name = self.names.get(&number32(index, 0)).cloned();
        self.links.push(name.unwrap_or_default());
        index.fill(0);
    }
}

struct Showing<'a> {
    links: std::slice::Iter<'a, String>,
    lines: Vec<String>,
}

impl Showing<'_> {
    fn attributes(&mut self, bytes: &[u8], table: &'static [Attribute], path: &mut String) {
        let mut before = 0..0;
        for (position, (number, range)) in ranges(bytes).into_iter().enumerate() {
            let (value, length) = (&bytes[range.clone()], path.len());
            let attribute = table.iter().find(|attribute| attribute.0 == number);
            match attribute {
                // An element of a list.
                Some(Attribute(_, "", _)) if table.len() == 1 => _ = write!(path, "{position} "),
                Some(Attribute(_, "", _)) => {}
                Some(Attribute(_, name, _)) => _ = write!(path, "{name} "),
                None => _ = write!(path, "attribute {number} "),
            }
            match content(table, number, &bytes[before]) {
                Attributes(table) => self.attributes(value, table, path),
                NextHops => {
                    for hop in hops(value) {
                        let link = self.links.next().map_or("", |name| name);
                        self.lines.push(format!("{path}{link} {}", hex(&value[hop.clone()][2..4])));
                        self.attributes(&value[hop][8..], ROUTE, path);
                    }
                }
                Settings => {
                    let settings = value.chunks(4).map(|setting| number32(setting, 0)).enumerate();
                    self.lines.extend(
                        settings.map(|(position, value)| format!("{path}{} = {value}", position + 1)),
                    );
                }
                LinkIndex | LowerLink => {
                    let link = self.links.next().map_or("", |name| name);
                    self.lines.push(format!("{path}= {link}"));
                }
                Volatile | OfLinkKind(_) => {}
                Value | LinkAddress | VolatileExcept(..) => {
                    self.lines.push(format!("{path}= {}", shown(value)))
                }
            }
            path.truncate(length);
            before = range;
        }
    }
}

/// Returns what an attribute contains; `before` is the value of the attribute before it.
fn content(table: &[Attribute], number: u16, before: &[u8]) -> Content {
    let content = table.iter().find(|attribute| attribute.0 == number).map_or(Value, |attribute| attribute.2);
    let OfLinkKind(kinds) = content else { return content };
    let kind = kinds.iter().find(|(kind, _)| text(before) == Some(kind));
    Attributes(kind.map_or(&[], |(_, attributes)| attributes))
}

/// Returns the number of each attribute, and where its value is.
fn ranges(bytes: &[u8]) -> Vec<(u16, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 4 <= bytes.len() {
        let length = usize::from(number16(bytes, at));
        assert!(length >= 4 && at + length <= bytes.len(), "not attributes: {}", hex(bytes));
        found.push((number16(bytes, at + 2) & TYPE, at + 4..at + length));
        at += length.next_multiple_of(4);
    }
    found
}

fn find(bytes: &[u8], number: u16) -> Option<Range<usize>> {
    ranges(bytes).into_iter().find(|found| found.0 == number).map(|found| found.1)
}

/// Returns where each next hop is.
fn hops(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 8 <= bytes.len() {
        let length = usize::from(number16(bytes, at));
        assert!(length >= 8 && at + length <= bytes.len(), "not next hops: {}", hex(bytes));
        found.push(at..at + length);
        at += length.next_multiple_of(4);
    }
    found
}

fn number16(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the text of a value with a final NUL.
fn text(value: &[u8]) -> Option<&str> {
    let text = value.strip_suffix(&[0])?;
    let readable = !text.is_empty() && text.iter().all(|byte| (b' '..=b'~').contains(byte));
    if readable { std::str::from_utf8(text).ok() } else { None }
}

fn ip(value: &[u8]) -> String {
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Ipv4Addr::from(v4).to_string();
    }
    <[u8; 16]>::try_from(value).map_or_else(|_| hex(value), |v6| Ipv6Addr::from(v6).to_string())
}

/// Shows a value: as text, or its bytes. Short values may be numbers, and addresses.
fn shown(value: &[u8]) -> String {
    match (text(value), value.len()) {
        (Some(text), _) => text.to_owned(),
        (None, 4) => format!("{} ({})", number32(value, 0), ip(value)),
        (None, 16) => format!("{} ({})", hex(value), ip(value)),
        _ => hex(value),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
