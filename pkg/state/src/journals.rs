//! The journals of a node, by the names of their files.

use std::{ffi::OsStr, fs, io, path::PathBuf};

use identifiers::Attachment;

use crate::{Error, StateDir};

/// What the name of a journal's file says: `<attachment>.<plugin>.journal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalFile {
    /// The file.
    pub path: PathBuf,
    /// Whose journal it is.
    pub attachment: Attachment,
    /// Which plugin wrote it.
    pub plugin: String,
    /// Whether it could not be understood and was moved out of the way.
    pub set_aside: bool,
}

impl JournalFile {
    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let former = statefile::original_name(name);
        let (attachment, plugin) = former.unwrap_or(name).strip_suffix(".journal")?.rsplit_once('.')?;
        let (attachment, plugin) = (attachment.parse().ok()?, plugin.to_owned());
        let set_aside = former.is_some();
        Some(Self { path, attachment, plugin, set_aside })
    }
}

/// Every journal, those set aside too.
///
/// # Errors
/// If the directory cannot be listed; that it is not there means that there are none. Who took an error for that
/// would give away what is in use.
pub fn list(state: &StateDir) -> Result<Vec<JournalFile>, Error> {
    Ok(paths(state.attachments())?.into_iter().filter_map(JournalFile::of).collect())
}

/// Whether any journal tells of an attachment, be it one that could not be understood: it was noted before anything was
/// made, and goes after everything is taken back.
///
/// # Errors
/// As [`list`].
pub fn has_journal(state: &StateDir, attachment: &Attachment) -> Result<bool, Error> {
    // Most are others': to read their names whole would take longest, where thousands are asked about one by one.
    let prefix = format!("{attachment}.");
    let may = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    };
    let mut own = paths(state.attachments())?.into_iter().filter(may).filter_map(JournalFile::of);
    Ok(own.any(|journal| journal.attachment == *attachment))
}

/// Whether claims of an attachment that has no journal of this plugin may be left all the same: because its journal was
/// set aside, or because no attachment has one. It costs the same however many there are.
///
/// # Errors
/// If the directory cannot be listed.
pub fn may_be_orphaned(state: &StateDir, plugin: &str, attachment: &Attachment) -> Result<bool, Error> {
    if statefile::is_quarantined(&state.journal(attachment, plugin)) {
        return Ok(true);
    }
    let suffix = format!(".{plugin}.journal");
    let ours = |name: &OsStr| name.as_encoded_bytes().ends_with(suffix.as_bytes());
    match fs::read_dir(state.attachments()) {
        Ok(mut entries) => Ok(!entries.any(|entry| entry.is_ok_and(|entry| ours(&entry.file_name())))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(source) => {
            Err(statefile::Error::Io { operation: "list", path: state.attachments(), source }.into())
        }
    }
}

/// The files of a directory; none if it is not there.
pub(crate) fn paths(dir: PathBuf) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| statefile::Error::Io { operation: "list", path: dir.clone(), source };
    let entries = match fs::read_dir(&dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    Ok(paths.map_err(failed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_journal_it_is() {
        let named = |name: &str| JournalFile::of(PathBuf::from("/state").join(name));
        let journal = named("c0ffee@net1.5.silkrail-ipam.journal").unwrap();
        assert_eq!(
            (journal.attachment.to_string().as_str(), journal.plugin.as_str()),
            ("c0ffee@net1.5", "silkrail-ipam")
        );
        assert!(!journal.set_aside);
        for aside in ["c@n.sriov.journal.bad", "c@n.sriov.journal.bad.12"] {
            let journal = named(aside).unwrap();
            assert_eq!((journal.plugin.as_str(), journal.set_aside), ("sriov", true));
        }
        for other in ["c@n.sriov", "sriov.journal", "c.sriov.journal", "c@n.journal", "c@n.sriov.journal.old"]
        {
            assert_eq!(named(other), None, "{other}");
        }
    }

    #[test]
    fn a_journal_may_be_lost_if_it_was_set_aside_or_all_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (state, attachment) = (StateDir::at(dir.path()), "c@n".parse().unwrap());
        let lost = || may_be_orphaned(&state, "sriov", &attachment).unwrap();
        assert!(lost(), "there is no directory");
        fs::create_dir(state.attachments()).unwrap();
        fs::write(state.attachments().join("d@n.rdma.journal"), "").unwrap();
        assert!(lost(), "no journal of the plugin");
        fs::write(state.attachments().join("d@n.sriov.journal"), "").unwrap();
        assert!(!lost());
        fs::write(state.attachments().join("c@n.sriov.journal.bad"), "").unwrap();
        assert!(lost());
    }

    #[test]
    fn a_directory_that_cannot_be_listed_is_no_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path());
        assert!(list(&state).unwrap().is_empty());
        fs::write(state.attachments(), "").unwrap();
        assert!(list(&state).is_err());
    }
}
