//! SELinux labels of installed files (extended attribute `security.selinux`).
//!
//! A new file gets the label of its directory or of the writing process. In a container this is a label that the container
//! runtime must not execute. The other plugins in the directory have the correct label.

use std::{
    fs::{self, File},
    path::Path,
};

use rustix::fs::{XattrFlags, fsetxattr, lgetxattr};

const NAME: &str = "security.selinux";

/// Upper limit of the length of a label.
const MAX_LABEL_BYTES: usize = 4096;

/// Returns the label for a new file: the label of the file that it replaces, or of another file in the directory.
///
/// `None` if there are no labels.
pub(crate) fn for_file(path: &Path) -> Option<Vec<u8>> {
    of(path).or_else(|| of_neighbours(path.parent()?))
}

/// Sets the label of a file. If this is not permitted, the file keeps its initial label.
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

/// The label of the first labelled file by name, so that the result does not vary.
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

    /// Root can set labels even if SELinux is not enabled.
    fn labelled(path: &Path, label: &[u8]) {
        set(&File::create(path).unwrap(), Some(label));
        assert_eq!(
            of(path).as_deref(),
            Some(label),
            "this test needs root and a file system with extended attributes"
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
    fn a_file_that_replaces_another_gets_its_label() {
        let dir = tempfile::tempdir().unwrap();
        labelled(&dir.path().join("bridge"), b"other\0");
        labelled(&dir.path().join("macvlan"), LABEL);
        assert_eq!(for_file(&dir.path().join("macvlan")).as_deref(), Some(LABEL));
    }

    #[test]
    fn links_and_directories_give_no_label() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("macvlan")).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        assert_eq!(for_file(&dir.path().join("macvlan")), None);
    }
}
