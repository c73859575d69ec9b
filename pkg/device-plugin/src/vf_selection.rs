//! A PF and a part of its VFs: `ens6f0np0#0,2-7`.

use std::{fmt, str::FromStr};

use identifiers::VfIndex;

/// A PF, by its name or PCI address, and a part of its VFs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VfSelection {
    /// The name or the PCI address of the PF.
    pub pf: String,
    /// The ranges of VF indexes, first and last; empty for all VFs.
    ranges: Vec<(u32, u32)>,
}

/// The text does not select VFs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} does not select VFs: expected a PF, or a PF with the indexes of VFs, such as \"ens6f0np0#0,2-7\""
)]
pub struct InvalidVfSelection(pub String);

impl VfSelection {
    /// Whether it contains a VF of its PF; a device that is no VF (`None`) is contained if all VFs are.
    pub fn contains(&self, index: Option<VfIndex>) -> bool {
        let in_range =
            |index: VfIndex| self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&index.0));
        self.ranges.is_empty() || index.is_some_and(in_range)
    }
}

impl FromStr for VfSelection {
    type Err = InvalidVfSelection;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidVfSelection(text.to_owned());
        let (pf, indexes) = match text.split_once('#') {
            Some((pf, indexes)) => (pf, Some(indexes)),
            None => (text, None),
        };
        if pf.is_empty() {
            return Err(invalid());
        }
        let ranges = indexes.into_iter().flat_map(|indexes| indexes.split(','));
        let ranges = ranges.map(|range| parse_range(range).ok_or_else(invalid)).collect::<Result<_, _>>()?;
        Ok(Self { pf: pf.to_owned(), ranges })
    }
}

fn parse_range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some((first, last))
}

impl fmt::Display for VfSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |(first, last): &(u32, u32)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        let ranges: Vec<_> = self.ranges.iter().map(range).collect();
        if ranges.is_empty() { f.write_str(&self.pf) } else { write!(f, "{}#{}", self.pf, ranges.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indexes_of_vfs_select_a_part() {
        let selection: VfSelection = "ens6f0np0#0, 2-7,9".parse().unwrap();
        let contained: Vec<u32> = (0..12).filter(|index| selection.contains(Some(VfIndex(*index)))).collect();
        assert_eq!(contained, [0, 2, 3, 4, 5, 6, 7, 9]);
        assert!(!selection.contains(None));
        assert_eq!(
            (selection.pf.as_str(), selection.to_string().as_str()),
            ("ens6f0np0", "ens6f0np0#0,2-7,9")
        );
    }

    #[test]
    fn without_indexes_all_vfs_are_selected() {
        let selection: VfSelection = "0000:af:00.0".parse().unwrap();
        assert!(selection.contains(None) && selection.contains(Some(VfIndex(127))));
        assert_eq!(selection.to_string(), "0000:af:00.0");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "#1", "p0#", "p0#a", "p0#1,", "p0#5-2", "p0#1-", "p0#-1", "p0#1#2", "p0#4294967296"]
        {
            assert_eq!(text.parse::<VfSelection>(), Err(InvalidVfSelection(text.to_owned())));
        }
    }
}
