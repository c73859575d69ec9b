//! Pseudonyms for addresses and host names: the same text has the same pseudonym everywhere in a bundle.
//!
//! Pseudonyms are numbered in order of appearance. A hash would not be safe: there are only four billion IPv4 addresses, so
//! that it could be reversed by brute force.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::LazyLock,
};

use regex_lite::{Captures, Regex};

/// Replaces addresses and host names by pseudonyms.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Host names in lower case, in descending order of length.
    hosts: Vec<String>,
    given: BTreeMap<(PseudonymKind, String), String>,
    count: BTreeMap<PseudonymKind, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PseudonymKind {
    Ip4,
    Ip6,
    Mac,
    Guid,
    Host,
}

/// `01-52-54-00-aa-bb-cc`, `52-54-00-aa-bb-cc`, `5254.00aa.bbcc`.
static ODD_MAC: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a constant, which tests use")]
    Regex::new(
        r"\b(?:[0-9A-Fa-f]{2}-){5,6}[0-9A-Fa-f]{2}\b|\b[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\b",
    )
    .expect("a pattern")
});

/// `10.1.2.3`, also within a longer run of numbers: `10.1.2.3.443`, `10.1.2.3..10.1.2.9`.
static DOTTED: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a constant, which tests use")]
    Regex::new(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}").expect("a pattern")
});

/// `10-1-2-3` or `10_1_2_3`, as in names of hosts and pods.
static DASHED: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a constant, which tests use")]
    Regex::new(r"[0-9]{1,3}(?:-[0-9]{1,3}){3}|[0-9]{1,3}(?:_[0-9]{1,3}){3}").expect("a pattern")
});

/// The maximum number of groups of an IPv6 address in text: 8, plus an empty one if it begins or ends with `::`.
const GROUPS: usize = 9;

/// Host names that are the same on every node, and are not replaced.
const PUBLIC: [&str; 6] = ["localhost", "localdomain", "none", "local", "cluster", "svc"];

impl Redactor {
    /// Creates a redactor for the names of these hosts and their domains.
    pub fn of(hosts: &[String]) -> Self {
        let mut names = BTreeSet::new();
        for host in hosts {
            let host = host.trim_matches(['(', ')', '.']).to_ascii_lowercase();
            if host.parse::<IpAddr>().is_ok() {
                continue;
            }
            if let Some((short, domain)) = host.split_once('.') {
                names.extend([short.to_owned(), domain.to_owned()]);
            }
            names.insert(host);
        }
        names.retain(|name| name.len() > 1 && !PUBLIC.contains(&name.as_str()) && !name.starts_with("ip6-"));
        names.retain(|name| !name.bytes().all(|byte| byte.is_ascii_digit()));
        let mut hosts: Vec<String> = names.into_iter().collect();
        hosts.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Self { hosts, ..Self::default() }
    }

    /// Replaces a text that is a single identifier in an unknown form.
    pub(super) fn guid(&mut self, text: &str) -> String {
        let digits = text.trim();
        text.replace(digits, &self.name(PseudonymKind::Guid, &digits.to_ascii_lowercase()))
    }

    /// Returns the text with pseudonyms.
    pub(super) fn text(&mut self, text: &str) -> String {
        let text = self.names(text);
        let text = self.macs(&text);
        let text = self.numbers(&text, &DASHED);
        let mut result = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(begin) = rest.find(is_part) {
            let (before, from) = rest.split_at(begin);
            let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
            let (run, after) = from.split_at(end);
            result.push_str(before);
            let digits = run.trim_end_matches([':', '.']);
            if digits.len() == 12 && result.ends_with("enx") && !digits.contains([':', '.']) {
                result.push_str(&self.name(PseudonymKind::Mac, &digits.to_ascii_lowercase()));
                result.push_str(&run[12..]);
            } else if run == "0" && after.starts_with('x') {
                // `0x` and the digits after it are one number.
                result.push_str("0x");
                rest = &after[1..];
                let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
                if digits == 16 {
                    result.push_str(&self.name(PseudonymKind::Guid, &rest[..16].to_ascii_lowercase()));
                    rest = &rest[16..];
                }
                continue;
            } else {
                self.run(run, &mut result);
            }
            rest = after;
        }
        result.push_str(rest);
        result
    }

    /// Appends a run of hexadecimal digits, colons and dots, which contains any number of addresses.
    fn run(&mut self, run: &str, result: &mut String) {
        let inner = run.trim_end_matches('.');
        let inner = match inner.strip_suffix(':') {
            Some(shorter) if !shorter.ends_with(':') => shorter,
            _ => inner,
        };
        let (inner, tail) = run.split_at(inner.len());
        match inner.parse() {
            Ok(IpAddr::V4(v4)) => result.push_str(&self.v4(v4)),
            Ok(IpAddr::V6(v6)) => result.push_str(&self.v6(v6)),
            Err(_) => self.groups(inner, result),
        }
        result.push_str(tail);
    }

    /// Appends a run that is not an IP address as a whole.
    fn groups(&mut self, run: &str, result: &mut String) {
        let groups: Vec<&str> = run.split(':').collect();
        let mut at = 0;
        while at < groups.len() {
            if at > 0 {
                result.push(':');
            }
            let alike = |length: usize| groups[at..].iter().take_while(|group| is_hex(group, length)).count();
            let (pairs, fours) = (alike(2), alike(4));
            if pairs >= 6 {
                let kind = if pairs == 6 { PseudonymKind::Mac } else { PseudonymKind::Guid };
                result.push_str(&self.name(kind, &groups[at..at + pairs].concat().to_ascii_lowercase()));
                at += pairs;
            } else if fours >= 4 {
                result.push_str(
                    &self.name(PseudonymKind::Guid, &groups[at..at + fours].concat().to_ascii_lowercase()),
                );
                at += fours;
            } else if let Some((length, v6, port)) = v6_within(&groups[at..]) {
                result.extend([self.v6(v6).as_str(), port]);
                at += length;
            } else {
                result.push_str(&self.numbers(groups[at], &DOTTED));
                at += 1;
            }
        }
    }

    /// Replaces IPv4 addresses that match the pattern. Adjacent numbers, such as a port, are not changed.
    fn numbers(&mut self, text: &str, pattern: &Regex) -> String {
        let (mut result, mut kept, mut at) = (String::with_capacity(text.len()), 0, 0);
        while let Some(found) = pattern.find_at(text, at) {
            let is_within = text[..found.start()].ends_with(|c: char| c.is_ascii_digit())
                || text[found.end()..].starts_with(|c: char| c.is_ascii_digit());
            let Some(address) = v4_of(found.as_str()).filter(|_| !is_within) else {
                at = found.start() + 1;
                continue;
            };
            at = found.end();
            if !is_public(address) {
                result.push_str(&text[kept..found.start()]);
                result.push_str(&self.v4(address));
                kept = at;
            }
        }
        result.push_str(&text[kept..]);
        result
    }

    /// Replaces MAC addresses with dashes or dots. PXE writes the hardware type before the address: `01-52-54-00-aa-bb-cc`.
    fn macs(&mut self, text: &str) -> String {
        let replaced = ODD_MAC.replace_all(text, |found: &Captures<'_>| {
            let digits: String = found[0].chars().filter(char::is_ascii_hexdigit).collect();
            let (kind, mac) = digits.split_at(digits.len().saturating_sub(12));
            let dash = if kind.is_empty() { "" } else { "-" };
            format!("{kind}{dash}{}", self.name(PseudonymKind::Mac, &mac.to_ascii_lowercase()))
        });
        replaced.into_owned()
    }

    fn v4(&mut self, address: Ipv4Addr) -> String {
        if is_public(address) {
            return address.to_string();
        }
        self.name(PseudonymKind::Ip4, &address.to_string())
    }

    /// Returns the pseudonym. An IPv4-mapped GID has the pseudonym of the IPv4 address.
    fn v6(&mut self, address: Ipv6Addr) -> String {
        match address.to_ipv4_mapped() {
            Some(v4) => format!("::ffff:{}", self.v4(v4)),
            None if address.is_loopback() || address.is_unspecified() => address.to_string(),
            None => self.name(PseudonymKind::Ip6, &address.to_string()),
        }
    }

    fn name(&mut self, kind: PseudonymKind, text: &str) -> String {
        if let Some(name) = self.given.get(&(kind, text.to_owned())) {
            return name.clone();
        }
        // All zeros is not an address; a zero GUID is relevant for the diagnosis.
        if matches!(kind, PseudonymKind::Guid | PseudonymKind::Mac) && text.bytes().all(|byte| byte == b'0') {
            return format!("{}-zero", kind.prefix());
        }
        let count = self.count.entry(kind).or_default();
        *count += 1;
        let name = format!("{}-{count}", kind.prefix());
        self.given.insert((kind, text.to_owned()), name.clone());
        name
    }

    fn names(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for host in self.hosts.clone() {
            let mut from = 0;
            while let Some(at) = text[from..].to_ascii_lowercase().find(&host).map(|at| at + from) {
                let end = at + host.len();
                let part = |c: char| c.is_alphanumeric() || c == '_';
                let within = text[..at].chars().next_back().is_some_and(part)
                    || text[end..].chars().next().is_some_and(part);
                if within {
                    from = end;
                    continue;
                }
                let name = self.name(PseudonymKind::Host, &host);
                text.replace_range(at..end, &name);
                from = at + name.len();
            }
        }
        text
    }
}

impl PseudonymKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Ip4 => "ip4",
            Self::Ip6 => "ip6",
            Self::Mac => "mac",
            Self::Guid => "guid",
            Self::Host => "host",
        }
    }
}

/// Returns whether an address is the same on every node.
fn is_public(address: Ipv4Addr) -> bool {
    address.is_loopback() || address.is_unspecified() || address.is_broadcast()
}

/// Parses four decimal numbers with any separators. Leading zeros are allowed.
fn v4_of(text: &str) -> Option<Ipv4Addr> {
    let octets = text.split(|c: char| !c.is_ascii_digit()).map(|octet| octet.parse::<u8>().ok());
    let octets: [u8; 4] = octets.collect::<Option<Vec<_>>>()?.try_into().ok()?;
    Some(octets.into())
}

/// Returns the IPv6 address at the beginning of the groups: the number of groups, the address, and a port after a dot, as
/// `tcpdump` writes it.
fn v6_within<'a>(groups: &[&'a str]) -> Option<(usize, Ipv6Addr, &'a str)> {
    let longest = groups.len().min(GROUPS);
    (3..=longest).rev().find_map(|length| {
        let (last, before) = groups[..length].split_last()?;
        let split = |at: usize| last.split_at(at);
        let ends = last.match_indices('.').map(|(at, _)| split(at)).chain([(*last, "")]);
        ends.rev().find_map(|(end, port)| {
            let address: Ipv6Addr = format!("{}:{end}", before.join(":")).parse().ok()?;
            (!address.is_unspecified()).then_some((length, address, port))
        })
    })
}

fn is_part(c: char) -> bool {
    c.is_ascii_hexdigit() || matches!(c, ':' | '.')
}

fn is_hex(group: &str, length: usize) -> bool {
    group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        Redactor::of(&["Gpu-17.rack.example.com".into(), "10.0.0.9".into()]).text(text)
    }

    #[test]
    fn every_kind_of_address_has_a_pseudonym() {
        for (text, expected) in [
            ("inet 10.1.2.3/24 brd 10.1.2.255.", "inet ip4-1/24 brd ip4-2."),
            ("172.81.0.100-172.81.0.120", "ip4-1-ip4-2"),
            ("from 10.1.2.3:4791 to ::ffff:10.1.2.3", "from ip4-1:4791 to ::ffff:ip4-1"),
            ("ip=10.1.2.3::10.1.2.1:255.255.255.0:x:eth0", "ip=ip4-1::ip4-2:ip4-3:x:eth0"),
            ("0000:0000:0000:0000:0000:ffff:0a01:0203", "::ffff:ip4-1"),
            ("fe80::5054:ff:fe00:1 and fe80:0000:0000:0000:5054:00ff:fe00:0001", "ip6-1 and ip6-1"),
            ("at fd00::1: in use", "at ip6-1: in use"),
            ("[fd00::1%eth0]", "[ip6-1%eth0]"),
            ("link/ether 52:54:00:AA:bb:cc; mac:52:54:00:aa:bb:cc", "link/ether mac-1; mguid-1"),
            ("node_guid 0c42:a103:0065:1234, 0x0c42a10300651234", "node_guid guid-1, 0xguid-1"),
            ("80:00:02:08:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:12:34", "guid-1"),
            ("enx525400aabbcc: 52:54:00:aa:bb:cc", "enxmac-1: mac-1"),
            ("BOOTIF=01-52-54-00-aa-bb-cc mac=52-54-00-AA-BB-CC", "BOOTIF=01-mac-1 mac=mac-1"),
            ("52:54:00:aa:bb:cc is 5254.00aa.bbcc", "mac-1 is mac-1"),
            ("addr:fd00::1 and identifiers:::ffff:10.1.2.3", "addr:ip6-1 and identifiers:::ffff:ip4-1"),
            ("IP6 fd00::1.443 > fd00::2.53", "IP6 ip6-1.443 > ip6-2.53"),
            ("10.1.2.3..10.1.2.9", "ip4-1..ip4-2"),
            ("IP 10.1.2.3.443 > 10.1.2.9.53: Flags", "IP ip4-1.443 > ip4-2.53: Flags"),
            (
                "ip-10-1-2-3.ec2 is 10-1-2-3.pod, 10_1_2_3 and 10.1.2.3",
                "ip-ip4-1.ec2 is ip4-1.pod, ip4-1 and ip4-1",
            ),
            ("3.2.1.10.in-addr.arpa 10.1.2.3.default.svc", "ip4-1.in-addr.arpa ip4-2.default.svc"),
            ("via10.1.2.3dev 010.001.002.003 x=10.1.2.3,10.1.2.9", "viaip4-1dev ip4-1 x=ip4-1,ip4-2"),
            ("fd00::/64 fd00:1:2:3::/64 64:ff9b::10.1.2.3", "ip6-1/64 ip6-2/64 ip6-3"),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn host_and_domain_names_have_a_pseudonym_as_whole_words() {
        assert_eq!(
            redacted("Gpu-17 login: gpu-17.rack.example.com x.rack.example.com"),
            "host-3 login: host-1 x.host-2"
        );
        assert_eq!(redacted("gpu-170 mygpu-17"), "gpu-170 mygpu-17");
    }

    #[test]
    fn other_text_is_not_changed() {
        for text in [
            "0000:af:00.0 at 2026-11-20T08:01:02.123Z, 6.12.95, 16.35.4506",
            "0x0 0x1d 127.0.0.1 ::1 :: 0.0.0.0",
            "[5.140900] mlx5_core: deadbeef cafe",
            "net:[4026532210] 231:192 10:122",
            "ib_core 1 2 mlx5_ib, Live 0x0000000000000000 (OE)",
            "2026-11-20 08:01:02, cpus 0-3,8-11, 6.8.0-45-generic, usb 1-1.2, 300.1.2.3, node-127-0-0-1",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8 add:bad",
        ] {
            assert_eq!(redacted(text).replace("0xguid-zero", "0x0000000000000000"), text);
        }
    }

    #[test]
    fn a_zero_guid_has_its_own_pseudonym() {
        assert_eq!(redacted("0000:0000:0000:0000"), "guid-zero");
    }
}
