//! The record of installed files, and copies of the files that they replaced.

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

/// Timeout for the lock that another installation holds.
const INSTALL_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The subdirectory of the copies.
const BACKUPS: &str = "backup";

/// Attributes of the copies: not executable.
const KEPT: FileAttributes = FileAttributes { mode: 0o600, owner: None };

/// The directory `/var/lib/silkrail/install` of a node: `state.json`, and `backup/` with files named by their SHA-256.
#[derive(Debug, Clone)]
pub struct InstallStore {
    root: PathBuf,
    dir: PathBuf,
}

impl InstallStore {
    /// Path relative to the node's root directory.
    const DIR: &'static str = "var/lib/silkrail/install";

    /// The store of the node with this root directory.
    pub fn of(root: &Path) -> Self {
        Self { root: root.to_owned(), dir: root.join(Self::DIR) }
    }

    /// The path on the node of the copy with this hash.
    pub fn backup_path(sha256: &Sha256) -> PathBuf {
        Path::new("/").join(Self::DIR).join(BACKUPS).join(sha256.to_string())
    }

    /// The path in this process' file system of the copy with this hash.
    pub(crate) fn backup(&self, sha256: &Sha256) -> PathBuf {
        self.backups().join(sha256.to_string())
    }

    /// Converts a path on the node to a path in this process' file system.
    pub(crate) fn here(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Converts a path in this process' file system to a path on the node.
    pub(crate) fn on_node(&self, path: &Path) -> PathBuf {
        let root = fs::canonicalize(&self.root).unwrap_or_else(|_| self.root.clone());
        path.strip_prefix(root).map_or_else(|_| path.to_owned(), |path| Path::new("/").join(path))
    }

    /// Takes the lock against other installations, which is held until the file is closed.
    pub(crate) fn lock(&self) -> Result<File, Error> {
        let dir = self.backups();
        for (dir, mode) in [(&self.dir, 0o755), (&dir, 0o700)] {
            let made = DirBuilder::new().recursive(true).mode(mode).create(dir);
            made.map_err(Error::io("cannot create directory", dir))?;
        }
        let lock = File::open(&self.dir).map_err(Error::io("cannot open", &self.dir))?;
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
            Err(e) => Err(Error::io("cannot read", path)(e)),
        }
    }

    pub(crate) fn save(&self, record: &InstallRecord) -> Result<(), Error> {
        let path = self.record();
        let text = record.text().map_err(|e| Error::io("cannot write", &path)(e.into()))?;
        atomic_install::write(&path, &text, FileAttributes { mode: 0o644, owner: None })?;
        atomic_install::publish(&path)?;
        atomic_install::sync(&self.dir)
    }

    /// Saves a copy of a content, unless an intact one exists.
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

    /// Reads the copy with this hash.
    ///
    /// # Errors
    /// If the copy cannot be read, or its content does not have this hash.
    pub(crate) fn read_backup(&self, sha256: &Sha256) -> Result<Vec<u8>, String> {
        let path = self.backup(sha256);
        let content = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        if Sha256::of(&content) == *sha256 {
            Ok(content)
        } else {
            Err(format!("{} is damaged: its content does not match the hash in its name", path.display()))
        }
    }

    /// Removes the record and these backups, and the directories if they are then empty.
    pub(crate) fn clear(&self, backups: &[Sha256]) -> Result<(), Error> {
        for sha256 in backups {
            atomic_install::remove(&self.backup(sha256))?;
        }
        // Last: only the record maps the backups to files.
        atomic_install::remove(&self.record())?;
        for dir in [&self.backups(), &self.dir, self.dir.parent().unwrap_or(&self.dir)] {
            let _ = fs::remove_dir(dir); // not empty: an unreferenced backup is kept for the operator
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
    fn a_copy_is_found_by_its_hash_and_damage_is_detected() {
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
    fn loading_creates_no_file_if_nothing_was_installed() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(InstallStore::of(root.path()).load().unwrap(), InstallRecord::default());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn paths_on_the_node_do_not_depend_on_its_root_directory() {
        let root = tempfile::tempdir().unwrap();
        let store = InstallStore::of(root.path());
        let here = store.here(Path::new("/opt/cni/bin/macvlan"));
        assert_eq!(here, root.path().join("opt/cni/bin/macvlan"));
        assert_eq!(store.on_node(&here), Path::new("/opt/cni/bin/macvlan"));
        assert_eq!(InstallStore::of(Path::new("/")).on_node(Path::new("/a/b")), Path::new("/a/b"));
    }
}
