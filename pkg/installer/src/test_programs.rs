//! Executables for tests.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A shell script in a directory of its own.
pub(crate) fn script(body: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    program(&path, body);
    (dir, path)
}

/// A shell script of that name.
pub(crate) fn program(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What stands for the CNI plugins of a release.
pub(crate) fn plugins(path: &Path, release: &str) {
    let body = format!(
        "[ \"$1\" = --version ] && echo silkrail-cni {release} && exit\n\
         [ \"$CNI_COMMAND\" = VERSION ] && echo '{{\"supportedVersions\":[\"1.0.0\"]}}'"
    );
    program(path, &body);
}
