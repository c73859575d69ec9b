//! Where the pools of a configuration come from: the configuration itself, a directory, or the cluster.

use std::path::{Path, PathBuf};

use cni::{ConfObject, Error as CniError};
use ipam::{ListedPools, PoolQuery, Pools};
use plugin_runtime::Error;
use serde_json::Value;
use state::{StateDir, is_below};

use crate::cluster::ClusterPools;

/// The directory of pools if the configuration contains neither `pools` nor `poolsDir`.
pub(crate) const POOLS_DIR: &str = "/etc/silkrail/pools.d";

/// Whether a configuration can name a directory of pools: errors, which are events of pods, name the files in it. That of the cluster's
/// pools, in a state directory, is not one: addresses would be assigned that are in blocks of other nodes.
fn is_pools_dir(path: &Path) -> bool {
    let is_named = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"pools"));
    let is_of_cluster = !path.starts_with("/etc") && path.iter().any(|part| part == "cluster");
    is_named && !is_of_cluster && is_below(path, &["/etc", "/run", "/var/lib"], &["silkrail"])
}

/// The sources of pools: the configuration itself, a directory, or both.
pub(crate) struct PoolSource {
    inline: Pools,
    dir: Option<PathBuf>,
}

impl PoolSource {
    /// Reads the configuration's `pools` and `poolsDir`.
    ///
    /// # Errors
    /// If they are invalid, or the cluster's pools are not ready.
    pub(crate) fn of(ipam: &ConfObject<'_>, cluster: Option<&ClusterPools>) -> Result<Self, Error> {
        if let Some(cluster) = cluster {
            cluster.check_is_ready()?;
            return Ok(Self { inline: Pools::default(), dir: Some(cluster.pools_dir()) });
        }
        let inline = ipam.value("pools").unwrap_or(&Value::Null);
        let dir = match pools_dir(ipam)? {
            Some((_, dir)) if is_pools_dir(Path::new(dir)) => Some(PathBuf::from(dir)),
            Some((key, dir)) => {
                let expected = "a directory pools* in /etc/silkrail*, /run/silkrail* or /var/lib/silkrail*, besides that of the cluster's pools";
                return Err(ipam.invalid(key, expected, format!("{dir:?}")).into());
            }
            None if inline.is_null() => Some(PathBuf::from(POOLS_DIR)),
            None => None,
        };
        Ok(Self { inline: Pools::from_inline(inline)?, dir })
    }

    /// Reads the pools that the two lists can refer to.
    ///
    /// # Errors
    /// If a file cannot be read, or is not valid.
    pub(crate) fn candidate_pools(
        &self,
        ListedPools { ipv4, ipv6, .. }: &ListedPools,
        state: &StateDir,
        keep: bool,
    ) -> Result<Pools, Error> {
        let Some(dir) = &self.dir else { return Ok(self.inline.clone()) };
        // Also read pools of the directory with the name of an inline pool, to detect duplicates.
        let also: Vec<_> = self.inline.iter().map(|pool| pool.name.to_string()).collect();
        let wanted = PoolQuery { listed: [ipv4, ipv6], also: &also };
        Ok(self.inline.clone().merge(Pools::read_wanted(dir, wanted, state.root(), keep)?))
    }

    /// Reads all pools.
    ///
    /// # Errors
    /// As [`PoolSource::candidate_pools`].
    pub(crate) fn read_directory(&self) -> Result<Pools, Error> {
        match &self.dir {
            Some(dir) => Ok(self.inline.clone().merge(Pools::read_dir(dir)?)),
            None => Ok(self.inline.clone()),
        }
    }
}

/// Returns the key that names the directory of pools, and the directory.
///
/// # Errors
/// If it is not a text.
pub(crate) fn pools_dir<'a>(ipam: &ConfObject<'a>) -> Result<Option<(&'static str, &'a str)>, CniError> {
    let (of_key, old) = (ipam.text("poolsDir")?, ipam.text("pools_dir")?);
    Ok(of_key.map(|dir| ("poolsDir", dir)).or(old.map(|dir| ("pools_dir", dir))))
}
