//! Checks of the destination directory.

use std::{
    fs,
    io::ErrorKind,
    path::{self, Path, PathBuf},
};

use nix::{
    errno::Errno,
    unistd::{AccessFlags, access},
};

use crate::Error;

/// Plugin directories of common container runtimes.
const OTHER_DIRS_HINT: &str = "create it, or specify the plugin directory of this node's runtime (bin_dir of \
                         containerd, plugin_dirs of CRI-O; k3s: /var/lib/rancher/k3s/data/cni, OpenShift: /var/lib/cni/bin)";

/// Returns the directory with all symbolic links in its parents resolved, if files can be created in it.
///
/// # Errors
/// [`Error::Destination`] if it is missing, a symbolic link, not a directory, not writable, or contains configurations.
pub(crate) fn check(dir: &Path) -> Result<PathBuf, Error> {
    // With a trailing slash, lstat(2) would follow a symbolic link.
    let dir: PathBuf = path::absolute(dir).map_err(Error::io("cannot resolve", dir))?.components().collect();
    let refuse = |why: String| Error::Destination { path: dir.clone(), why };
    let meta = match fs::symlink_metadata(&dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(refuse(format!("does not exist: {OTHER_DIRS_HINT}")));
        }
        other => other.map_err(Error::io("cannot read", &dir))?,
    };
    if meta.is_symlink() {
        let to = fs::read_link(&dir).unwrap_or_default();
        return Err(refuse(format!("is a symbolic link to {}: specify the directory itself", to.display())));
    }
    if !meta.is_dir() {
        return Err(refuse("is not a directory".into()));
    }
    access(&dir, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK)
        .map_err(|errno| refuse(unwritable(errno)))?;
    if has_configurations(&dir) {
        return Err(refuse("contains network configurations, not plugins: specify another directory".into()));
    }
    fs::canonicalize(&dir).map_err(Error::io("cannot read", &dir))
}

fn unwritable(errno: Errno) -> String {
    match errno {
        Errno::EROFS => {
            "is on a read-only file system: specify a writable directory, and add it to the runtime's configuration \
             (bin_dir of containerd, plugin_dirs of CRI-O)"
                .into()
        }
        Errno::EACCES => {
            "is not writable (permission denied): run this as root; without CAP_DAC_OVERRIDE, root must own the \
             directory"
                .into()
        },
        other => format!("cannot be written: {}", other.desc()),
    }
}

/// Whether the directory contains network configurations, of which a runtime uses the first.
fn has_configurations(dir: &Path) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let path = entry.path();
        path.extension().is_some_and(|end| end == "conf" || end == "conflist")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn why(dir: &Path) -> String {
        check(dir).unwrap_err().to_string()
    }

    #[test]
    fn symbolic_links_in_the_parents_of_a_directory_are_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("a/bin")).unwrap();
        symlink("a", root.join("b")).unwrap();
        assert_eq!(check(&root.join("b/bin")).unwrap(), root.join("a/bin"));
    }

    #[test]
    fn an_unsuitable_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::write(root.join("file"), "").unwrap();
        fs::create_dir(root.join("bin")).unwrap();
        symlink("bin", root.join("link")).unwrap();
        assert!(why(&root.join("missing")).contains("does not exist: create it"));
        assert!(why(&root.join("file")).contains("is not a directory"));
        for link in ["link", "link/", "link/."] {
            assert!(why(&root.join(link)).contains("is a symbolic link to bin"), "{link}");
        }
        for name in ["00-multus.conf", "10-net.conflist"] {
            fs::write(root.join("bin").join(name), "").unwrap();
            assert!(why(&root.join("bin")).contains("contains network configurations"), "{name}");
            fs::remove_file(root.join("bin").join(name)).unwrap();
        }
    }
}
