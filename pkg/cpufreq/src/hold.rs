//! Governors that are `performance` for the duration of a test.

use std::{collections::BTreeMap, fs::File};

use crate::{Error, Governors};

/// The governor for tests.
pub const PERFORMANCE: &str = "performance";

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
    pub(crate) _lock: File,
}

impl Governors {
    /// Sets all governors to `performance` until the returned guard is dropped.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::Io`] if the former values cannot be saved; then no governor is changed.
    pub fn hold(&self) -> Result<GovernorGuard<'_>, Error> {
        let lock = self.lock_for_test()?;
        self.restore_saved()?;
        let _saved = self.lock_saved()?;
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
            self.save_and_set(others)?
        };
        Ok(GovernorGuard { governors: self, done, _lock: lock })
    }

    fn save_and_set(&self, others: BTreeMap<u32, String>) -> Result<GovernorOutcome, Error> {
        // The file can still contain values of CPUs that are offline.
        let mut governors = self.read_saved()?.map(|saved| saved.governors).unwrap_or_default();
        governors.extend(others.clone());
        self.save(governors)?;
        let refused: Vec<String> =
            others.keys().filter_map(|cpu| self.try_set(*cpu, PERFORMANCE).err()).collect();
        if refused.is_empty() {
            Ok(GovernorOutcome::Changed(others.len()))
        } else {
            Ok(GovernorOutcome::Without(refused.join("; ")))
        }
    }

    /// Restores the governors after a test was killed. Returns the number of CPUs, or `None` if there was nothing to restore.
    ///
    /// # Errors
    /// [`Error::State`] if a test is running, [`Error::Malformed`], [`Error::Io`].
    pub fn restore_after_kill(&self) -> Result<Option<usize>, Error> {
        if !self.saved_file.exists() {
            return Ok(None);
        }
        let _lock = self.lock_for_test()?;
        self.restore_saved()
    }
}

impl GovernorGuard<'_> {
    /// Restores the former governors.
    ///
    /// # Errors
    /// [`Error::Io`]; the saved values remain for the next run.
    pub fn restore(self) -> Result<(), Error> {
        self.governors.restore_saved().map(drop)
    }
}

impl Drop for GovernorGuard<'_> {
    fn drop(&mut self) {
        // If it fails, the file remains for the next run.
        let _ = self.governors.restore_saved();
    }
}
