//! A node's root directory for `silkrail install`, and a source to install from.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use silkrail_tests::cli::{self, CommandOutput, silkrail};
use tempfile::TempDir;

/// A node's root with a directory for plugins, and beside it a source with the built executable.
pub(crate) struct InstallFixture {
    dir: TempDir,
}

impl InstallFixture {
    pub(crate) fn new() -> Self {
        let node = Self { dir: tempfile::tempdir_in("/dev/shm").unwrap() }; // tmpfs: fsync takes no time
        fs::create_dir_all(node.bin("")).unwrap();
        fs::create_dir_all(node.path("from/cni")).unwrap();
        // A stripped executable is smaller and copied faster.
        let built = cli::executable().with_file_name("silkrail-cni");
        let status = Command::new("strip").arg("-o").args([&node.source(), &built]).status().unwrap();
        assert!(status.success(), "strip {}", built.display());
        node
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    pub(crate) fn bin(&self, name: &str) -> PathBuf {
        self.path("root/opt/cni/bin").join(name)
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.path("from/cni/macvlan")
    }

    /// Makes another build of the same release: the kernel ignores bytes after the end of an ELF file.
    pub(crate) fn rebuild(&self) {
        let mut content = fs::read(self.source()).unwrap();
        content.push(b'\n');
        fs::write(self.source(), content).unwrap();
    }

    pub(crate) fn args(&self, command: &str) -> String {
        format!("--root {} {command}", self.path("root").display())
    }

    pub(crate) fn install(&self, options: &str) -> CommandOutput {
        silkrail(&self.args(&format!("install --from {} {options}", self.path("from").display())))
    }

    pub(crate) fn uninstall(&self, options: &str) -> CommandOutput {
        silkrail(&self.args(&format!("uninstall {options}")))
    }

    /// Every file below the root with its content's length and first bytes, mode and inode.
    pub(crate) fn files(&self) -> Vec<(PathBuf, u64, u32, u64, i64)> {
        let mut files = Vec::new();
        list(&self.path("root"), &mut files);
        files
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.bin("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub(crate) fn list(dir: &Path, files: &mut Vec<(PathBuf, u64, u32, u64, i64)>) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            list(&path, files);
        } else {
            files.push((path, meta.len(), meta.mode(), meta.ino(), meta.ctime_nsec()));
        }
    }
}

pub(crate) fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
