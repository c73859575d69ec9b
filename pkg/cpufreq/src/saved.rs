//! The values to be restored: `/var/lib/silkrail/check/governor.json`.

use std::{
    collections::BTreeMap,
    fs::File,
    path::Path,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{Error, Governors, error::io};

/// How long to wait for another process that holds a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 10 });

/// The saved governors, by CPU number.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedGovernors {
    pub(crate) governors: BTreeMap<u32, String>,
    /// The boot ID at the time of saving. After a reboot the saved values are obsolete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
}

impl Governors {
    /// Only one test at a time holds the governors.
    pub(crate) fn lock_for_test(&self) -> Result<File, Error> {
        self.lock("governor.lock")
    }

    /// Held for as long as it takes to read and write the file.
    pub(crate) fn lock_saved(&self) -> Result<File, Error> {
        self.lock("governor.json.lock")
    }

    fn lock(&self, name: &str) -> Result<File, Error> {
        let dir = self.saved_file.parent().unwrap_or(Path::new("/"));
        statefile::make_dir(dir, 0o755)?;
        let path = dir.join(name);
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(io(format!("open {}", path.display())))?;
        statefile::lock(&file, &path, Instant::now() + LOCK_TIMEOUT)?;
        Ok(file)
    }

    pub(crate) fn read_saved(&self) -> Result<Option<SavedGovernors>, Error> {
        let Some(text) = statefile::read(&self.saved_file)? else { return Ok(None) };
        let malformed = |source| Error::Malformed { path: self.saved_file.clone(), source };
        Ok(Some(serde_json::from_slice(&text).map_err(malformed)?))
    }

    /// The saved values, unless a reboot has made them obsolete.
    pub(crate) fn read_saved_of_boot(&self) -> Result<Option<SavedGovernors>, Error> {
        let saved = self.read_saved()?;
        Ok(saved.filter(|saved| saved.boot.is_none() || saved.boot == self.boot()))
    }

    pub(crate) fn save(&self, governors: BTreeMap<u32, String>) -> Result<(), Error> {
        let saved = serde_json::to_vec(&SavedGovernors { governors, boot: self.boot() })
            .map_err(|e| io("encode the governors")(e.into()))?;
        // `silkrail tune plan` reads it as any user.
        Ok(statefile::replace(&self.saved_file, 0o644, &saved)?)
    }

    fn boot(&self) -> Option<String> {
        bootid::below(&self.root).ok()
    }

    /// Restores the saved values. Returns the number of CPUs, or `None` if nothing was saved.
    pub(crate) fn restore_saved(&self) -> Result<Option<usize>, Error> {
        let _saved = self.lock_saved()?;
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
                refused.extend(self.try_set(*cpu, governor).err());
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

    /// Sets a governor; the error is text that names the file.
    pub(crate) fn try_set(&self, cpu: u32, governor: &str) -> Result<(), String> {
        self.set(cpu, governor).map_err(|error| format!("{}: {error}", self.file(cpu).display()))
    }
}

fn is_name(governor: &str) -> bool {
    !governor.is_empty() && governor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
