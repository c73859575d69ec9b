//! Where it is noted what was installed, and kept what was replaced.

use std::{
    fs::{self, DirBuilder, File},
    io::ErrorKind,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    Error, Sha256,
    atomic_install::{self, FileAttributes},
    install_record::InstallRecord,
};

/// How long another installation may take.
const INSTALL_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Where it is below that directory.
const BACKUPS: &str = "backup";

/// What is kept is not for execution.
const KEPT: FileAttributes = FileAttributes { mode: 0o600, owner: None };

/// The directory `/var/lib/silkrail/install` of a node: `state.json`, and `backup/` with files under their hashes.
#[derive(Debug, Clone)]
pub struct InstallStore {
    root: PathBuf,
    dir: PathBuf,
}

impl InstallStore {
    /// Below this, on the node.
    const DIR: &'static str = "var/lib/silkrail/install";

    /// That of the node with this root directory.
    pub fn of(root: &Path) -> Self {
        Self { root: root.to_owned(), dir: root.join(Self::DIR) }
    }

    /// Where a content is kept, as the node names it.
    pub fn backup_path(sha256: &Sha256) -> PathBuf {
        Path::new("/").join(Self::DIR).join(BACKUPS).join(sha256.to_string())
    }

    /// Where a content is kept.
    pub(crate) fn backup(&self, sha256: &Sha256) -> PathBuf {
        self.backups().join(sha256.to_string())
    }

    /// Where a file of the node is, seen from here.
    pub(crate) fn here(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// How the node names a file that is here.
    pub(crate) fn on_node(&self, path: &Path) -> PathBuf {
        let root = fs::canonicalize(&self.root).unwrap_or_else(|_| self.root.clone());
        path.strip_prefix(root).map_or_else(|_| path.to_owned(), |path| Path::new("/").join(path))
    }

    /// Keeps others from installing and removing while it is held.
    pub(crate) fn lock(&self) -> Result<File, Error> {
        let dir = self.backups();
        for (dir, mode) in [(&self.dir, 0o755), (&dir, 0o700)] {
            let made = DirBuilder::new().recursive(true).mode(mode).create(dir);
            made.map_err(Error::io("create directory", dir))?;
        }
        let lock = File::open(&self.dir).map_err(Error::io("open", &self.dir))?;
        statefile::lock(&lock, &self.dir, Instant::now() + INSTALL_LOCK_TIMEOUT).map_err(Error::Busy)?;
        atomic_install::discard_all(&self.dir)?;
        atomic_install::discard_all(&dir)?;
        Ok(lock)
    }

    pub(crate) fn load(&self) -> Result<InstallRecord, Error> {
        let path = self.record();
        match fs::read(&path) {
            Ok(bytes) => InstallRecord::parse(&bytes).map_err(|why| Error::Record { path, why }),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(InstallRecord::default()),
            Err(e) => Err(Error::io("read", path)(e)),
        }
    }

    pub(crate) fn save(&self, record: &InstallRecord) -> Result<(), Error> {
        let path = self.record();
        let text = record.text().map_err(|e| Error::io("write", &path)(e.into()))?;
        atomic_install::write(&path, &text, FileAttributes { mode: 0o644, owner: None })?;
        atomic_install::publish(&path)?;
        atomic_install::sync(&self.dir)
    }

    /// Keeps a content.
    pub(crate) fn save_backup(&self, content: &[u8]) -> Result<(), Error> {
        let sha256 = Sha256::of(content);
        if self.read_backup(&sha256).is_ok() {
            return Ok(());
        }
        let path = self.backup(&sha256);
        atomic_install::write(&path, content, KEPT)?;
        atomic_install::publish(&path)?;
        atomic_install::sync(&self.backups())
    }

    /// A content that was kept.
    ///
    /// # Errors
    /// Why it is not there as it was.
    pub(crate) fn read_backup(&self, sha256: &Sha256) -> Result<Vec<u8>, String> {
        let path = self.backup(sha256);
        let content = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        if Sha256::of(&content) == *sha256 {
            Ok(content)
        } else {
            Err(format!("{} is damaged: its content is not what its name says", path.display()))
        }
    }

    /// Removes the record and every backup, and the directories if nothing else is in them.
    pub(crate) fn clear(&self, backups: &[Sha256]) -> Result<(), Error> {
        for sha256 in backups {
            atomic_install::remove(&self.backup(sha256))?;
        }
        // Last: without it, nothing tells whose the backups are.
        atomic_install::remove(&self.record())?;
        for dir in [&self.backups(), &self.dir, self.dir.parent().unwrap_or(&self.dir)] {
            let _ = fs::remove_dir(dir); // a backup that nothing refers to is for people to judge
        }
        Ok(())
    }

    fn record(&self) -> PathBuf {
        self.dir.join("state.json")
    }

    fn backups(&self) -> PathBuf {
        self.dir.join(BACKUPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_by_its_hash_and_damage_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let store = InstallStore::of(root.path());
        let _lock = store.lock().unwrap();
        let hash = Sha256::of(b"go");
        assert!(store.read_backup(&hash).is_err());
        store.save_backup(b"go").unwrap();
        assert_eq!(store.read_backup(&hash).unwrap(), b"go");
        fs::write(store.backup(&hash), "gone").unwrap();
        assert!(store.read_backup(&hash).unwrap_err().contains("is damaged"));
        store.save_backup(b"go").unwrap();
        assert_eq!(store.read_backup(&hash).unwrap(), b"go");
    }

    #[test]
    fn nothing_is_noted_where_nothing_was_installed() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(InstallStore::of(root.path()).load().unwrap(), InstallRecord::default());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn paths_are_the_nodes_whatever_its_root_is() {
        let root = tempfile::tempdir().unwrap();
        let store = InstallStore::of(root.path());
        let here = store.here(Path::new("/opt/cni/bin/macvlan"));
        assert_eq!(here, root.path().join("opt/cni/bin/macvlan"));
        assert_eq!(store.on_node(&here), Path::new("/opt/cni/bin/macvlan"));
        assert_eq!(InstallStore::of(Path::new("/")).on_node(Path::new("/a/b")), Path::new("/a/b"));
    }
}
