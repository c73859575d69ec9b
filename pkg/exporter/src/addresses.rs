//! Usage of the address pools of silkrail-ipam on this node.

use std::path::{Path, PathBuf};

use ipam::{LocalStore, PoolUsage, StoreError};

use crate::{CollectError, Collector};

/// Reads the usage of the pools. It is read again only after an address was assigned or released.
#[derive(Debug)]
pub(crate) struct PoolUsageReader {
    state: PathBuf,
    boot_id: String,
    /// The store's stamp before the last reading, and the usage that was read.
    kept: (u64, Vec<PoolUsage>),
}

impl PoolUsageReader {
    pub(crate) fn at(root: &Path, state_dir: &Path) -> Self {
        let boot_id = bootid::below(root).unwrap_or_default();
        let state = root.join(state_dir.strip_prefix("/").unwrap_or(state_dir));
        Self { state, boot_id, kept: (0, Vec::new()) }
    }

    /// Returns the usage of each pool; empty if the plugin has not assigned any address.
    pub(crate) fn read(&mut self, errors: &mut Vec<CollectError>) -> Vec<PoolUsage> {
        match self.refresh() {
            Ok(()) => {}
            // Unknown values are not exposed.
            Err(error) => {
                errors.push(CollectError::new(Collector::Pods, &error));
                self.kept = (0, Vec::new());
            }
        }
        self.kept.1.clone()
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        // Without a boot ID the store cannot be found.
        let store = match self.boot_id.as_str() {
            "" => None,
            boot_id => LocalStore::open_existing(&self.state, boot_id)?,
        };
        let Some(store) = store else {
            self.kept = (0, Vec::new());
            return Ok(());
        };
        let stamp = store.stamp()?;
        if stamp == 0 || stamp != self.kept.0 {
            self.kept = (stamp, store.usage()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    const BOOT: &str = "00000000-0000-0000-0000-000000000000";

    #[test]
    fn a_missing_store_has_no_pools_and_an_unreadable_one_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let mut errors = Vec::new();
        let read = |errors: &mut Vec<CollectError>| {
            PoolUsageReader::at(root.path(), Path::new("/run/silkrail")).read(errors)
        };
        assert_eq!((read(&mut errors), errors.len()), (Vec::new(), 0));
        fs::create_dir_all(root.path().join("proc/sys/kernel/random")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/random/boot_id"), format!("{BOOT}\n")).unwrap();
        assert_eq!((read(&mut errors), errors.len()), (Vec::new(), 0));
        let store = root.path().join("run/silkrail/ipam").join(BOOT);
        fs::create_dir_all(store.join("maps")).unwrap();
        fs::write(store.join("claims"), "").unwrap();
        assert_eq!((read(&mut errors), errors.len()), (Vec::new(), 1));
    }

    #[test]
    fn a_pool_is_read_again_after_an_assignment() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/sys/kernel/random")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/random/boot_id"), BOOT).unwrap();
        let state = root.path().join("run/silkrail");
        let store = LocalStore::open(&state, BOOT).unwrap();
        let pools = ipam::Pools::from_text(
            "name: p\nsubnet: 10.0.0.0/24\nips: [10.0.0.1-10.0.0.3]",
            Path::new("p.yaml"),
        );
        let (pools, owner) = (pools.unwrap(), "a@n".parse().unwrap());
        let deadline = std::time::Instant::now();
        store.claim::<StoreError>(pools.get("p").unwrap(), &owner, deadline, |_| Ok(())).unwrap();
        let mut addresses = PoolUsageReader::at(root.path(), Path::new("/run/silkrail"));
        let mut claimed =
            || addresses.read(&mut Vec::new()).iter().map(|usage| usage.claimed).collect::<Vec<_>>();
        assert_eq!(claimed(), [1]);
        symlink("b@n", state.join("ipam").join(BOOT).join("claims/10.0.0.3")).unwrap();
        assert_eq!(claimed(), [2]);
        let claims = state.join("ipam").join(BOOT).join("claims");
        fs::rename(&claims, state.join("kept")).unwrap();
        fs::write(&claims, "").unwrap();
        assert_eq!(claimed(), [0; 0], "unknown values are not exposed");
        fs::remove_file(&claims).unwrap();
        fs::rename(state.join("kept"), &claims).unwrap();
        assert_eq!(claimed(), [2]);
    }
}
