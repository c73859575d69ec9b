//! How full the pools of addresses are that the node's own IPAM plugin gives.

use std::path::{Path, PathBuf};

use ipam::{LocalStore, PoolUsage, StoreError};

use crate::{CollectError, Collector};

/// Looks how full the pools are, if anything was given or taken back since.
#[derive(Debug)]
pub(crate) struct PoolUsageReader {
    state: PathBuf,
    boot_id: String,
    /// What was found last, and the store's stamp before that.
    kept: (u64, Vec<PoolUsage>),
}

impl PoolUsageReader {
    pub(crate) fn at(root: &Path, state_dir: &Path) -> Self {
        let boot_id = bootid::below(root).unwrap_or_default();
        let state = root.join(state_dir.strip_prefix("/").unwrap_or(state_dir));
        Self { state, boot_id, kept: (0, Vec::new()) }
    }

    /// How full each pool is; nothing where the plugin has given none.
    pub(crate) fn read(&mut self, troubles: &mut Vec<CollectError>) -> Vec<PoolUsage> {
        match self.refresh() {
            Ok(()) => {}
            // What is not known is not told.
            Err(error) => {
                troubles.push(CollectError::new(Collector::Pods, &error));
                self.kept = (0, Vec::new());
            }
        }
        self.kept.1.clone()
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        // Without a boot ID there is no store to be found.
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
    fn a_node_without_a_store_has_no_pools_and_one_that_cannot_be_read_is_told() {
        let root = tempfile::tempdir().unwrap();
        let mut troubles = Vec::new();
        let read = |troubles: &mut Vec<CollectError>| {
            PoolUsageReader::at(root.path(), Path::new("/run/silkrail")).read(troubles)
        };
        assert_eq!((read(&mut troubles), troubles.len()), (Vec::new(), 0));
        fs::create_dir_all(root.path().join("proc/sys/kernel/random")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/random/boot_id"), format!("{BOOT}\n")).unwrap();
        assert_eq!((read(&mut troubles), troubles.len()), (Vec::new(), 0));
        let store = root.path().join("run/silkrail/ipam").join(BOOT);
        fs::create_dir_all(store.join("maps")).unwrap();
        fs::write(store.join("claims"), "").unwrap();
        assert_eq!((read(&mut troubles), troubles.len()), (Vec::new(), 1));
    }

    #[test]
    fn a_pool_is_read_again_when_an_address_was_given() {
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
    }
}
