//! The label by which SELinux lets runtimes execute a file.
//!
//! A file that is written in a directory gets the directory's label, or that of the process that wrote it: in a container
//! one that the runtime may not execute. The plugins beside it have the right one.

use std::{
    fs::{self, File},
    path::Path,
};

use rustix::fs::{XattrFlags, fsetxattr, lgetxattr};

const NAME: &str = "security.selinux";

/// No label is longer.
const MAX_LABEL_BYTES: usize = 4096;

/// The label that a new file should have: that of the file whose place it takes, or else of its neighbours.
///
/// `None` where there are no labels.
pub(crate) fn for_file(path: &Path) -> Option<Vec<u8>> {
    of(path).or_else(|| of_neighbours(path.parent()?))
}

/// Gives a file a label. Where that is not allowed it keeps the one it was made with.
pub(crate) fn set(file: &File, label: Option<&[u8]>) {
    if let Some(label) = label {
        let _ = fsetxattr(file, NAME, label, XattrFlags::empty());
    }
}

fn of(path: &Path) -> Option<Vec<u8>> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let mut label = vec![0; MAX_LABEL_BYTES];
    let length = is_file.then(|| lgetxattr(path, NAME, &mut label).ok()).flatten()?;
    label.truncate(length);
    Some(label)
}

/// Of the first one by name, so that it is always the same.
fn of_neighbours(dir: &Path) -> Option<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")));
    paths.sort();
    paths.iter().find_map(|path| of(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &[u8] = b"system_u:object_r:container_runtime_exec_t:s0\0";

    /// Root may set labels also where no SELinux gives them a meaning.
    fn labelled(path: &Path, label: &[u8]) {
        set(&File::create(path).unwrap(), Some(label));
        assert_eq!(
            of(path).as_deref(),
            Some(label),
            "is this run by root, on a file system with attributes?"
        );
    }

    #[test]
    fn a_new_file_gets_the_label_of_its_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(for_file(&dir.path().join("macvlan")), None);
        fs::write(dir.path().join("a-plain"), "").unwrap();
        labelled(&dir.path().join(".hidden"), b"other\0");
        labelled(&dir.path().join("bridge"), LABEL);
        assert_eq!(for_file(&dir.path().join("macvlan")).as_deref(), Some(LABEL));
    }

    #[test]
    fn a_file_that_takes_anothers_place_gets_its_label() {
        let dir = tempfile::tempdir().unwrap();
        labelled(&dir.path().join("bridge"), b"other\0");
        labelled(&dir.path().join("macvlan"), LABEL);
        assert_eq!(for_file(&dir.path().join("macvlan")).as_deref(), Some(LABEL));
    }

    #[test]
    fn what_is_no_file_has_no_label() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("macvlan")).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        assert_eq!(for_file(&dir.path().join("macvlan")), None);
    }
}
