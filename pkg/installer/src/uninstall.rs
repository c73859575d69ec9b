//! Removes installed programs from the node.

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

/// The outcome for one installed file.
#[derive(Debug, Clone)]
pub struct RemovedFile {
    /// The path of the file on the node.
    pub path: PathBuf,
    /// What was done with it.
    pub outcome: RemovalOutcome,
}

/// What was done with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalOutcome {
    /// It was removed; there was no file before the installation.
    Removed,
    /// The file from before the installation was restored.
    Restored,
    /// It did not exist any more, or the former file was restored already.
    Gone,
    /// It was kept, for this reason.
    Kept(String),
}

/// Removes installed files and restores the files that they replaced. A file that was changed since is kept.
///
/// With `dry_run` it only returns what would be done.
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
    // If nothing was installed, do not create the directory of the store.
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
        if matches!(removal.outcome, RemovalOutcome::Kept(_)) {
            left.insert(path.clone(), entry.clone());
        }
        removals.push(removal);
    }
    drop_from_record(store, record, left)?;
    Ok(removals)
}

/// Records the files that are left. If there are none, the record and the backups are removed.
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

/// Determines what will be done with a file.
fn removal(store: &InstallStore, path: &Path, entry: &InstalledFile) -> Result<RemovedFile, Error> {
    let here = store.here(path);
    let outcome = match ExistingFile::read(&here) {
        Ok(existing) => judge(store, &here, &existing, entry),
        Err(Error::NotRegular { .. }) => RemovalOutcome::Kept("it is not a regular file".into()),
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
            RemovalOutcome::Kept("its directory does not exist, so the former file cannot be restored".into())
        }
        (ExistingFile::File { sha256, .. }, Some(ReplacedFile::File { sha256: before, .. }))
            if sha256 == before =>
        {
            RemovalOutcome::Gone
        }
        (ExistingFile::Link(to), Some(ReplacedFile::Link { target })) if to == target => RemovalOutcome::Gone,
        (ExistingFile::File { .. } | ExistingFile::Link(_), _) if !is_ours => {
            RemovalOutcome::Kept("it was changed after the installation: remove it manually".into())
        }
        (_, None) => RemovalOutcome::Removed,
        (_, Some(ReplacedFile::Link { .. })) => RemovalOutcome::Restored,
        (_, Some(ReplacedFile::File { sha256, .. })) => match store.read_backup(sha256) {
            Ok(_) => RemovalOutcome::Restored,
            Err(why) => RemovalOutcome::Kept(format!("the former file cannot be restored: {why}")),
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
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use tempfile::TempDir;

    use super::*;
    use crate::{
        InstallOptions, Installer,
        test_programs::{plugins, program},
    };

    const STATE: &str = "root/run/silkrail";

    /// A node on which ipvlan was a symbolic link, macvlan a program, and sriov missing before the installation.
    fn installed() -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(bin(&dir, "")).unwrap();
        program(&bin(&dir, "macvlan"), "echo go");
        fs::set_permissions(bin(&dir, "macvlan"), fs::Permissions::from_mode(0o711)).unwrap();
        symlink("multicall", bin(&dir, "ipvlan")).unwrap();
        install(&dir);
        dir
    }

    fn install(dir: &TempDir) {
        fs::create_dir(dir.path().join("from")).unwrap();
        plugins(&dir.path().join("from/silkrail-cni"), "0.1.0");
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
    fn former_files_are_restored_and_nothing_else_is_left() {
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
        assert!(matches!(run(&dir, false, true), Err(Error::InUse { .. })), "a preview tells it too");
        assert!(bin(&dir, "sriov").exists());
        assert_eq!(run(&dir, true, false).unwrap().len(), 3);
    }

    #[test]
    fn a_changed_file_is_kept_and_stays_in_the_record() {
        let dir = installed();
        fs::remove_file(bin(&dir, "macvlan")).unwrap();
        program(&bin(&dir, "macvlan"), "echo go 2");
        let outcomes = run(&dir, false, false).unwrap();
        assert!(
            matches!(&outcomes[1], RemovalOutcome::Kept(why) if why.contains("changed after the installation")),
            "{outcomes:?}"
        );
        assert_eq!(fs::read_to_string(bin(&dir, "macvlan")).unwrap(), "#!/bin/sh\necho go 2\n");
        fs::remove_file(bin(&dir, "macvlan")).unwrap();
        // Now the former file can be restored.
        assert_eq!(run(&dir, false, false).unwrap(), [RemovalOutcome::Restored]);
    }

    #[test]
    fn our_file_is_kept_if_the_former_one_cannot_be_restored() {
        let dir = installed();
        let backups = dir.path().join("root/var/lib/silkrail/install/backup");
        for entry in fs::read_dir(backups).unwrap() {
            fs::write(entry.unwrap().path(), "damaged").unwrap();
        }
        let outcomes = run(&dir, false, false).unwrap();
        assert!(
            matches!(&outcomes[1], RemovalOutcome::Kept(why) if why.contains("cannot be restored")),
            "{outcomes:?}"
        );
        assert!(bin(&dir, "macvlan").exists());
    }

    #[test]
    fn every_former_file_has_its_own_content_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(bin(&dir, "")).unwrap();
        for name in ["ipvlan", "macvlan", "sriov"] {
            program(&bin(&dir, name), &format!("echo {name}"));
        }
        install(&dir);
        assert_eq!(run(&dir, false, false).unwrap(), vec![RemovalOutcome::Restored; 3]);
        for name in ["ipvlan", "macvlan", "sriov"] {
            let content = fs::read_to_string(bin(&dir, name)).unwrap();
            assert_eq!(content, format!("#!/bin/sh\necho {name}\n"));
        }
        assert_eq!(fs::read_dir(dir.path().join("root/var/lib")).unwrap().count(), 0, "no copy is left");
    }

    #[test]
    fn a_restored_file_has_its_former_owner() {
        let dir = tempfile::tempdir().unwrap();
        let store = InstallStore::of(&dir.path().join("root"));
        let _lock = store.lock().unwrap();
        store.save_backup(b"go").unwrap();
        let here = dir.path().join("macvlan");
        let origin = ReplacedFile::File { sha256: Sha256::of(b"go"), mode: 0o4750, uid: 65533, gid: 65534 };
        restore(&store, &here, &origin).unwrap();
        atomic_install::publish(&here).unwrap();
        let meta = fs::metadata(&here).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (65533, 65534, 0o4750));
    }

    #[test]
    fn what_is_in_the_place_of_a_file_is_kept() {
        let dir = installed();
        fs::remove_file(bin(&dir, "sriov")).unwrap();
        fs::create_dir(bin(&dir, "sriov")).unwrap();
        let outcomes = run(&dir, false, false).unwrap();
        assert_eq!(outcomes[2], RemovalOutcome::Kept("it is not a regular file".into()));
        fs::remove_dir(bin(&dir, "sriov")).unwrap();
        let dir = installed();
        fs::remove_file(bin(&dir, "ipvlan")).unwrap();
        symlink("multicall", bin(&dir, "ipvlan")).unwrap();
        let outcomes = run(&dir, false, false).unwrap();
        assert_eq!(outcomes[0], RemovalOutcome::Gone, "the former link was restored already");
        let dir = installed();
        fs::remove_dir_all(bin(&dir, "")).unwrap();
        let outcomes = run(&dir, false, false).unwrap();
        assert_eq!(outcomes[2], RemovalOutcome::Gone);
        for outcome in &outcomes[..2] {
            assert!(
                matches!(outcome, RemovalOutcome::Kept(why) if why.contains("directory does not exist")),
                "{outcomes:?}"
            );
        }
        fs::create_dir_all(bin(&dir, "")).unwrap();
        assert_eq!(run(&dir, false, false).unwrap(), [RemovalOutcome::Restored, RemovalOutcome::Restored]);
    }

    #[test]
    fn a_killed_run_is_completed() {
        let dir = installed();
        let store = InstallStore::of(&dir.path().join("root"));
        let record = store.load().unwrap();
        // It had restored one file, removed one, and partly written the third.
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
    fn nothing_is_created_if_nothing_was_installed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(run(&dir, false, false).unwrap().is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
