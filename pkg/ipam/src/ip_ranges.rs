//! The allocatable addresses of a pool.
//!
//! They are stored as intervals, so a /64 needs as much memory as a single address. The intervals keep the order in
//! which they were written, because addresses are tried in that order. A second index, sorted by address, finds the
//! ordinal of an address.

use std::{fmt, net::IpAddr};

use crate::{
    IpFamily, IpRange,
    ip_range::{address, number},
};

/// Disjoint ranges of one family in the order written. Their addresses are numbered from 0: the *ordinals*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpRanges {
    family: IpFamily,
    intervals: Vec<NumberedRange>,
    /// Indices into `intervals`, sorted by address.
    by_address: Vec<usize>,
}

/// The addresses `first..=last`; `ordinal` is the ordinal of `first`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberedRange {
    pub(crate) first: u128,
    pub(crate) last: u128,
    pub(crate) ordinal: u128,
}

impl NumberedRange {
    /// Returns the number of addresses. For `::/0`, which has 2^128, it is `u128::MAX`.
    fn len(&self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }
}

impl IpRanges {
    /// Returns the addresses of `listed`, in that order, without those of `excluded`.
    ///
    /// Ranges of the other family are ignored. An address that is listed twice keeps its first position.
    pub fn new(family: IpFamily, listed: &[IpRange], excluded: &[IpRange]) -> Self {
        let listed = listed.iter().filter(|range| range.family() == family);
        let mut taken = merged(family, excluded);
        let mut spans = Vec::new();
        for range in listed {
            let span = (number(range.first()), number(range.last()));
            let left = subtract(span, &taken);
            if !left.is_empty() {
                insert(&mut taken, span);
            }
            spans.extend(left);
        }
        Self::from_spans(family, spans)
    }

    /// Returns the ranges without the addresses of `excluded`, in the same order.
    pub fn without(&self, excluded: &[IpRange]) -> Self {
        let taken = merged(self.family, excluded);
        let spans =
            self.intervals.iter().flat_map(|interval| subtract((interval.first, interval.last), &taken));
        Self::from_spans(self.family, spans)
    }

    /// Returns the addresses that are in `wanted`, too, in the same order.
    pub fn within(&self, wanted: &[IpRange]) -> Self {
        let wanted = merged(self.family, wanted);
        let spans = self.intervals.iter().flat_map(|interval| {
            let from = wanted.partition_point(|(_, end)| *end < interval.first);
            let both = wanted[from..].iter().take_while(|(start, _)| *start <= interval.last);
            both.map(|(start, end)| (interval.first.max(*start), interval.last.min(*end)))
        });
        Self::from_spans(self.family, spans)
    }

    /// Returns the ranges of disjoint spans, numbered in their order.
    pub(crate) fn from_spans(family: IpFamily, spans: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut ordinal = 0_u128;
        let mut intervals = Vec::new();
        for (first, last) in spans {
            let interval = NumberedRange { first, last, ordinal };
            ordinal = ordinal.saturating_add(interval.len());
            intervals.push(interval);
        }
        let mut by_address: Vec<usize> = (0..intervals.len()).collect();
        by_address.sort_unstable_by_key(|index| intervals[*index].first);
        Self { family, intervals, by_address }
    }

    /// Returns the family of the addresses.
    pub fn family(&self) -> IpFamily {
        self.family
    }

    /// Returns the number of addresses; `u128::MAX` for `::/0`.
    pub fn len(&self) -> u128 {
        self.intervals.last().map_or(0, |interval| interval.ordinal.saturating_add(interval.len()))
    }

    /// Whether there is no address.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Returns the address with that ordinal; `None` from [`IpRanges::len`] on.
    pub fn nth(&self, ordinal: u128) -> Option<IpAddr> {
        let index = self.intervals.partition_point(|interval| interval.ordinal <= ordinal).checked_sub(1)?;
        let interval = self.intervals.get(index)?;
        let number = interval.first.checked_add(ordinal - interval.ordinal)?;
        if number > interval.last {
            return None;
        }
        address(self.family, number)
    }

    /// Returns the ordinal of an address; `None` if the ranges do not contain it.
    pub fn ordinal(&self, address: IpAddr) -> Option<u128> {
        if IpFamily::of(address) != self.family {
            return None;
        }
        let number = number(address);
        let at =
            self.by_address.partition_point(|index| self.intervals[*index].first <= number).checked_sub(1)?;
        let interval = self.intervals.get(*self.by_address.get(at)?)?;
        (number <= interval.last).then(|| interval.ordinal + (number - interval.first))
    }

    /// Whether the ranges contain the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ordinal(address).is_some()
    }

    /// Returns the ranges in their order.
    pub fn iter(&self) -> impl Iterator<Item = IpRange> {
        self.intervals.iter().filter_map(|interval| {
            IpRange::new(address(self.family, interval.first)?, address(self.family, interval.last)?)
        })
    }

    pub(crate) fn intervals(&self) -> &[NumberedRange] {
        &self.intervals
    }
}

/// Prints the ranges in the notation of a pool's `ips`, at most eight of them.
impl fmt::Display for IpRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 8;
        let address =
            |number| address(self.family, number).map(|address| address.to_string()).unwrap_or_default();
        for (index, NumberedRange { first, last, .. }) in self.intervals.iter().take(MOST).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            if first == last {
                write!(f, "{comma}{}", address(*first))?;
            } else {
                write!(f, "{comma}{}-{}", address(*first), address(*last))?;
            }
        }
        match self.intervals.len() {
            0 => f.write_str("no address"),
            1..=MOST => Ok(()),
            _ => f.write_str(", …"),
        }
    }
}

/// Returns the ranges of a family as sorted, disjoint spans.
fn merged(family: IpFamily, ranges: &[IpRange]) -> Vec<(u128, u128)> {
    let mut spans: Vec<_> = ranges
        .iter()
        .filter(|range| range.family() == family)
        .map(|range| (number(range.first()), number(range.last())))
        .collect();
    spans.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(spans.len());
    for (first, last) in spans {
        match merged.last_mut() {
            Some(previous) if first <= previous.1 => previous.1 = previous.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// Returns the parts of a span that are not in `taken` (sorted and disjoint).
fn subtract((first, last): (u128, u128), taken: &[(u128, u128)]) -> Vec<(u128, u128)> {
    let mut left = Vec::new();
    let mut from = first;
    for &(start, end) in &taken[taken.partition_point(|(_, end)| *end < first)..] {
        if start > last {
            break;
        }
        if start > from {
            left.push((from, start - 1));
        }
        match end.checked_add(1) {
            Some(next) if next <= last => from = next,
            _ => return left, // the rest of the span is taken; also at u128::MAX
        }
    }
    left.push((from, last));
    left
}

/// Adds a span to sorted, disjoint ones and merges it with those that it overlaps.
fn insert(taken: &mut Vec<(u128, u128)>, (first, last): (u128, u128)) {
    let from = taken.partition_point(|(_, end)| *end < first);
    let to = taken.partition_point(|(start, _)| *start <= last);
    let start = taken[from..to].first().map_or(first, |span| span.0.min(first));
    let end = taken[from..to].last().map_or(last, |span| span.1.max(last));
    taken.splice(from..to, [(start, end)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Vec<IpRange> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn ranges(listed: &[&str], excluded: &[&str]) -> IpRanges {
        let (listed, excluded) = (parse(listed), parse(excluded));
        IpRanges::new(listed[0].family(), &listed, &excluded)
    }

    fn all(ranges: &IpRanges) -> Vec<String> {
        (0..ranges.len()).map(|ordinal| ranges.nth(ordinal).unwrap().to_string()).collect()
    }

    #[test]
    fn addresses_are_in_list_order_without_the_excluded_ones() {
        let ranges =
            ranges(&["10.0.0.8-10.0.0.12", "10.0.0.1-10.0.0.2"], &["10.0.0.9-10.0.0.10", "10.0.0.2"]);
        assert_eq!(all(&ranges), ["10.0.0.8", "10.0.0.11", "10.0.0.12", "10.0.0.1"]);
        assert_eq!(ranges.ordinal("10.0.0.1".parse().unwrap()), Some(3));
        assert_eq!(ranges.ordinal("10.0.0.9".parse().unwrap()), None);
        // The number of this address is that of 10.0.0.8.
        assert_eq!(ranges.ordinal("::a00:8".parse().unwrap()), None);
        let both = IpRanges::new(IpFamily::V6, &parse(&["10.0.0.1", "fd00::1"]), &parse(&["10.0.0.1"]));
        assert_eq!(all(&both), ["fd00::1"]);
        assert_eq!(both.without(&parse(&["10.0.0.1"])).within(&parse(&["10.0.0.1", "fd00::1"])).len(), 1);
        assert_eq!(ranges.nth(4), None);
    }

    #[test]
    fn ipam_case_006_an_address_listed_twice_is_contained_once() {
        assert_eq!(all(&ranges(&["10.0.0.1-10.0.0.3", "10.0.0.2-10.0.0.4", "10.0.0.1"], &[])).len(), 4);
    }

    #[test]
    fn ipam_case_009_everything_excluded_is_empty() {
        let ranges = ranges(&["10.0.0.1-10.0.0.9"], &["10.0.0.0-10.0.0.5", "10.0.0.4-10.0.0.9"]);
        assert!(ranges.is_empty());
        assert_eq!((ranges.len(), ranges.nth(0)), (0, None));
    }

    #[test]
    fn ipam_case_021_022_large_ranges_are_not_listed() {
        let v6 = ranges(&["fd00::-fd00::ffff:ffff:ffff:ffff"], &["fd00::-fd00::ff"]);
        assert_eq!(v6.len(), (1 << 64) - 256);
        assert_eq!(v6.nth(v6.len() - 1), Some("fd00::ffff:ffff:ffff:ffff".parse().unwrap()));
        let v4 = ranges(&["10.0.0.0-10.255.255.255"], &[]);
        assert_eq!(v4.len(), 1 << 24);
        assert_eq!(v4.ordinal("10.1.0.0".parse().unwrap()), Some(65536));
    }

    #[test]
    fn ipam_case_023_nothing_wraps_at_the_last_address() {
        let v4 = ranges(&["255.255.255.254-255.255.255.255"], &[]);
        assert_eq!(all(&v4), ["255.255.255.254", "255.255.255.255"]);
        assert_eq!(v4.nth(2), None);
        let last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        let v6 = ranges(&[&format!("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe-{last}")], &[last]);
        assert_eq!(v6.len(), 1);
        let whole = ranges(&[&format!("::-{last}")], &[]);
        assert_eq!(whole.len(), u128::MAX);
        assert_eq!(whole.nth(u128::MAX), Some(last.parse().unwrap()));
        assert!(ranges(&[&format!("::-{last}")], &[&format!("::-{last}")]).is_empty());
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        fn range() -> impl Strategy<Value = IpRange> {
            (0_u8..=255, 0_u8..32).prop_map(|(first, more)| {
                format!("255.255.255.{first}-255.255.255.{}", first.saturating_add(more)).parse().unwrap()
            })
        }

        proptest! {
            #[test]
            fn they_contain_what_a_plain_list_contains(
                listed in prop::collection::vec(range(), 0..6),
                excluded in prop::collection::vec(range(), 0..6),
                reserved in prop::collection::vec(range(), 0..3),
                wanted in prop::collection::vec(range(), 1..5),
            ) {
                let ranges = IpRanges::new(IpFamily::V4, &listed, &excluded).without(&reserved).within(&wanted);
                let mut plain: Vec<IpAddr> = Vec::new();
                for range in &listed {
                    for number in number(range.first())..=number(range.last()) {
                        let address = address(IpFamily::V4, number).unwrap();
                        let out = excluded.iter().chain(&reserved).any(|range| range.contains(address));
                        let is_wanted = wanted.iter().any(|range| range.contains(address));
                        if is_wanted && !out && !plain.contains(&address) {
                            plain.push(address);
                        }
                    }
                }
                prop_assert_eq!(ranges.len(), plain.len() as u128);
                for (ordinal, address) in plain.iter().enumerate() {
                    prop_assert_eq!(ranges.nth(ordinal as u128), Some(*address));
                    prop_assert_eq!(ranges.ordinal(*address), Some(ordinal as u128));
                }
                prop_assert_eq!(ranges.nth(plain.len() as u128), None);
            }
        }
    }
}
