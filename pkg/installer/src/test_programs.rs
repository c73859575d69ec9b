//! Executables for tests.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// Creates a shell script in a new directory.
pub(crate) fn script(body: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    program(&path, body);
    (dir, path)
}

/// Creates a shell script at a path.
pub(crate) fn program(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Creates a script that behaves like the CNI plugins of a release.
pub(crate) fn plugins(path: &Path, release: &str) {
    let body = format!(
        "[ \"$1\" = --version ] && echo silkrail-cni {release} && exit\n\
         [ \"$CNI_COMMAND\" = VERSION ] && echo '{{\"supportedVersions\":[\"1.0.0\"]}}'"
    );
    program(path, &body);
}
