//! The directory with the files of a pod.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::PodRdma;

/// The directories of a node's pods: one for each device that the kubelet allocates.
///
/// The kubelet mounts a directory before it is known which pod gets the device; when the pod's container starts, the files in
/// it are written.
#[derive(Debug, Clone)]
pub struct PodDirectory {
    path: PathBuf,
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A directory.
    #[error("{}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file.
    #[error(transparent)]
    File(#[from] statefile::Error),
}

impl PodDirectory {
    /// Returns the directory of a device of a resource, both as names of files.
    ///
    /// # Errors
    /// If a name is not that of a file.
    pub fn new(base: &Path, resource: &str, device: &str) -> io::Result<Self> {
        for name in [resource, device] {
            let is_name = !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
            if !is_name {
                return Err(io::Error::other(format!("{name:?} is not the name of a file")));
            }
        }
        Ok(Self { path: base.join(resource).join(device) })
    }

    /// Its path on the node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates it without files, for the next pod. Those of the former pod are deleted.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn clear(&self) -> Result<(), WriteError> {
        let failed = |source| WriteError::Directory { path: self.path.clone(), source };
        self.create().map_err(failed)?;
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            match fs::remove_file(entry.map_err(failed)?.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Creates it and the directory of its resource, for users without privileges, whatever the umask of this process: without
    /// permissions of its own, a process without `CAP_DAC_OVERRIDE` cannot create the second one.
    fn create(&self) -> io::Result<()> {
        for directory in [self.path.parent().unwrap_or(&self.path), &self.path] {
            fs::create_dir_all(directory)?;
            fs::set_permissions(directory, Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    /// Writes the files, each at once, for a container with these device nodes.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write(&self, pod: &PodRdma, nodes: &BTreeSet<PathBuf>) -> Result<(), WriteError> {
        let failed = |source| WriteError::Directory { path: self.path.clone(), source };
        self.create().map_err(failed)?;
        let json = serde_json::to_string_pretty(pod).map_err(|error| failed(error.into()))? + "\n";
        for (name, content) in [("rdma.json", json), ("nccl.conf", pod.nccl_conf(nodes))] {
            let file = self.path.join(name);
            statefile::replace(&file, 0o644, content.as_bytes())?;
            fs::set_permissions(&file, Permissions::from_mode(0o644)).map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_rdma::fixture::{device, pod};

    #[test]
    fn the_files_are_for_every_user_and_those_of_the_former_pod_are_deleted() {
        let base = tempfile::tempdir().unwrap();
        let directory = PodDirectory::new(base.path(), "a.io_vf", "0000:af:00.2").unwrap();
        fs::create_dir_all(directory.path()).unwrap();
        for directory in [directory.path(), &base.path().join("a.io_vf")] {
            fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
        }
        directory.write(&pod(vec![device("mlx5_3", &[("10.0.0.1", Some(3))])]), &BTreeSet::new()).unwrap();
        for name in ["rdma.json", "nccl.conf"] {
            let mode = fs::metadata(directory.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o644, "{name}");
        }
        let json: serde_json::Value =
            serde_json::from_slice(&fs::read(directory.path().join("rdma.json")).unwrap()).unwrap();
        assert_eq!(json["devices"][0]["gids"][0], serde_json::json!({"address": "10.0.0.1", "index": 3}));
        assert_eq!((&json["version"], &json["pod"]["uid"]), (&1.into(), &"5d3f".into()));
        for directory in [directory.path(), &base.path().join("a.io_vf")] {
            let mode = fs::metadata(directory).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{}", directory.display());
        }
        directory.clear().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_device_is_not_a_path() {
        for name in ["", "..", "a/b", "../../etc"] {
            assert!(PodDirectory::new(Path::new("/run"), "a.io_vf", name).is_err(), "{name}");
        }
    }
}
