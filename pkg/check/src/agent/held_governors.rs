//! The CPU frequency governors while at least one test runs: the first test sets them, and the last one restores them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cpufreq::{Error, GovernorGuard, GovernorOutcome, Governors};

/// The governors, which several tests hold at the same time.
#[derive(Debug)]
pub(super) struct HeldGovernors<'a> {
    governors: &'a Governors,
    held: Mutex<Holders<'a>>,
}

#[derive(Debug, Default)]
struct Holders<'a> {
    tests: usize,
    guard: Option<GovernorGuard<'a>>,
}

/// The share of one test. Dropping the last one restores the governors.
#[derive(Debug)]
pub(super) struct HeldShare<'h, 'a> {
    all: &'h HeldGovernors<'a>,
    /// Why some governors were not changed; `None` if all were, or if another test has set them.
    pub(super) unchanged: Option<String>,
}

impl<'a> HeldGovernors<'a> {
    pub(super) fn new(governors: &'a Governors) -> Self {
        Self { governors, held: Mutex::default() }
    }

    /// Sets the governors for a test, if no other test has set them.
    ///
    /// # Errors
    /// Those of [`Governors::hold`].
    pub(super) fn hold(&self) -> Result<HeldShare<'_, 'a>, Error> {
        let mut held = self.lock();
        let mut unchanged = None;
        if held.guard.is_none() {
            let guard = self.governors.hold()?;
            if let GovernorOutcome::Without(why) = &guard.done {
                unchanged = Some(why.clone());
            }
            held.guard = Some(guard);
        }
        held.tests += 1;
        Ok(HeldShare { all: self, unchanged })
    }

    fn lock(&self) -> MutexGuard<'_, Holders<'a>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldShare<'_, '_> {
    fn drop(&mut self) {
        let mut held = self.all.lock();
        held.tests -= 1;
        if held.tests == 0 {
            held.guard = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_of_several_tests_restores_the_governors() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/devices/system/cpu/cpu0/cpufreq");
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join("scaling_governor");
        fs::write(&file, "powersave\n").unwrap();
        let governors = Governors::below(root.path());
        let held = HeldGovernors::new(&governors);
        let now = || fs::read_to_string(&file).unwrap().trim().to_owned();
        let first = held.hold().unwrap();
        let second = held.hold().unwrap();
        assert_eq!(now(), "performance");
        drop(first);
        assert_eq!(now(), "performance", "the second test still runs");
        drop(second);
        assert_eq!(now(), "powersave");
        // A test that cannot set them does not count as one that runs.
        let saved = root.path().join("var/lib/silkrail/check/governor.json");
        fs::write(&saved, "damaged").unwrap();
        held.hold().unwrap_err();
        fs::remove_file(saved).unwrap();
        drop(held.hold().unwrap());
        assert_eq!(now(), "powersave");
    }
}
