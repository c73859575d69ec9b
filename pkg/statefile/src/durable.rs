//! Durable replacement: after a power failure at any moment the file has its old or its new content.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Creates or replaces `path` with `content`, and syncs the file and its directory.
///
/// The caller must hold a lock: the temporary file has a fixed name, so that the next process removes the file of
/// a killed one.
///
/// # Errors
/// The error of a system call; the former content is then unchanged.
pub fn replace_durably(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".silkrail"); // modprobe reads only files that end in .conf
    let temporary = dir.join(name);
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    let written = file
        .set_permissions(fs::Permissions::from_mode(mode)) // regardless of the umask
        .and_then(|()| file.write_all(content))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(dir)?.sync_all() // the rename itself
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_killed_process_is_removed_and_the_mode_is_0644() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ib_core.conf");
        fs::write(&path, "old\n").unwrap();
        fs::write(dir.path().join(".ib_core.conf.silkrail"), "half a fi").unwrap();
        replace_durably(&path, 0o644, b"new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
