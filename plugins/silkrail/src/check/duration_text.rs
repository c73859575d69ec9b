//! Durations for people.

use std::time::Duration;

/// Returns a duration in its two largest units, for example `1 min 40 s`.
pub(super) fn text(duration: Duration) -> String {
    // Rounded up: "0 s left" would be wrong.
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        let of = |seconds| text(Duration::from_secs(seconds));
        assert_eq!([of(0), of(59), of(60), of(100)], ["0 s", "59 s", "1 min", "1 min 40 s"]);
        assert_eq!([of(3600), of(3725), of(90_000)], ["1 h", "1 h 2 min", "25 h"]);
        assert_eq!(text(Duration::from_millis(1200)), "2 s");
    }
}
