//! Files from before the last boot, which describe objects that no longer exist.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// By how much the boot time may differ from the time at which `/sys` was mounted: the kernel mounts it during the boot.
const TOLERANCE: Duration = Duration::from_secs(120);

/// The clock of a node, as far as it tells when the node was booted.
#[derive(Debug, Clone)]
pub(super) struct BootClock {
    root: PathBuf,
}

impl BootClock {
    /// The clock of the node with this root directory.
    pub(super) fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Whether a file was written before the last boot; `false` if that is not certain.
    pub(super) fn is_from_earlier_boot(&self, modified: SystemTime) -> bool {
        self.boot_time().is_some_and(|boot| modified < boot)
    }

    /// Returns the time of the boot; `None` if it is not known, or if the clock was set since: files of this boot may then
    /// seem older.
    ///
    /// # Kernel
    /// `btime` of `/proc/stat` is the current time less the time since the boot (`show_stat` in `fs/proc/stat.c`), so it moves
    /// when the clock is set. The times of the root directory of sysfs do not: kernfs sets them when it creates the inode
    /// (`set_default_inode_attr` in `fs/kernfs/inode.c`), which the superblock holds.
    fn boot_time(&self) -> Option<SystemTime> {
        let boot = boot_time(&fs::read_to_string(self.root.join("proc/stat")).ok()?)?;
        let mounted = fs::metadata(self.root.join("sys")).and_then(|meta| meta.modified()).ok()?;
        let apart = mounted.duration_since(boot).unwrap_or_else(|earlier| earlier.duration());
        (apart <= TOLERANCE).then_some(boot)
    }
}

fn boot_time(stat: &str) -> Option<SystemTime> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_is_from_an_earlier_boot_only_if_the_clock_was_not_set_since() {
        let root = tempfile::tempdir().unwrap();
        let clock = BootClock::below(root.path());
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let is_old = |seconds| clock.is_from_earlier_boot(at(seconds));
        assert!(!is_old(0), "nothing is known");
        for directory in ["proc", "sys"] {
            fs::create_dir(root.path().join(directory)).unwrap();
        }
        let boot = 1_700_000_000;
        File::open(root.path().join("sys")).unwrap().set_modified(at(boot + 2)).unwrap();
        let two_days = 2 * 86_400;
        for (btime, expected) in [(boot, true), (boot + two_days, false), (boot - two_days, false)] {
            fs::write(root.path().join("proc/stat"), format!("cpu  1 2 3\nbtime {btime}\nprocesses 7\n"))
                .unwrap();
            assert_eq!(is_old(boot - two_days - 1), expected, "{btime}");
        }
        fs::write(root.path().join("proc/stat"), format!("btime {boot}\n")).unwrap();
        assert!(is_old(boot - 1) && !is_old(boot));
        fs::write(root.path().join("proc/stat"), "cpu  1 2 3\n").unwrap();
        assert!(!is_old(0));
    }
}
