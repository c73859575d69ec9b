//! Lists the journals of a node by their file names.

use std::{ffi::OsStr, fs, io, path::PathBuf};

use identifiers::Attachment;

use crate::{Error, StateDir};

/// The file name of a journal, parsed: `<attachment>.<plugin>.journal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The attachment, for example `c0ffee@net1`.
    pub attachment: Attachment,
    /// The plugin that wrote it, for example `sriov`.
    pub plugin: String,
    /// Whether the file is quarantined, because it could not be parsed.
    pub is_quarantined: bool,
}

impl JournalFile {
    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let former = statefile::original_name(name);
        let (attachment, plugin) = former.unwrap_or(name).strip_suffix(".journal")?.rsplit_once('.')?;
        let (attachment, plugin) = (attachment.parse().ok()?, plugin.to_owned());
        let is_quarantined = former.is_some();
        Some(Self { path, attachment, plugin, is_quarantined })
    }
}

/// Lists all journals, including quarantined ones. The list is empty if the directory does not exist.
///
/// # Errors
/// If the directory cannot be listed. Callers must not treat this as an empty list: they would release claims in use.
pub fn list(state: &StateDir) -> Result<Vec<JournalFile>, Error> {
    Ok(paths(state.attachments())?.into_iter().filter_map(JournalFile::of).collect())
}

/// Whether an attachment has a journal of any plugin, quarantined ones included. A journal exists before the first change
/// is made and until the last one is reverted.
///
/// # Errors
/// As [`list`].
pub fn has_journal(state: &StateDir, attachment: &Attachment) -> Result<bool, Error> {
    // Compare the prefix first: callers check thousands of attachments, and parsing every name would dominate.
    let prefix = format!("{attachment}.");
    let is_candidate = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    };
    let mut own = paths(state.attachments())?.into_iter().filter(is_candidate).filter_map(JournalFile::of);
    Ok(own.any(|journal| journal.attachment == *attachment))
}

/// Whether an attachment without a journal of this plugin can still have claims: its journal was quarantined, or no
/// attachment has a journal, so that all may be lost. Stops at the first journal of the plugin.
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

/// Returns the paths of a directory's entries; none if the directory does not exist.
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
    fn a_file_name_contains_the_attachment_and_the_plugin() {
        let named = |name: &str| JournalFile::of(PathBuf::from("/state").join(name));
        let journal = named("c0ffee@net1.5.silkrail-ipam.journal").unwrap();
        assert_eq!(
            (journal.attachment.to_string().as_str(), journal.plugin.as_str()),
            ("c0ffee@net1.5", "silkrail-ipam")
        );
        assert!(!journal.is_quarantined);
        for quarantined in ["c@n.sriov.journal.bad", "c@n.sriov.journal.bad.12"] {
            let journal = named(quarantined).unwrap();
            assert_eq!((journal.plugin.as_str(), journal.is_quarantined), ("sriov", true));
        }
        for other in ["c@n.sriov", "sriov.journal", "c.sriov.journal", "c@n.journal", "c@n.sriov.journal.old"]
        {
            assert_eq!(named(other), None, "{other}");
        }
    }

    #[test]
    fn an_attachment_may_be_orphaned_if_its_journal_is_quarantined_or_all_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (state, attachment) = (StateDir::at(dir.path()), "c@n".parse().unwrap());
        let may = || may_be_orphaned(&state, "sriov", &attachment).unwrap();
        assert!(may(), "the directory does not exist");
        fs::create_dir(state.attachments()).unwrap();
        fs::write(state.attachments().join("d@n.rdma.journal"), "").unwrap();
        assert!(may(), "no journal of the plugin");
        fs::write(state.attachments().join("d@n.sriov.journal"), "").unwrap();
        assert!(!may());
        fs::write(state.attachments().join("c@n.sriov.journal.bad"), "").unwrap();
        assert!(may());
    }

    #[test]
    fn an_attachment_has_a_journal_of_any_plugin_even_if_it_is_quarantined() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path());
        let has = |attachment: &str| has_journal(&state, &attachment.parse().unwrap()).unwrap();
        assert!(!has("a@net1"), "the directory does not exist");
        fs::create_dir(state.attachments()).unwrap();
        for name in [
            "a@net1.5.rdma.journal",
            "b@net1.sriov.journal.bad",
            "c@net1.sriov.journal",
            ".c@net2.x.journal.new",
        ] {
            fs::write(state.attachments().join(name), "").unwrap();
        }
        assert!(has("a@net1.5") && has("b@net1") && has("c@net1"));
        assert!(!has("a@net1") && !has("c@net") && !has("c@net2"));
        let mut listed: Vec<_> =
            list(&state).unwrap().iter().map(|file| file.attachment.to_string()).collect();
        listed.sort();
        assert_eq!(listed, ["a@net1.5", "b@net1", "c@net1"]);
    }

    #[test]
    fn a_directory_that_cannot_be_listed_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path());
        assert!(list(&state).unwrap().is_empty());
        fs::write(state.attachments(), "").unwrap();
        assert!(list(&state).is_err());
    }
}
