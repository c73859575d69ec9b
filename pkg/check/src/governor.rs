//! The CPUs' frequency governors, set for a test and given back after it, whatever happens.
//!
//! What they were is written down before any is changed. A test that was killed leaves the note, and the next run, or
//! `silkrail check restore`, gives back what it says.

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

/// How long another process may be at work with the governors.
const GOVERNOR_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The governors of a node.
#[derive(Debug, Clone)]
pub struct Governors {
    cpus: PathBuf,
    note: PathBuf,
    boot: PathBuf,
}

/// What they were, by CPU.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SavedGovernors {
    governors: BTreeMap<u32, String>,
    /// Since which boot: after another one they are not ours any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GovernorOutcome {
    /// So many CPUs have another governor than before.
    Changed(usize),
    /// These CPUs' governors could not be changed, or none has any: a virtual machine, or a CPU that the firmware steers.
    Without(String),
}

/// Performance governors, until this value goes.
#[derive(Debug)]
pub struct GovernorGuard<'a> {
    governors: &'a Governors,
    /// What was done.
    pub done: GovernorOutcome,
    /// The lock goes with it: only one test has the governors.
    _lock: fs::File,
}

impl Governors {
    /// Of the node with that root directory.
    pub fn below(root: &Path) -> Self {
        Self {
            cpus: root.join("sys/devices/system/cpu"),
            note: root.join("var/lib/silkrail/check/governor.json"),
            boot: root.join("proc/sys/kernel/random/boot_id"),
        }
    }

    /// Sets `performance` everywhere, until the returned value goes.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::Io`] if what they were cannot be written down: then nothing is changed.
    pub fn hold(&self) -> Result<GovernorGuard<'_>, Error> {
        let lock = self.lock()?;
        self.give_back()?;
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
            // Of CPUs that are offline there may be something left.
            let mut governors = self.read_saved()?.map(|note| note.governors).unwrap_or_default();
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

    /// Gives back what a test that was killed has left. So many CPUs were changed; `None` if nothing was left.
    ///
    /// # Errors
    /// [`Error::State`] if a test is under way, [`Error::Malformed`], [`Error::Io`].
    pub fn restore_after_kill(&self) -> Result<Option<usize>, Error> {
        if !self.note.exists() {
            return Ok(None);
        }
        let _lock = self.lock()?;
        self.give_back()
    }

    fn lock(&self) -> Result<fs::File, Error> {
        let dir = self.note.parent().unwrap_or(Path::new("/"));
        statefile::make_dir(dir, 0o755)?;
        let path = dir.join("governor.lock");
        let file = fs::File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(io(format!("open {}", path.display())))?;
        statefile::lock(&file, &path, Instant::now() + GOVERNOR_LOCK_TIMEOUT)?;
        Ok(file)
    }

    fn read_saved(&self) -> Result<Option<SavedGovernors>, Error> {
        let Some(text) = statefile::read(&self.note)? else { return Ok(None) };
        let note = serde_json::from_slice(&text).map_err(|e| Error::Malformed {
            path: self.note.clone(),
            why: format!("{e}; remove it when the governors are right"),
        })?;
        Ok(Some(note))
    }

    fn save(&self, governors: BTreeMap<u32, String>) -> Result<(), Error> {
        let note = serde_json::to_vec(&SavedGovernors { governors, boot: self.boot() })
            .map_err(|e| io("write down the governors")(e.into()))?;
        Ok(statefile::replace(&self.note, 0o600, &note)?)
    }

    fn boot(&self) -> Option<String> {
        Some(fs::read_to_string(&self.boot).ok()?.trim().to_owned())
    }

    fn give_back(&self) -> Result<Option<usize>, Error> {
        let Some(note) = self.read_saved()? else { return Ok(None) };
        if note.boot.is_some() && note.boot != self.boot() {
            // What they are now is what the system has set when it started.
            statefile::remove(&self.note)?;
            return Ok(None);
        }
        // A CPU that is offline takes no governor (EBUSY), and comes back with the one it had: ours.
        let (offline, online): (BTreeMap<_, _>, BTreeMap<_, _>) =
            note.governors.into_iter().partition(|(cpu, _)| self.is_offline(*cpu));
        let mut refused = Vec::new();
        for (cpu, governor) in &online {
            if self.file(*cpu).exists() && is_name(governor) {
                refused.extend(self.set(*cpu, governor).err());
            }
        }
        if !refused.is_empty() {
            let source = std::io::Error::other(refused.join("; "));
            return Err(io("give the governors back")(source));
        }
        if offline.is_empty() {
            statefile::remove(&self.note)?;
        } else {
            self.save(offline)?;
        }
        Ok(Some(online.len()))
    }

    fn is_offline(&self, cpu: u32) -> bool {
        let online = self.cpus.join(format!("cpu{cpu}/online"));
        fs::read_to_string(online).is_ok_and(|text| text.trim() == "0")
    }

    /// The governor of each CPU that has one.
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
    /// Gives them back, and says so if that failed.
    ///
    /// # Errors
    /// [`Error::Io`]; the note stays, for the next run.
    pub fn give_back(self) -> Result<(), Error> {
        self.governors.give_back().map(drop)
    }
}

impl Drop for GovernorGuard<'_> {
    fn drop(&mut self) {
        // The note stays if it fails.
        let _ = self.governors.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four CPUs: two that save power, one that is fast already, one without cpufreq.
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
    fn governors_are_held_and_given_back() {
        let (_root, governors) = node();
        let held = governors.hold().unwrap();
        assert_eq!(held.done, GovernorOutcome::Changed(2));
        assert_eq!(now(&governors), ["performance"; 3]);
        held.give_back().unwrap();
        assert_eq!(now(&governors), BEFORE);
        assert!(!governors.note.exists());
        assert_eq!(governors.restore_after_kill().unwrap(), None);
    }

    #[test]
    fn after_a_kill_they_are_given_back_by_the_next_run_or_by_restore() {
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
        assert_eq!(now(&governors), BEFORE, "the first run's note is not lost to the second");
    }

    #[test]
    fn what_was_left_before_a_boot_is_given_to_nobody() {
        let (_root, governors) = node();
        fs::create_dir_all(governors.boot.parent().unwrap()).unwrap();
        fs::write(&governors.boot, "the first\n").unwrap();
        let held = governors.hold().unwrap();
        let note = fs::read(&governors.note).unwrap();
        held.give_back().unwrap();
        fs::write(&governors.note, note).unwrap();
        fs::write(&governors.boot, "the second\n").unwrap();
        fs::write(governors.file(0), "ondemand").unwrap();
        assert_eq!(governors.restore_after_kill().unwrap(), None);
        assert_eq!(now(&governors), ["ondemand", "schedutil", "performance"]);
        assert!(!governors.note.exists());
    }

    #[test]
    fn a_cpu_that_is_offline_has_its_governor_back_when_it_returns() {
        let (_root, governors) = node();
        let online = governors.cpus.join("cpu1/online");
        let held = governors.hold().unwrap();
        fs::write(&online, "0\n").unwrap();
        held.give_back().unwrap();
        // Not to be written: the kernel says EBUSY.
        assert_eq!(now(&governors), ["powersave", "performance", "performance"]);
        drop(governors.hold().unwrap());
        fs::write(&online, "1\n").unwrap();
        assert_eq!(governors.restore_after_kill().unwrap(), Some(1));
        assert_eq!(now(&governors), BEFORE);
        assert!(!governors.note.exists());
    }

    #[test]
    fn without_cpufreq_nothing_is_changed_and_it_is_said() {
        let root = tempfile::tempdir().unwrap();
        let governors = Governors::below(root.path());
        let held = governors.hold().unwrap();
        assert!(matches!(&held.done, GovernorOutcome::Without(why) if why.contains("no cpufreq")));
        assert!(!governors.note.exists());
    }

    #[test]
    fn a_note_that_cannot_be_written_keeps_everything_as_it_is() {
        let (_root, governors) = node();
        fs::create_dir_all(governors.note.join("in-the-way")).unwrap();
        assert!(governors.hold().is_err());
        assert_eq!(now(&governors), BEFORE);
    }

    #[test]
    fn a_note_that_was_tampered_with_writes_no_nonsense() {
        let (_root, governors) = node();
        fs::create_dir_all(governors.note.parent().unwrap()).unwrap();
        fs::write(&governors.note, r#"{"governors":{"0":"../x","1":"ondemand","9":"powersave"}}"#).unwrap();
        assert_eq!(governors.restore_after_kill().unwrap(), Some(3));
        assert_eq!(now(&governors), ["powersave", "ondemand", "performance"]);
        fs::write(&governors.note, "{").unwrap();
        assert!(matches!(governors.restore_after_kill(), Err(Error::Malformed { .. })));
    }
}
