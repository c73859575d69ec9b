//! RFC 3339 timestamps in UTC: `2026-11-20T08:01:02Z`.
//!
//! Formatting never fails: times are read from files, and libraries that format them panic at the year 10000.

#![forbid(unsafe_code)]

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time.
pub fn now() -> String {
    rfc3339(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Formats a Unix time, in seconds since 1970-01-01T00:00:00Z.
pub fn rfc3339(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the Gregorian date of a number of days since 1970. Years begin in March, so that a leap day is the last day.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let era = days / 146_097; // 400 years
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_equal_to_those_of_date() {
        // `date -u -d @N +%FT%TZ`
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (1_795_161_662, "2026-11-20T08:01:02Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
        let clock = || rfc3339(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
        let (before, now, after) = (clock(), now(), clock());
        assert!((&before..=&after).contains(&&now), "{now} is from {before} to {after}");
    }

    #[test]
    fn any_number_can_be_formatted() {
        assert!(rfc3339(u64::MAX).ends_with('Z'));
    }
}
