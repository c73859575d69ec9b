//! These tests use scripts as executables; tests in `tests/tests/netns` install the built ones.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use tempfile::TempDir;

use super::*;
use crate::test_programs::{plugins, program};

/// A node's root directory with a plugin directory, and a source directory next to it.
struct InstallerFixture {
    dir: TempDir,
}

impl InstallerFixture {
    fn new() -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap() };
        for dir in ["root/opt/cni/bin", "root/usr/local/bin", "from"] {
            fs::create_dir_all(node.dir.path().join(dir)).unwrap();
        }
        node.offers("0.2.0");
        node
    }

    fn offers(&self, release: &str) {
        plugins(&self.dir.path().join("from/silkrail-cni"), release);
        for name in TOOLS {
            program(&self.dir.path().join("from").join(name), &format!("echo {name} {release}"));
        }
    }

    fn options(&self) -> InstallOptions {
        let names = vec!["ipvlan".to_owned(), "macvlan".to_owned()];
        InstallOptions {
            root: self.dir.path().join("root"),
            from: self.dir.path().join("from"),
            to: "/opt/cni/bin".into(),
            bin_dir: None,
            plugins: names.clone(),
            names,
            spared: Vec::new(),
            force: false,
        }
    }

    fn install(&self) -> Result<Vec<InstallAction>, Error> {
        self.install_with(&self.options())
    }

    fn install_with(&self, options: &InstallOptions) -> Result<Vec<InstallAction>, Error> {
        let installation = Installer::new(options)?;
        let planned: Vec<_> = installation.plan()?.iter().map(|file| file.action).collect();
        let done: Vec<_> = installation.apply()?.iter().map(|file| file.action).collect();
        assert_eq!(planned, done);
        Ok(done)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("root/opt/cni/bin").join(name)
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn record(&self) -> InstallRecord {
        InstallStore::of(&self.dir.path().join("root")).load().unwrap()
    }
}

/// Properties of a file that change if it is written again.
fn identity(path: &Path) -> (u64, i64, i64, i64) {
    let meta = fs::metadata(path).unwrap();
    (meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.ctime_nsec())
}

#[test]
fn one_file_gets_all_names_and_a_second_run_touches_nothing() {
    let node = InstallerFixture::new();
    assert_eq!(node.install().unwrap(), [InstallAction::Install, InstallAction::Install]);
    assert_eq!(node.files(), ["ipvlan", "macvlan"]);
    let record = node.dir.path().join("root/var/lib/silkrail/install/state.json");
    let before = [identity(&node.path("macvlan")), identity(&record)];
    assert_eq!(identity(&node.path("ipvlan")), before[0]);
    assert_eq!(fs::metadata(node.path("macvlan")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(node.install().unwrap(), [InstallAction::Unchanged, InstallAction::Unchanged]);
    assert_eq!([identity(&node.path("macvlan")), identity(&record)], before);
}

#[test]
fn a_file_of_another_project_is_saved_with_its_mode() {
    let node = InstallerFixture::new();
    program(&node.path("macvlan"), "echo go");
    fs::set_permissions(node.path("macvlan"), fs::Permissions::from_mode(0o711)).unwrap();
    symlink("../multicall", node.path("ipvlan")).unwrap();
    let go = fs::read(node.path("macvlan")).unwrap();
    assert_eq!(node.install().unwrap(), [InstallAction::Replace, InstallAction::Replace]);
    let record = node.record();
    let origin = |name: &str| record.files[&Path::new("/opt/cni/bin").join(name)].origin.clone();
    let var = fs::metadata(node.options().root.join("var/lib/silkrail/install")).unwrap();
    assert_eq!(var.permissions().mode() & 0o7777, 0o755);
    let Some(ReplacedFile::File { sha256, mode: 0o711, .. }) = origin("macvlan") else {
        panic!("{record:?}")
    };
    assert_eq!(InstallStore::of(&node.options().root).read_backup(&sha256).unwrap(), go);
    assert_eq!(origin("ipvlan"), Some(ReplacedFile::Link { target: "../multicall".into() }));
}

#[test]
fn an_upgrade_keeps_what_was_there_before_the_first_release() {
    let node = InstallerFixture::new();
    program(&node.path("macvlan"), "echo go");
    node.install().unwrap();
    let origin = node.record().files[Path::new("/opt/cni/bin/macvlan")].origin.clone();
    node.offers("0.3.0");
    assert_eq!(node.install().unwrap(), [InstallAction::Upgrade, InstallAction::Upgrade]);
    let entry = node.record().files[Path::new("/opt/cni/bin/macvlan")].clone();
    assert_eq!(entry.origin, origin);
    assert_eq!((entry.sha256.len(), entry.release), (1, ReleaseVersion::new("0.3.0")));
}

#[test]
fn what_a_package_put_over_ours_is_kept_in_place_of_what_was_there_first() {
    let node = InstallerFixture::new();
    program(&node.path("macvlan"), "echo go 1");
    node.install().unwrap();
    fs::remove_file(node.path("macvlan")).unwrap();
    program(&node.path("macvlan"), "echo go 2");
    let second = Sha256::of(&fs::read(node.path("macvlan")).unwrap());
    assert_eq!(node.install().unwrap(), [InstallAction::Unchanged, InstallAction::Replace]);
    let entry = node.record().files[Path::new("/opt/cni/bin/macvlan")].clone();
    assert!(matches!(entry.origin, Some(ReplacedFile::File { sha256, .. }) if sha256 == second));
    assert_eq!(identity(&node.path("macvlan")).0, identity(&node.path("ipvlan")).0);
}

#[test]
fn plugins_that_were_copied_by_hand_are_ours() {
    let node = InstallerFixture::new();
    plugins(&node.path("macvlan"), "0.1.0");
    fs::copy(node.dir.path().join("from/silkrail-cni"), node.path("ipvlan")).unwrap();
    assert_eq!(node.install().unwrap(), [InstallAction::Unchanged, InstallAction::Upgrade]);
    assert!(node.record().files.values().all(|entry| entry.origin.is_none()));
}

#[test]
fn a_newer_release_is_not_replaced_unless_forced() {
    let node = InstallerFixture::new();
    node.install().unwrap();
    node.offers("0.1.9");
    let before = identity(&node.path("macvlan"));
    let error = node.install().unwrap_err();
    assert!(
        matches!(&error, Error::Downgrade { installed, .. } if *installed == ReleaseVersion::new("0.2.0")),
        "{error}"
    );
    assert_eq!(identity(&node.path("macvlan")), before);
    let forced = InstallOptions { force: true, ..node.options() };
    assert_eq!(node.install_with(&forced).unwrap(), [InstallAction::Upgrade, InstallAction::Upgrade]);
}

#[test]
fn what_a_killed_run_left_is_removed_and_the_rest_is_done() {
    let node = InstallerFixture::new();
    plugins(&node.path("macvlan"), "0.1.0");
    fs::write(atomic_install::temporary(&node.path("macvlan")), "half").unwrap();
    fs::write(atomic_install::temporary(&node.path("bridge")), "half").unwrap();
    // It had recorded both files and renamed one.
    let installation = Installer::new(&node.options()).unwrap();
    let lock = installation.store.lock().unwrap();
    let steps = installation.steps(&InstallRecord::default()).unwrap();
    installation.save_record(&mut InstallRecord::default(), &steps, InstallStep::entry_meanwhile).unwrap();
    assert_eq!(node.record().files[Path::new("/opt/cni/bin/macvlan")].sha256.len(), 2);
    drop(lock);
    fs::copy(node.dir.path().join("from/silkrail-cni"), node.path("ipvlan")).unwrap();
    // The former build is known by its hash, even if it does not run any more.
    fs::set_permissions(node.path("macvlan"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(node.install().unwrap(), [InstallAction::Unchanged, InstallAction::Upgrade]);
    assert_eq!(node.files(), ["ipvlan", "macvlan"]);
    assert!(node.record().files.values().all(|entry| entry.sha256.len() == 1 && entry.origin.is_none()));
}

#[test]
fn the_command_and_the_daemon_are_installed_if_asked_for() {
    let node = InstallerFixture::new();
    let options = InstallOptions { bin_dir: Some("/usr/local/bin".into()), ..node.options() };
    assert_eq!(node.install_with(&options).unwrap(), [InstallAction::Install; 4]);
    for name in TOOLS {
        assert!(options.root.join("usr/local/bin").join(name).is_file());
    }
    assert_eq!(node.files(), ["ipvlan", "macvlan"]);
}

#[test]
fn nothing_is_left_of_a_program_that_does_not_run_in_its_directory() {
    let node = InstallerFixture::new();
    program(&node.path("macvlan"), "echo go");
    let source = node.dir.path().join("from/silkrail-cni");
    let text =
        fs::read_to_string(&source).unwrap().replacen('\n', "\ncase $0 in */root/*) exit 1;; esac\n", 1);
    fs::write(&source, text).unwrap();
    assert!(matches!(node.install(), Err(Error::Destination { .. })));
    assert_eq!((node.files(), node.record()), (vec!["macvlan".to_owned()], InstallRecord::default()));
}

#[test]
fn a_spared_name_is_left_to_another_project_only() {
    let node = InstallerFixture::new();
    let options = InstallOptions { spared: vec!["macvlan".into()], ..node.options() };
    program(&node.path("macvlan"), "echo go");
    program(&node.path("ipvlan"), "echo go");
    let go = identity(&node.path("macvlan"));
    assert_eq!(node.install_with(&options).unwrap(), [InstallAction::Replace, InstallAction::LeftAlone]);
    assert_eq!(identity(&node.path("macvlan")), go);
    let record = node.record();
    let recorded: Vec<_> = record.files.keys().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(recorded, ["ipvlan"], "what was left alone is not removed later");
    fs::remove_file(node.path("macvlan")).unwrap();
    assert_eq!(node.install_with(&options).unwrap(), [InstallAction::Unchanged, InstallAction::Install]);
    node.offers("0.3.0");
    assert_eq!(node.install_with(&options).unwrap(), [InstallAction::Upgrade, InstallAction::Upgrade]);
}

#[test]
fn a_file_that_a_package_restored_is_replaced_again_and_kept_once() {
    let node = InstallerFixture::new();
    program(&node.path("macvlan"), "echo go");
    fs::set_permissions(node.path("macvlan"), fs::Permissions::from_mode(0o711)).unwrap();
    symlink("multicall", node.path("ipvlan")).unwrap();
    node.install().unwrap();
    let before = node.record();
    fs::remove_file(node.path("macvlan")).unwrap();
    program(&node.path("macvlan"), "echo go");
    fs::remove_file(node.path("ipvlan")).unwrap();
    symlink("multicall", node.path("ipvlan")).unwrap();
    assert_eq!(node.install().unwrap(), [InstallAction::Replace, InstallAction::Replace]);
    assert_eq!(node.record(), before, "with the mode that it had first");
}

#[test]
fn a_directory_under_a_plugins_name_stops_everything() {
    let node = InstallerFixture::new();
    fs::create_dir(node.path("macvlan")).unwrap();
    assert!(matches!(node.install(), Err(Error::NotRegular { .. })));
    assert_eq!(node.files(), ["macvlan"]);
}

#[test]
fn a_file_that_lost_its_mode_is_ours_and_gets_it_back() {
    let node = InstallerFixture::new();
    node.install().unwrap();
    fs::remove_file(node.path("ipvlan")).unwrap();
    fs::set_permissions(node.path("macvlan"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(node.install().unwrap(), [InstallAction::Install, InstallAction::Upgrade]);
    assert_eq!(fs::metadata(node.path("macvlan")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert!(node.record().files.values().all(|entry| entry.origin.is_none()));
}
