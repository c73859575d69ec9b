//! A day.

use serde::{Deserialize, Serialize};

/// A day in UTC, like `2026-12-31`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Date(String);

impl Date {
    /// Returns whether the day is over at a time in seconds since 1970.
    pub fn is_over(&self, now: u64) -> bool {
        // Both have the same number of digits until the year 9999.
        utc::rfc3339(now).get(..10).is_some_and(|today| today > self.0.as_str())
    }
}

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number =
            |range| text.get(range).filter(|part: &&str| part.bytes().all(|byte| byte.is_ascii_digit()));
        let part = |range, valid: std::ops::RangeInclusive<u16>| {
            number(range).and_then(|part| part.parse().ok()).is_some_and(|part| valid.contains(&part))
        };
        let dashes = text.get(4..5) == Some("-") && text.get(7..8) == Some("-") && text.len() == 10;
        match dashes && part(0..4, 1970..=9999) && part(5..7, 1..=12) && part(8..10, 1..=31) {
            true => Ok(Self(text)),
            false => Err(format!("expected a day like 2026-12-31, found {text:?}")),
        }
    }
}

impl std::fmt::Display for Date {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_over_at_its_midnight_in_utc() {
        let day = Date::try_from("2026-11-20".to_owned()).unwrap();
        assert!(!day.is_over(1_795_161_662), "2026-11-20T08:01:02Z");
        assert!(!day.is_over(1_795_219_199), "2026-11-20T23:59:59Z");
        assert!(day.is_over(1_795_219_200), "2026-11-21T00:00:00Z");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "2026-13-01", "2026-00-01", "2026-1-1", "20261231", "2026-12-32", "2026/12/31", "zwölf12345"]
        {
            assert!(Date::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
