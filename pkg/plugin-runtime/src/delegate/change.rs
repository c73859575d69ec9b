//! The call of the IPAM plugin, as a change that can be reverted.

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use cni::{AddRequest, CallContext, CniArgs, DelRequest, NetConf};
use identifiers::Attachment;
use serde::{Deserialize, Serialize};

use crate::{Error, Node};

/// The change that the IPAM plugin assigned addresses.
///
/// It contains the complete call. So the addresses can be released without the runtime's configuration: by GC, or by
/// the next ADD that needs the device.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegateAdd {
    attachment: Attachment,
    netns: PathBuf,
    cni_path: Vec<PathBuf>,
    args: String,
    configuration: String,
}

impl DelegateAdd {
    /// Returns the call that an ADD will make; `None` if its configuration has no IPAM plugin.
    ///
    /// # Errors
    /// If the configuration's `ipam` is invalid, or there is no such plugin: a call that cannot be made must not be in
    /// the journal, because it could not be reverted either.
    pub fn of(request: &AddRequest<'_>) -> Result<Option<Self>, Error> {
        if super::find::executable(&request.common)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            attachment: request.attachment.clone(),
            netns: request.netns.clone(),
            cni_path: request.common.cni_path.clone(),
            args: request.common.args.as_str().to_owned(),
            configuration: String::from_utf8_lossy(request.common.stdin).into_owned(),
        }))
    }

    /// Releases the addresses, by a DEL of the IPAM plugin.
    ///
    /// # Errors
    /// The delegate's error.
    pub fn revert(&self, node: &Node) -> Result<(), Error> {
        let stdin = self.configuration.as_bytes();
        // The directories of the ADD, then those of the current call, because the plugin may have been moved since. The former
        // are only a record: what is there now runs as root.
        let is_trusted = |dir: &&PathBuf| node.cni_path.contains(dir) || is_roots(dir);
        let mut cni_path: Vec<_> = self.cni_path.iter().filter(is_trusted).cloned().collect();
        cni_path.extend(node.cni_path.iter().filter(|dir| !self.cni_path.contains(dir)).cloned());
        let common = CallContext {
            conf: NetConf::parse(stdin)?,
            args: CniArgs::parse(&self.args).unwrap_or_else(|_| CniArgs::unread(&self.args)),
            cni_path,
            stdin,
        };
        let request = DelRequest {
            attachment: self.attachment.clone(),
            netns: Some(self.netns.clone()),
            own_netns_allowed: false,
            common,
        };
        Ok(super::calls::del(&request, node)?)
    }
}

/// Whether only root can add programs to a directory, which may be a link to one, or replace it.
fn is_roots(dir: &Path) -> bool {
    let Ok(dir) = fs::canonicalize(dir) else { return false };
    // In a sticky directory such as /tmp, users cannot replace files of others.
    let is_sticky =
        |dir: &Path| fs::metadata(dir).is_ok_and(|meta| meta.uid() == 0 && meta.mode() & 0o1000 != 0);
    let is_own = |dir| statefile::require_own_directory(dir).is_ok();
    is_own(&dir) && dir.ancestors().skip(1).all(|dir| is_own(dir) || is_sticky(dir))
}

impl fmt::Display for DelegateAdd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "addresses of {}", self.attachment)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn programs_of_a_recorded_directory_run_only_if_it_and_all_above_are_roots() {
        let root = tempfile::tempdir().unwrap();
        let (upper, dir, link) = (root.path().join("a"), root.path().join("a/b"), root.path().join("link"));
        fs::create_dir_all(&dir).unwrap();
        symlink(&dir, &link).unwrap();
        assert!(is_roots(&dir) && is_roots(&link));
        assert!(!is_roots(&root.path().join("missing")));
        for (path, mode, uid, expected) in [
            (&dir, 0o755, 65534, false),
            (&dir, 0o775, 0, false),
            (&dir, 0o1777, 0, false),
            (&upper, 0o755, 65534, false),
            (&upper, 0o777, 0, false),
            (&upper, 0o1777, 0, true),
            (&upper, 0o1777, 65534, false),
        ] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            chown(path, Some(uid), None).unwrap();
            assert_eq!(is_roots(&link), expected, "{} {mode:o} {uid}", path.display());
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            chown(path, Some(0), None).unwrap();
        }
    }
}
