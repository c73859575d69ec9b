//! Taking programs off the node again.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    Error, InstallStore, ReplacedFile, Sha256,
    atomic_install::{self, FileAttributes},
    attachments,
    existing_file::ExistingFile,
    install_record::InstalledFile,
};

/// What becomes of one file.
#[derive(Debug, Clone)]
pub struct RemovedFile {
    /// The file, as the node names it.
    pub path: PathBuf,
    /// What becomes of it.
    pub outcome: RemovalOutcome,
}

/// What becomes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalOutcome {
    /// Ours is removed; nothing was there before.
    Removed,
    /// What was there before is there again.
    Restored,
    /// It was gone already, or what was there before is back.
    Gone,
    /// It stays, for this reason.
    Left(String),
}

/// Removes what was installed and puts back what was there before. A file that is not as we put it stays.
///
/// With `dry_run` it only says what would be done.
///
/// # Errors
/// [`Error::InUse`] while attachments have their state below `state`, unless `force`; [`Error::Record`], [`Error::Busy`],
/// [`Error::Io`].
pub fn uninstall(
    store: &InstallStore,
    state: &Path,
    force: bool,
    dry_run: bool,
) -> Result<Vec<RemovedFile>, Error> {
    let attachments = attachments::below(state)?;
    if !attachments.is_empty() && !force {
        return Err(Error::InUse { attachments });
    }
    // A node where nothing was installed gets no directory for it.
    if dry_run || store.load()?.files.is_empty() {
        return store.load()?.files.iter().map(|(path, entry)| removal(store, path, entry)).collect();
    }
    let _lock = store.lock()?;
    let record = store.load()?;
    let mut left = BTreeMap::new();
    let mut removals = Vec::new();
    for (path, entry) in &record.files {
        let removal = removal(store, path, entry)?;
        remove_link(store, &removal, entry)?;
        if matches!(removal.outcome, RemovalOutcome::Left(_)) {
            left.insert(path.clone(), entry.clone());
        }
        removals.push(removal);
    }
    drop_from_record(store, record, left)?;
    Ok(removals)
}

/// Notes what is left; without anything left, no note and no backup is.
fn drop_from_record(
    store: &InstallStore,
    mut record: crate::install_record::InstallRecord,
    left: BTreeMap<PathBuf, InstalledFile>,
) -> Result<(), Error> {
    let backups: Vec<_> = record.files.values().filter_map(backup).collect();
    if left.is_empty() {
        return store.clear(&backups);
    }
    record.files = left;
    store.save(&record)
}

fn backup(entry: &InstalledFile) -> Option<Sha256> {
    match entry.origin {
        Some(ReplacedFile::File { sha256, .. }) => Some(sha256),
        _ => None,
    }
}

/// What is to become of a file.
fn removal(store: &InstallStore, path: &Path, entry: &InstalledFile) -> Result<RemovedFile, Error> {
    let here = store.here(path);
    let outcome = match ExistingFile::read(&here) {
        Ok(existing) => judge(store, &here, &existing, entry),
        Err(Error::Strange { .. }) => RemovalOutcome::Left("something else than a file has its name".into()),
        Err(other) => return Err(other),
    };
    Ok(RemovedFile { path: path.to_owned(), outcome })
}

fn judge(
    store: &InstallStore,
    here: &Path,
    existing: &ExistingFile,
    entry: &InstalledFile,
) -> RemovalOutcome {
    let is_ours = existing.sha256().is_some_and(|sha256| entry.sha256.contains(&sha256));
    match (existing, &entry.origin) {
        (ExistingFile::Nothing, None) => RemovalOutcome::Gone,
        (ExistingFile::Nothing, Some(_)) if !here.parent().is_some_and(Path::is_dir) => {
            RemovalOutcome::Left("its directory is gone, and what was there before cannot be put back".into())
        }
        (ExistingFile::File { sha256, .. }, Some(ReplacedFile::File { sha256: before, .. }))
            if sha256 == before =>
        {
            RemovalOutcome::Gone
        }
        (ExistingFile::Link(to), Some(ReplacedFile::Link { target })) if to == target => RemovalOutcome::Gone,
        (ExistingFile::File { .. } | ExistingFile::Link(_), _) if !is_ours => {
            RemovalOutcome::Left("somebody else changed it since: remove it yourself".into())
        }
        (_, None) => RemovalOutcome::Removed,
        (_, Some(ReplacedFile::Link { .. })) => RemovalOutcome::Restored,
        (_, Some(ReplacedFile::File { sha256, .. })) => match store.read_backup(sha256) {
            Ok(_) => RemovalOutcome::Restored,
            Err(why) => RemovalOutcome::Left(format!("what was there before is lost: {why}")),
        },
    }
}

fn remove_link(store: &InstallStore, removal: &RemovedFile, entry: &InstalledFile) -> Result<(), Error> {
    let here = store.here(&removal.path);
    match (&removal.outcome, &entry.origin) {
        (RemovalOutcome::Removed, _) => atomic_install::remove(&here)?,
        (RemovalOutcome::Restored, Some(origin)) => {
            restore(store, &here, origin)?;
            atomic_install::publish(&here)?;
        }
        _ => return Ok(()),
    }
    atomic_install::sync(here.parent().unwrap_or(Path::new("/")))
}

fn restore(store: &InstallStore, here: &Path, origin: &ReplacedFile) -> Result<(), Error> {
    match origin {
        ReplacedFile::Link { target } => atomic_install::point(here, target),
        ReplacedFile::File { sha256, mode, uid, gid } => {
            let path = store.backup(sha256);
            let content = store.read_backup(sha256).map_err(|why| Error::Record { path, why })?;
            atomic_install::write(here, &content, FileAttributes { mode: *mode, owner: Some((*uid, *gid)) })
                .map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use tempfile::TempDir;

    use super::*;
    use crate::{
        InstallOptions, Installer,
        test_programs::{plugins, program},
    };

    const STATE: &str = "root/run/silkrail";

    /// A node where ipvlan was a link, macvlan a program, and sriov nothing, before ours were installed.
    fn installed() -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(bin(&dir, "")).unwrap();
        fs::create_dir(dir.path().join("from")).unwrap();
        plugins(&dir.path().join("from/silkrail-cni"), "0.1.0");
        program(&bin(&dir, "macvlan"), "echo go");
        fs::set_permissions(bin(&dir, "macvlan"), fs::Permissions::from_mode(0o711)).unwrap();
        symlink("multicall", bin(&dir, "ipvlan")).unwrap();
        let names: Vec<_> = ["ipvlan", "macvlan", "sriov"].map(str::to_owned).into();
        let options = InstallOptions {
            root: dir.path().join("root"),
            from: dir.path().join("from"),
            to: "/opt/cni/bin".into(),
            bin_dir: None,
            plugins: names.clone(),
            names,
            spared: Vec::new(),
            force: false,
        };
        Installer::new(&options).unwrap().apply().unwrap();
        dir
    }

    fn bin(dir: &TempDir, name: &str) -> PathBuf {
        dir.path().join("root/opt/cni/bin").join(name)
    }

    fn run(dir: &TempDir, force: bool, dry_run: bool) -> Result<Vec<RemovalOutcome>, Error> {
        let store = InstallStore::of(&dir.path().join("root"));
        let removals = uninstall(&store, &dir.path().join(STATE), force, dry_run)?;
        Ok(removals.into_iter().map(|removal| removal.outcome).collect())
    }

    #[test]
    fn what_was_there_before_is_there_again_and_nothing_else_is_left() {
        let dir = installed();
        let expected = [RemovalOutcome::Restored, RemovalOutcome::Restored, RemovalOutcome::Removed];
        assert_eq!(run(&dir, false, true).unwrap(), expected);
        assert!(bin(&dir, "sriov").exists());
        assert_eq!(run(&dir, false, false).unwrap(), expected);
        assert_eq!(fs::read_to_string(bin(&dir, "macvlan")).unwrap(), "#!/bin/sh\necho go\n");
        assert_eq!(fs::metadata(bin(&dir, "macvlan")).unwrap().permissions().mode() & 0o7777, 0o711);
        assert_eq!(fs::read_link(bin(&dir, "ipvlan")).unwrap(), Path::new("multicall"));
        assert_eq!(fs::read_dir(bin(&dir, "")).unwrap().count(), 2);
        assert_eq!(fs::read_dir(dir.path().join("root/var/lib")).unwrap().count(), 0);
        assert!(run(&dir, false, false).unwrap().is_empty());
    }

    #[test]
    fn it_is_refused_while_attachments_exist() {
        let dir = installed();
        fs::create_dir_all(dir.path().join(STATE).join("attachments")).unwrap();
        let journal = dir.path().join(STATE).join("attachments/f00d@net1.macvlan.journal");
        fs::write(&journal, "").unwrap();
        let error = run(&dir, false, false).unwrap_err().to_string();
        assert!(error.contains("f00d@net1") && error.contains("--force"), "{error}");
        assert!(bin(&dir, "sriov").exists());
        assert_eq!(run(&dir, true, false).unwrap().len(), 3);
    }

    #[test]
    fn what_somebody_else_changed_stays_and_is_noted() {
        let dir = installed();
        fs::remove_file(bin(&dir, "macvlan")).unwrap();
        program(&bin(&dir, "macvlan"), "echo go 2");
        let outcomes = run(&dir, false, false).unwrap();
        assert!(
            matches!(&outcomes[1], RemovalOutcome::Left(why) if why.contains("somebody else")),
            "{outcomes:?}"
        );
        assert_eq!(fs::read_to_string(bin(&dir, "macvlan")).unwrap(), "#!/bin/sh\necho go 2\n");
        fs::remove_file(bin(&dir, "macvlan")).unwrap();
        // Now what was there before can be put back.
        assert_eq!(run(&dir, false, false).unwrap(), [RemovalOutcome::Restored]);
    }

    #[test]
    fn ours_stays_if_what_was_there_before_is_lost() {
        let dir = installed();
        let backups = dir.path().join("root/var/lib/silkrail/install/backup");
        for entry in fs::read_dir(backups).unwrap() {
            fs::write(entry.unwrap().path(), "damaged").unwrap();
        }
        let outcomes = run(&dir, false, false).unwrap();
        assert!(matches!(&outcomes[1], RemovalOutcome::Left(why) if why.contains("is lost")), "{outcomes:?}");
        assert!(bin(&dir, "macvlan").exists());
    }

    #[test]
    fn a_run_that_was_killed_is_finished() {
        let dir = installed();
        let store = InstallStore::of(&dir.path().join("root"));
        let record = store.load().unwrap();
        // It had put one back, removed one, and written half of the third.
        let path = Path::new("/opt/cni/bin/macvlan");
        restore(&store, &store.here(path), record.files[path].origin.as_ref().unwrap()).unwrap();
        atomic_install::publish(&store.here(path)).unwrap();
        fs::remove_file(bin(&dir, "sriov")).unwrap();
        fs::write(atomic_install::temporary(&bin(&dir, "ipvlan")), "half").unwrap();
        assert_eq!(
            run(&dir, false, false).unwrap(),
            [RemovalOutcome::Restored, RemovalOutcome::Gone, RemovalOutcome::Gone]
        );
        assert_eq!(fs::read_dir(bin(&dir, "")).unwrap().count(), 2);
    }

    #[test]
    fn where_nothing_was_installed_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        assert!(run(&dir, false, false).unwrap().is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
