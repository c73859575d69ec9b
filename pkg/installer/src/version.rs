//! Release numbers and their order.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

/// A release number, such as `0.2.0`, or `0.2.0-rc.1` for a release candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReleaseVersion(String);

impl ReleaseVersion {
    /// Wraps the number that an executable reports to `--version`. It is not checked.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether it is older than another release; false if either is not a release number.
    pub fn is_older_than(&self, other: &Self) -> bool {
        match (self.parts(), other.parts()) {
            (Some(this), Some(that)) => this.cmp(&that) == Ordering::Less,
            _ => false,
        }
    }

    /// The three numbers, whether it is a final release, and the suffix. A pre-release is older than its release.
    fn parts(&self) -> Option<([u64; 3], bool, &str)> {
        let text = self.0.split_once('+').map_or(self.0.as_str(), |(text, _build)| text);
        let (numbers, early) = text.split_once('-').unwrap_or((text, ""));
        let mut parts = numbers.split('.').map(str::parse);
        let mut next = || parts.next()?.ok();
        let numbers = [next()?, next()?, next()?];
        parts.next().is_none().then_some((numbers, early.is_empty(), early))
    }
}

impl fmt::Display for ReleaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_their_numbers() {
        let ascending = ["0.1.0", "0.2.0-rc.1", "0.2.0", "0.10.0", "1.0.0"].map(ReleaseVersion::new);
        for (number, older) in ascending.iter().enumerate() {
            for newer in &ascending[number + 1..] {
                assert!(older.is_older_than(newer) && !newer.is_older_than(older), "{older} {newer}");
            }
            assert!(!older.is_older_than(older));
        }
        assert!(!ReleaseVersion::new("0.1.0").is_older_than(&ReleaseVersion::new("0.1.0+build7")));
    }

    #[test]
    fn a_text_that_is_not_a_release_number_is_neither_older_nor_newer() {
        for odd in ["", "1", "1.2", "1.2.3.4", "x.1.2", "a.b.c"].map(ReleaseVersion::new) {
            let release = ReleaseVersion::new("1.0.0");
            assert!(!odd.is_older_than(&release) && !release.is_older_than(&odd), "{odd}");
        }
    }
}
