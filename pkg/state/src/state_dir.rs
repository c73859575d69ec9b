//! The paths of the state directory.

use std::path::{Path, PathBuf};

use identifiers::Attachment;
use podmap::PodMap;

use crate::{Error, container_root, is_below};

/// The state directory: `/run/silkrail`, or `stateDir` of the configuration.
#[derive(Debug, Clone)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// The default: on a tmpfs, so that state is lost at a reboot together with the namespaces and links that
    /// it describes.
    pub const DEFAULT: &'static str = "/run/silkrail";

    /// Returns the state directory with that path. The directory need not exist.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directories in which a network configuration can put the state directory, under a name that begins with `silkrail`:
    /// root alone writes there.
    pub const PLACES: [&'static str; 3] = ["/run", "/var/lib", "/var/lib/cni"];

    /// Returns the state directory that a network configuration names; `None` if it is not in one of the [`StateDir::PLACES`].
    ///
    /// The author of a configuration need not be root, and journals are instructions that run as root: in any other directory,
    /// such as a volume of a pod, another user could write them.
    pub fn of_configuration(path: &Path) -> Option<Self> {
        is_below_a_place(path).then(|| Self::at(path))
    }

    /// Checks that only root can write to the directory, and to those on the way to it from its place.
    ///
    /// # Errors
    /// [`statefile::Error::Foreign`], [`statefile::Error::NotDirectory`], [`statefile::Error::Io`].
    pub fn require_own(&self) -> Result<(), statefile::Error> {
        let mut below: Vec<_> = self.root.ancestors().take_while(|path| is_below_a_place(path)).collect();
        below.reverse();
        below.into_iter().try_for_each(statefile::require_own_directory)
    }

    /// Checks that the directory is not that of a container in which this process runs, as a daemon of Multus without `chrootDir`.
    /// `netns` is the path of a pod's network namespace.
    ///
    /// # Errors
    /// [`Error::OfContainer`].
    pub fn require_of_node(&self, netns: Option<&Path>) -> Result<(), Error> {
        match container_root::evidence(&self.root, netns) {
            None => Ok(()),
            Some(evidence) => Err(Error::OfContainer { path: self.root.clone(), evidence }),
        }
    }

    /// Returns the path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates a directory below the state directory with mode 0700 and returns its path.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf, statefile::Error> {
        let path = self.root.join(name);
        if !path.is_dir() {
            // Mode 0755, because the pod map below it is readable by all users.
            statefile::make_dir(&self.root, 0o755)?;
            statefile::make_dir(&path, 0o700)?;
        }
        Ok(path)
    }

    /// Returns the directory of the journals.
    pub(crate) fn attachments(&self) -> PathBuf {
        self.root.join("attachments")
    }

    /// Returns the path of the journal of an attachment and a plugin.
    pub fn journal(&self, attachment: &Attachment, plugin: &str) -> PathBuf {
        self.attachments().join(format!("{attachment}.{plugin}.journal"))
    }

    /// Returns the directory of the links from a pod's interface to its attachment. With them, a restarted sandbox keeps its
    /// addresses.
    pub fn notes(&self) -> PathBuf {
        self.root.join("ipam/pods")
    }

    /// Returns the directory of the records of masters, which ifacer writes.
    pub fn masters(&self) -> PathBuf {
        self.root.join("masters")
    }

    /// Returns the pod map.
    pub fn podmap(&self) -> PodMap {
        PodMap::below(&self.root)
    }
}

fn is_below_a_place(path: &Path) -> bool {
    is_below(path, &StateDir::PLACES, &["silkrail"])
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{chown, symlink},
    };

    use super::*;

    #[test]
    fn a_configuration_can_only_name_directories_of_silkrail_in_places_of_root() {
        let of = |path: &str| StateDir::of_configuration(Path::new(path)).is_some();
        for path in [
            StateDir::DEFAULT,
            "/run/silkrail-a/b",
            "/var/lib/silkrail",
            "/var/lib/cni/silkrail",
            "/run/./silkrail",
        ] {
            assert!(of(path), "{path}");
        }
        for path in [
            "",
            "/",
            "/run",
            "/run/other",
            "/run/user/1000/silkrail",
            "/tmp/silkrail",
            "/var/lib/kubelet/pods/uid/volumes/silkrail",
            "/var/lib/cni/networks/silkrail",
            "/run/silkrail/../user/1000/silkrail",
            "/run/../tmp/silkrail",
            "run/silkrail",
            "silkrail",
        ] {
            assert!(!of(path), "{path}");
        }
    }

    #[test]
    fn every_directory_below_the_place_must_be_roots() {
        let dir = tempfile::Builder::new().prefix("silkrail-test-").tempdir_in("/run").unwrap();
        let (upper, lower) = (dir.path().join("a"), dir.path().join("a/b"));
        let state = StateDir::of_configuration(&lower).unwrap();
        state.require_own().unwrap();
        fs::create_dir_all(&lower).unwrap();
        state.require_own().unwrap();
        for path in [lower.as_path(), &upper, dir.path()] {
            chown(path, Some(65534), None).unwrap();
            let error = state.require_own().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: owned by user 65534", path.display())), "{error}");
            chown(path, Some(0), None).unwrap();
        }
        fs::rename(&upper, dir.path().join("elsewhere")).unwrap();
        symlink("elsewhere", &upper).unwrap();
        let error = state.require_own().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: not a directory", upper.display())), "{error}");
    }
}
