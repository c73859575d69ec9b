//! Times as JSON has them.

/// Converts a time to seconds since 1970.
pub(super) fn seconds(time: std::time::SystemTime) -> f64 {
    time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
