//! Files from before the last boot, which describe objects that no longer exist.

use std::{
    fs,
    time::{Duration, SystemTime},
};

/// Whether a file was written before the last boot; false if the time of the boot is not known.
pub(super) fn is_from_earlier_boot(modified: SystemTime) -> bool {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    boot_time(&stat).is_some_and(|boot| modified < boot)
}

pub(super) fn boot_time(stat: &str) -> Option<SystemTime> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}
