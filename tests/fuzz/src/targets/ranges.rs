//! Lists of ranges: `ips`, `excludeIPs` and reserved addresses, against a simple model.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipam::{IpFamily, IpRange, IpRanges};

/// The maximum number of lines: longer inputs add no coverage, and the model is slow.
const MAX_LINES: usize = 24;
/// The maximum number of addresses that are compared one by one.
const MAX_COMPARED: u128 = 512;

/// One range in each line; `-` before it excludes it, `!` reserves it.
pub(super) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let mut lists = Lists::default();
    for line in text.lines().take(MAX_LINES) {
        lists.add(line);
    }
    for family in IpFamily::ALL {
        let ranges = IpRanges::new(family, &lists.listed, &lists.excluded).without(&lists.reserved);
        lists.compare(&ranges);
    }
}

#[derive(Default)]
struct Lists {
    listed: Vec<IpRange>,
    excluded: Vec<IpRange>,
    reserved: Vec<IpRange>,
}

impl Lists {
    fn add(&mut self, line: &str) {
        let (list, text) = match line.split_at_checked(1) {
            Some(("-", text)) => (&mut self.excluded, text),
            Some(("!", text)) => (&mut self.reserved, text),
            _ => (&mut self.listed, line),
        };
        let Ok(range) = text.parse::<IpRange>() else { return };
        assert_eq!(range.to_string().parse(), Ok(range), "{text:?} is changed by a round trip");
        assert!(range.contains(range.first()) && range.contains(range.last()));
        list.push(range);
    }

    /// Whether an address can be allocated, according to the model.
    fn contain(&self, address: IpAddr) -> bool {
        let any = |ranges: &[IpRange]| ranges.iter().any(|range| range.contains(address));
        any(&self.listed) && !any(&self.excluded) && !any(&self.reserved)
    }

    fn compare(&self, ranges: &IpRanges) {
        for address in self.boundaries().filter(|address| IpFamily::of(*address) == ranges.family()) {
            let ordinal = ranges.ordinal(address);
            assert_eq!(ordinal.is_some(), self.contain(address), "{address}");
            assert_eq!(
                ordinal.and_then(|ordinal| ranges.nth(ordinal)),
                ordinal.map(|_| address),
                "{address}"
            );
        }
        assert_eq!(ranges.is_empty(), ranges.nth(0).is_none());
        // `::/0` has one address more than u128::MAX.
        assert!(ranges.len() == u128::MAX || ranges.nth(ranges.len()).is_none());
        for ordinal in (0..ranges.len()).take(2).chain(ranges.len().checked_sub(1)) {
            assert!(ranges.nth(ordinal).is_some_and(|address| self.contain(address)), "ordinal {ordinal}");
        }
        if ranges.len() <= MAX_COMPARED {
            self.list(ranges);
        }
    }

    /// Compares all addresses: in list order, each once.
    fn list(&self, ranges: &IpRanges) {
        let mut expected: Vec<IpAddr> = Vec::new();
        for range in self.listed.iter().filter(|range| range.family() == ranges.family()) {
            let mut next = Some(range.first());
            while let Some(address) = next.filter(|address| *address <= range.last()) {
                if self.contain(address) && !expected.contains(&address) {
                    expected.push(address);
                }
                next = self.skip(address);
            }
        }
        let actual: Vec<_> = (0..ranges.len()).filter_map(|ordinal| ranges.nth(ordinal)).collect();
        assert_eq!(actual, expected);
    }

    /// The address after this one, or after an excluded range that begins with it: those may be long.
    fn skip(&self, address: IpAddr) -> Option<IpAddr> {
        let out = self.excluded.iter().chain(&self.reserved).filter(|range| range.contains(address));
        neighbour(out.map(IpRange::last).max().unwrap_or(address), 1)
    }

    /// The ends of every range and the adjacent addresses.
    fn boundaries(&self) -> impl Iterator<Item = IpAddr> {
        let all = self.listed.iter().chain(&self.excluded).chain(&self.reserved);
        all.flat_map(|range| [range.first(), range.last()])
            .flat_map(|address| [neighbour(address, -1), Some(address), neighbour(address, 1)])
            .flatten()
    }
}

fn neighbour(address: IpAddr, by: i8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => {
            u32::from(v4).checked_add_signed(by.into()).map(|number| Ipv4Addr::from(number).into())
        }
        IpAddr::V6(v6) => {
            u128::from(v6).checked_add_signed(by.into()).map(|number| Ipv6Addr::from(number).into())
        }
    }
}
