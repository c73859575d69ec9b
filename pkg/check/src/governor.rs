//! CPU frequency governors (cpufreq), set to `performance` for a test and restored after it.
//!
//! The former values are saved in a file before any governor is changed. If a test is killed, the file remains, and the next
//! test or `silkrail check restore` restores the values in it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{Error, error::io};

/// The governor for tests.
pub const PERFORMANCE: &str = "performance";

/// How long to wait for another process that holds the lock.
const GOVERNOR_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The governors of a node.
#[derive(Debug, Clone)]
pub struct Governors {
    cpus: PathBuf,
    saved_file: PathBuf,
    boot: PathBuf,
}

/// The saved governors, by CPU number: the content of `/var/lib/silkrail/check/governor.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SavedGovernors {
    governors: BTreeMap<u32, String>,
    /// The boot ID at the time of saving. After a reboot the saved values are obsolete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
}

/// The result of setting the governors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GovernorOutcome {
    /// The governors of this number of CPUs were changed.
    Changed(usize),
    /// The reason why some governors could not be changed, or why there are none, as in most virtual machines.
    Without(String),
}

/// Holds the governors at `performance`. Dropping it restores their former values.
#[derive(Debug)]
pub struct GovernorGuard<'a> {
    governors: &'a Governors,
    /// The result of setting them.
    pub done: GovernorOutcome,
    /// Released on drop: only one test at a time changes the governors.
    _lock: fs::File,
}

impl Governors {
    /// Returns the governors of the node whose root directory is `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            cpus: root.join("sys/devices/system/cpu"),
            saved_file: root.join("var/lib/silkrail/check/governor.json"),
            boot: root.join("proc/sys/kernel/random/boot_id"),
        }
    }

    /// Sets all governors to `performance` until the returned guard is dropped.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::Io`] if the former values cannot be saved; then no governor is changed.
    pub fn hold(&self) -> Result<GovernorGuard<'_>, Error> {
        let lock = self.lock()?;
        self.restore_saved()?;
        let before = self.read()?;
        let others: BTreeMap<u32, String> = before
            .iter()
            .filter(|(_, governor)| *governor != PERFORMANCE)
            .map(|(cpu, name)| (*cpu, name.clone()))
            .collect();
        let done = if before.is_empty() {
            GovernorOutcome::Without("no CPU has a frequency governor (no cpufreq)".into())
        } else if others.is_empty() {
            GovernorOutcome::Changed(0)
        } else {
            // The file can still contain values of CPUs that are offline.
            let mut governors = self.read_saved()?.map(|saved| saved.governors).unwrap_or_default();
            governors.extend(others.clone());
            self.save(governors)?;
            let refused: Vec<String> =
                others.keys().filter_map(|cpu| self.set(*cpu, PERFORMANCE).err()).collect();
            if refused.is_empty() {
                GovernorOutcome::Changed(others.len())
            } else {
                GovernorOutcome::Without(refused.join("; "))
            }
        };
        Ok(GovernorGuard { governors: self, done, _lock: lock })
    }

    /// Restores the governors after a test was killed. Returns the number of CPUs, or `None` if there was nothing to restore.
    ///
    /// # Errors
    /// [`Error::State`] if a test is running, [`Error::Malformed`], [`Error::Io`].
    pub fn restore_after_kill(&self) -> Result<Option<usize>, Error> {
        if !self.saved_file.exists() {
            return Ok(None);
        }
        let _lock = self.lock()?;
        self.restore_saved()
    }

    fn lock(&self) -> Result<fs::File, Error> {
        let dir = self.saved_file.parent().unwrap_or(Path::new("/"));
        statefile::make_dir(dir, 0o755)?;
        let path = dir.join("governor.lock");
        let file = fs::File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(io(format!("open {}", path.display())))?;
        statefile::lock(&file, &path, Instant::now() + GOVERNOR_LOCK_TIMEOUT)?;
        Ok(file)
    }

    fn read_saved(&self) -> Result<Option<SavedGovernors>, Error> {
        let Some(text) = statefile::read(&self.saved_file)? else { return Ok(None) };
        let saved = serde_json::from_slice(&text).map_err(|e| Error::Malformed {
            path: self.saved_file.clone(),
            why: format!("{e}; check the governors, then remove the file"),
        })?;
        Ok(Some(saved))
    }

    fn save(&self, governors: BTreeMap<u32, String>) -> Result<(), Error> {
        let saved = serde_json::to_vec(&SavedGovernors { governors, boot: self.boot() })
            .map_err(|e| io("encode the governors")(e.into()))?;
        Ok(statefile::replace(&self.saved_file, 0o600, &saved)?)
    }

    fn boot(&self) -> Option<String> {
        Some(fs::read_to_string(&self.boot).ok()?.trim().to_owned())
    }

    fn restore_saved(&self) -> Result<Option<usize>, Error> {
        let Some(saved) = self.read_saved()? else { return Ok(None) };
        if saved.boot.is_some() && saved.boot != self.boot() {
            // The system has set the governors since the reboot.
            statefile::remove(&self.saved_file)?;
            return Ok(None);
        }
        // The governor of an offline CPU cannot be set (EBUSY). The CPU comes online with its last one, `performance`.
        let (offline, online): (BTreeMap<_, _>, BTreeMap<_, _>) =
            saved.governors.into_iter().partition(|(cpu, _)| self.is_offline(*cpu));
        let mut refused = Vec::new();
        for (cpu, governor) in &online {
            if self.file(*cpu).exists() && is_name(governor) {
                refused.extend(self.set(*cpu, governor).err());
            }
        }
        if !refused.is_empty() {
            let source = std::io::Error::other(refused.join("; "));
            return Err(io("restore the governors")(source));
        }
        if offline.is_empty() {
            statefile::remove(&self.saved_file)?;
        } else {
            self.save(offline)?;
        }
        Ok(Some(online.len()))
    }

    fn is_offline(&self, cpu: u32) -> bool {
        let online = self.cpus.join(format!("cpu{cpu}/online"));
        fs::read_to_string(online).is_ok_and(|text| text.trim() == "0")
    }

    /// Reads the governor of each CPU that has one.
    fn read(&self) -> Result<BTreeMap<u32, String>, Error> {
        let entries = match fs::read_dir(&self.cpus) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(e) => return Err(io(format!("read {}", self.cpus.display()))(e)),
        };
        let numbers = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok());
        let governor = |cpu: u32| Some((cpu, fs::read_to_string(self.file(cpu)).ok()?.trim().to_owned()));
        Ok(numbers.filter_map(governor).collect())
    }

    fn set(&self, cpu: u32, governor: &str) -> Result<(), String> {
        let file = self.file(cpu);
        fs::write(&file, governor).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn file(&self, cpu: u32) -> PathBuf {
        self.cpus.join(format!("cpu{cpu}/cpufreq/scaling_governor"))
    }
}

fn is_name(governor: &str) -> bool {
    !governor.is_empty() && governor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl GovernorGuard<'_> {
    /// Restores the former governors.
    ///
    /// # Errors
    /// [`Error::Io`]; the saved values remain for the next run.
    pub fn give_back(self) -> Result<(), Error> {
        self.governors.restore_saved().map(drop)
    }
}

impl Drop for GovernorGuard<'_> {
    fn drop(&mut self) {
        // If it fails, the file remains for the next run.
        let _ = self.governors.restore_saved();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four CPUs: two with powersaving governors, one with `performance`, one without cpufreq.
    fn node() -> (tempfile::TempDir, Governors) {
        let root = tempfile::tempdir().unwrap();
        let governors = Governors::below(root.path());
        for (cpu, governor) in [(0, "powersave"), (1, "schedutil"), (2, "performance")] {
            fs::create_dir_all(governors.file(cpu).parent().unwrap()).unwrap();
            fs::write(governors.file(cpu), format!("{governor}\n")).unwrap();
        }
        fs::create_dir_all(governors.cpus.join("cpu3")).unwrap();
        fs::create_dir_all(governors.cpus.join("cpufreq")).unwrap();
        (root, governors)
    }

    fn now(governors: &Governors) -> Vec<String> {
        governors.read().unwrap().into_values().collect()
    }

    const BEFORE: [&str; 3] = ["powersave", "schedutil", "performance"];

    #[test]
    fn governors_are_set_and_restored() {
        let (_root, governors) = node();
        let held = governors.hold().unwrap();
        assert_eq!(held.done, GovernorOutcome::Changed(2));
        assert_eq!(now(&governors), ["performance"; 3]);
        held.give_back().unwrap();
        assert_eq!(now(&governors), BEFORE);
        assert!(!governors.saved_file.exists());
        assert_eq!(governors.restore_after_kill().unwrap(), None);
    }

    #[test]
    fn after_a_kill_the_governors_are_restored_by_the_next_run_or_by_restore() {
        let (_root, governors) = node();
        let kill = |held: GovernorGuard<'_>| {
            let GovernorGuard { _lock: lock, .. } = &held;
            lock.unlock().unwrap();
            std::mem::forget(held);
        };
        kill(governors.hold().unwrap());
        assert_eq!(now(&governors), ["performance"; 3]);
        assert_eq!(governors.restore_after_kill().unwrap(), Some(2));
        assert_eq!(now(&governors), BEFORE);
        kill(governors.hold().unwrap());
        drop(governors.hold().unwrap());
        assert_eq!(now(&governors), BEFORE, "the second run keeps the values saved by the first");
    }

    #[test]
    fn values_saved_before_a_reboot_are_discarded() {
        let (_root, governors) = node();
        fs::create_dir_all(governors.boot.parent().unwrap()).unwrap();
        fs::write(&governors.boot, "the first\n").unwrap();
        let held = governors.hold().unwrap();
        let saved = fs::read(&governors.saved_file).unwrap();
        held.give_back().unwrap();
        fs::write(&governors.saved_file, saved).unwrap();
        fs::write(&governors.boot, "the second\n").unwrap();
        fs::write(governors.file(0), "ondemand").unwrap();
        assert_eq!(governors.restore_after_kill().unwrap(), None);
        assert_eq!(now(&governors), ["ondemand", "schedutil", "performance"]);
        assert!(!governors.saved_file.exists());
    }

    #[test]
    fn the_governor_of_an_offline_cpu_is_restored_when_it_is_online() {
        let (_root, governors) = node();
        let online = governors.cpus.join("cpu1/online");
        let held = governors.hold().unwrap();
        fs::write(&online, "0\n").unwrap();
        held.give_back().unwrap();
        // It cannot be written: the kernel returns EBUSY.
        assert_eq!(now(&governors), ["powersave", "performance", "performance"]);
        drop(governors.hold().unwrap());
        fs::write(&online, "1\n").unwrap();
        assert_eq!(governors.restore_after_kill().unwrap(), Some(1));
        assert_eq!(now(&governors), BEFORE);
        assert!(!governors.saved_file.exists());
    }

    #[test]
    fn without_cpufreq_nothing_is_changed_and_the_reason_is_given() {
        let root = tempfile::tempdir().unwrap();
        let governors = Governors::below(root.path());
        let held = governors.hold().unwrap();
        assert!(matches!(&held.done, GovernorOutcome::Without(why) if why.contains("no cpufreq")));
        assert!(!governors.saved_file.exists());
    }

    #[test]
    fn if_the_values_cannot_be_saved_no_governor_is_changed() {
        let (_root, governors) = node();
        fs::create_dir_all(governors.saved_file.join("in-the-way")).unwrap();
        assert!(governors.hold().is_err());
        assert_eq!(now(&governors), BEFORE);
    }

    #[test]
    fn invalid_saved_values_are_not_written() {
        let (_root, governors) = node();
        fs::create_dir_all(governors.saved_file.parent().unwrap()).unwrap();
        fs::write(&governors.saved_file, r#"{"governors":{"0":"../x","1":"ondemand","9":"powersave"}}"#).unwrap();
        assert_eq!(governors.restore_after_kill().unwrap(), Some(3));
        assert_eq!(now(&governors), ["powersave", "ondemand", "performance"]);
        fs::write(&governors.saved_file, "{").unwrap();
        assert!(matches!(governors.restore_after_kill(), Err(Error::Malformed { .. })));
    }
}
