//! Times on the command line.

use std::time::Duration;

/// Parses a time in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86400.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("{text:?}: expected a number of seconds above 0 and up to 86400")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_must_be_positive_and_at_most_a_day() {
        for bad in ["0", "-1", "NaN", "inf", "x", "1e9", "86401", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("86400"), Ok(Duration::from_secs(86400)));
    }
}
