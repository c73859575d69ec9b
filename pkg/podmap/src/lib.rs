//! The pod map: one file for each attachment with its pod and its RDMA device, for metrics and operators.
//!
//! The map is derived from the attachments, readable by all users and lost at a reboot. DEL uses the journal, never
//! the map. The file of an attachment is written after its last change is made and removed before its first change is
//! reverted, so that readers do not attribute a device to a pod that no longer has it.
//!
//! The files are `<state>/podmap/v1/<container>@<ifname>.json`. Readers ignore unknown keys.

#![forbid(unsafe_code)]

mod entry;

use std::{
    ffi::OsStr,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use identifiers::Attachment;

pub use entry::{
    AttachMode, ContainerRef, Entry, EntryWriter, GidInfo, NetworkAttachment, PodRef, RdmaInfo, of_pod,
};

/// An entry of the pod map cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// The file is not a valid entry, or has a newer major version.
    #[error("{}: {why}", path.display())]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// Why it cannot be parsed.
        why: String,
    },
}

/// The directory of the pod map.
#[derive(Debug, Clone)]
pub struct PodMap {
    dir: PathBuf,
}

impl PodMap {
    /// Returns the pod map of a state directory.
    pub fn below(state: &Path) -> Self {
        Self { dir: state.join("podmap/v1") }
    }

    /// Returns the path of the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the entry of an attachment, atomically replacing a former one.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be written.
    pub fn write(&self, attachment: &Attachment, entry: &Entry) -> Result<(), Error> {
        let path = self.path(attachment);
        statefile::make_dir(&self.dir, 0o755)?;
        let bytes = serde_json::to_vec(entry)
            .map_err(|e| Error::Malformed { path: path.clone(), why: e.to_string() })?;
        Ok(statefile::replace(&path, 0o644, &bytes)?)
    }

    /// Removes the entry of an attachment. Succeeds if it does not exist.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be removed.
    pub fn remove(&self, attachment: &Attachment) -> Result<(), Error> {
        Ok(statefile::remove(&self.path(attachment))?)
    }

    /// Reads the entry of an attachment; `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Malformed`].
    pub fn read(&self, attachment: &Attachment) -> Result<Option<Entry>, Error> {
        read(&self.path(attachment))
    }

    /// Quarantines an entry that cannot be parsed: renames it so that readers ignore it, and returns the new path.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be renamed.
    pub fn quarantine(&self, attachment: &Attachment) -> Result<PathBuf, Error> {
        Ok(statefile::quarantine(&self.path(attachment))?)
    }

    /// Reads all entries, sorted by file name. An entry that cannot be read is an `Err` of its own. The list is empty if
    /// the directory does not exist.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn read_all(&self) -> Result<Vec<Result<Entry, Error>>, Error> {
        let failed = |source| statefile::Error::Io { operation: "list", path: self.dir.clone(), source };
        let list = match fs::read_dir(&self.dir) {
            Ok(list) => list,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(failed(e).into()),
        };
        let mut paths = Vec::new();
        for item in list {
            let path = item.map_err(failed)?.path();
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if !hidden && path.extension() == Some(OsStr::new("json")) {
                paths.push(path);
            }
        }
        paths.sort();
        // A file that vanished after the listing belonged to an attachment that was deleted meanwhile.
        Ok(paths.iter().filter_map(|path| read(path).transpose()).collect())
    }

    fn path(&self, attachment: &Attachment) -> PathBuf {
        self.dir.join(format!("{attachment}.json"))
    }
}

fn read(path: &Path) -> Result<Option<Entry>, Error> {
    let Some(bytes) = statefile::read(path)? else { return Ok(None) };
    Entry::parse(&bytes).map(Some).map_err(|why| Error::Malformed { path: path.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn entry() -> Entry {
        Entry::new("test", "f00d@net1".parse().unwrap())
    }

    #[test]
    fn an_entry_is_written_read_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (map, attachment) = (PodMap::below(dir.path()), "f00d@net1".parse().unwrap());
        assert!(map.read(&attachment).unwrap().is_none());
        map.write(&attachment, &entry()).unwrap();
        assert_eq!(map.read(&attachment).unwrap().unwrap(), entry_like(&map, &attachment));
        assert_eq!(map.read_all().unwrap().len(), 1);
        let other = "f00d@net2".parse().unwrap();
        let changed = Entry { boot_id: "b".into(), ..entry() };
        map.write(&attachment, &changed).unwrap();
        map.write(&other, &entry()).unwrap();
        assert_eq!(map.read(&attachment).unwrap().unwrap().boot_id, "b", "the former one was replaced");
        assert_eq!(map.read_all().unwrap().len(), 2);
        map.remove(&other).unwrap();
        map.remove(&attachment).unwrap();
        map.remove(&attachment).unwrap();
        assert!(map.read_all().unwrap().is_empty());
        assert!(PodMap::below(&dir.path().join("nothing")).read_all().unwrap().is_empty());
    }

    /// The map is also for programs that do not run as root.
    #[test]
    fn every_user_can_read_the_map_also_if_an_entry_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let map = PodMap::below(dir.path());
        map.write(&"f00d@net1".parse().unwrap(), &entry()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(map.dir()), mode(&map.dir().join("f00d@net1.json"))), (0o755, 0o644));
        symlink("gone", map.dir().join("a@net1.json")).unwrap();
        fs::write(map.dir().join("f00d@net1.txt"), "another file").unwrap();
        let all = map.read_all().unwrap();
        assert!(matches!(&all[..], [Err(Error::File(_)), Ok(_)]), "{all:?}");
        fs::remove_dir_all(map.dir()).unwrap();
        fs::write(map.dir(), "not a directory").unwrap();
        assert!(matches!(map.read_all(), Err(Error::File(_))));
    }

    #[test]
    fn a_pod_has_the_attachments_of_its_newest_sandbox() {
        let of = |sandbox: &str, interface: &str, time: &str, uid: Option<&str>| {
            let mut entry = Entry::new("test", format!("{sandbox}@{interface}").parse().unwrap());
            entry.created_at = time.into();
            entry.pod =
                Some(PodRef { namespace: "ml".into(), name: "a".into(), uid: uid.map(str::to_owned) });
            entry
        };
        let entries = [
            of("new", "net1", "2026-01-02T00:00:02Z", Some("1")),
            of("old", "net1", "2026-01-01T00:00:00Z", Some("1")),
            of("new", "net2", "2026-01-02T00:00:01Z", Some("1")),
            of("other", "net1", "2026-01-03T00:00:00Z", Some("2")),
            of("unknown", "net1", "2026-01-03T00:00:00Z", None),
        ];
        let found =
            |uid| of_pod(&entries, uid).into_iter().map(|entry| &*entry.network.ifname).collect::<Vec<_>>();
        assert_eq!(found("1"), ["net1", "net2"]);
        assert_eq!(of_pod(&entries, "1")[0].container.sandbox_id, "new");
        assert_eq!((found("2"), found("3").len()), (vec!["net1"], 0));
    }

    fn entry_like(map: &PodMap, attachment: &Attachment) -> Entry {
        let written = map.read(attachment).unwrap().unwrap();
        Entry { created_at: written.created_at, ..entry() }
    }

    #[test]
    fn a_quarantined_entry_is_kept_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (map, attachment) = (PodMap::below(dir.path()), "f00d@net1".parse().unwrap());
        map.write(&attachment, &entry()).unwrap();
        fs::write(map.path(&attachment), "garbage").unwrap();
        assert!(map.read(&attachment).is_err());
        let quarantined = map.quarantine(&attachment).unwrap();
        assert_eq!(fs::read_to_string(quarantined).unwrap(), "garbage");
        assert!(map.read(&attachment).unwrap().is_none());
        assert!(map.read_all().unwrap().is_empty());
    }

    #[test]
    fn unknown_keys_are_ignored_and_unknown_majors_refused() {
        let dir = tempfile::tempdir().unwrap();
        let map = PodMap::below(dir.path());
        statefile::make_dir(&map.dir, 0o755).unwrap();
        let mut value = serde_json::to_value(entry()).unwrap();
        value["new"] = "key".into();
        fs::write(map.dir.join("a@net1.json"), value.to_string()).unwrap();
        for (container, schema) in [("b", "podmap/2.0"), ("c", "podmap/10.0")] {
            value["schema"] = schema.into();
            fs::write(map.dir.join(format!("{container}@net1.json")), value.to_string()).unwrap();
        }
        fs::write(map.dir.join(".c@net1.json.1"), "half").unwrap();
        fs::write(map.dir.join(".c@net1.json"), "half").unwrap();
        let all = map.read_all().unwrap();
        assert_eq!(all.len(), 3);
        assert!(all[0].is_ok());
        assert!(all[1].as_ref().unwrap_err().to_string().contains("podmap/2.0"));
        assert!(all[2].as_ref().unwrap_err().to_string().contains("podmap/10.0"));
    }
}
