//! The directory that gets files.

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

/// Where else runtimes look for plugins.
const OTHER_DIRS_HINT: &str = "create it, or name the one where this node's runtime looks for plugins (bin_dir of containerd, \
                         plugin_dirs of CRI-O; k3s: /var/lib/rancher/k3s/data/cni, OpenShift: /var/lib/cni/bin)";

/// The directory, if files can be put there; with every symbolic link before its last part resolved.
///
/// # Errors
/// [`Error::Destination`]: it is missing, a symbolic link, none, not writable, or for configurations.
pub(crate) fn check(dir: &Path) -> Result<PathBuf, Error> {
    // A slash at the end would follow a link.
    let dir: PathBuf = path::absolute(dir).map_err(Error::io("look for", dir))?.components().collect();
    let refuse = |why: String| Error::Destination { path: dir.clone(), why };
    let meta = match fs::symlink_metadata(&dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(refuse(format!("does not exist: {OTHER_DIRS_HINT}")));
        }
        other => other.map_err(Error::io("look at", &dir))?,
    };
    if meta.is_symlink() {
        let to = fs::read_link(&dir).unwrap_or_default();
        return Err(refuse(format!("is a symbolic link to {}: name the directory itself", to.display())));
    }
    if !meta.is_dir() {
        return Err(refuse("is no directory".into()));
    }
    access(&dir, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK)
        .map_err(|errno| refuse(unwritable(errno)))?;
    if has_configurations(&dir) {
        return Err(refuse("has configurations of networks: executables do not belong there".into()));
    }
    fs::canonicalize(&dir).map_err(Error::io("look at", &dir))
}

fn unwritable(errno: Errno) -> String {
    match errno {
        Errno::EROFS => {
            "is on a read-only file system: name a directory that can be written, and have the runtime look there too \
             (bin_dir of containerd, plugin_dirs of CRI-O)"
                .into()
        }
        Errno::EACCES => "may not be written: run this as root; without CAP_DAC_OVERRIDE the directory must belong to root".into(),
        other => format!("cannot be written: {}", other.desc()),
    }
}

/// A runtime takes the first file there for its network.
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
    fn a_directory_is_told_without_the_links_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("a/bin")).unwrap();
        symlink("a", root.join("b")).unwrap();
        assert_eq!(check(&root.join("b/bin")).unwrap(), root.join("a/bin"));
    }

    #[test]
    fn what_is_no_directory_for_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::write(root.join("file"), "").unwrap();
        fs::create_dir(root.join("bin")).unwrap();
        symlink("bin", root.join("link")).unwrap();
        assert!(why(&root.join("missing")).contains("does not exist: create it"));
        assert!(why(&root.join("file")).contains("is no directory"));
        for link in ["link", "link/", "link/."] {
            assert!(why(&root.join(link)).contains("is a symbolic link to bin"), "{link}");
        }
        for name in ["00-multus.conf", "10-net.conflist"] {
            fs::write(root.join("bin").join(name), "").unwrap();
            assert!(why(&root.join("bin")).contains("has configurations"), "{name}");
            fs::remove_file(root.join("bin").join(name)).unwrap();
        }
    }
}
