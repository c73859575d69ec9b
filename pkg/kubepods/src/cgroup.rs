//! The cgroup of a pod, and its RDMA usage and limits.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{
    Error, PodUid, RdmaLimit, RdmaUsage,
    membership::paths,
    path::{PodLevel, locate},
};

/// The cgroup of a pod, the parent of its containers' cgroups: its usage is the sum of theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    pod: PodUid,
    dir: PathBuf,
}

impl PodCgroup {
    /// Finds the pod's cgroup in the hierarchy of the `rdma` controller below `<root>/sys/fs/cgroup`. `cgroup_text` is the
    /// `/proc/<pid>/cgroup` of a process of the pod. `None` if the process does not belong to a pod, or the directory does
    /// not exist.
    pub fn find(root: &Path, cgroup_text: &str) -> Option<Self> {
        let (mounts, path) = hierarchy(cgroup_text)?;
        let level = locate(path)?;
        let places =
            mounts.iter().flat_map(|mount| candidates(&level).into_iter().map(move |place| (mount, place)));
        let mut dirs = places.map(|(mount, place)| root.join(mount).join(place));
        let dir = dirs.find(|dir| dir.is_dir())?;
        Some(Self { pod: level.uid, dir })
    }

    /// Returns the UID of the pod.
    pub fn pod(&self) -> &PodUid {
        &self.pod
    }

    /// Returns the cgroup's directory, such as `/sys/fs/cgroup/kubepods/pod<uid>`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads `rdma.current`: the pod's usage of each RDMA device. `None` if the controller is not enabled for this cgroup, or
    /// the pod is gone.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn rdma_usage(&self) -> Result<Option<Vec<RdmaUsage>>, Error> {
        Ok(self.file("rdma.current")?.map(|text| RdmaUsage::parse(&text)))
    }

    /// Reads `rdma.max`: the pod's limits for each RDMA device. `None` under the same conditions.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn rdma_limits(&self) -> Result<Option<Vec<RdmaLimit>>, Error> {
        Ok(self.file("rdma.max")?.map(|text| RdmaLimit::parse(&text)))
    }

    fn file(&self, name: &str) -> Result<Option<String>, Error> {
        let path = self.dir.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            // ENODEV: the cgroup was removed while its file was open.
            Err(error)
                if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ENODEV) =>
            {
                Ok(None)
            }
            Err(source) => Err(Error::Unreadable { path, source }),
        }
    }
}

/// Returns the possible mount points of the hierarchy with the `rdma` controller, and the process's path in it. This is the
/// hierarchy of cgroup v2 unless the controller has a v1 hierarchy of its own.
fn hierarchy(cgroup_text: &str) -> Option<(&'static [&'static str], &str)> {
    let of = |wanted: &str| {
        paths(cgroup_text)
            .find(|(controllers, _)| controllers.split(',').any(|controller| controller == wanted))
    };
    match of("rdma") {
        Some((_, path)) => Some((&["sys/fs/cgroup/rdma"], path)),
        None => of("").map(|(_, path)| (["sys/fs/cgroup", "sys/fs/cgroup/unified"].as_slice(), path)),
    }
}

/// Returns the possible directories of the pod below the hierarchy's mount point. The beginning of a relative path is
/// unknown, so the usual ones are tried.
fn candidates(level: &PodLevel<'_>) -> Vec<PathBuf> {
    let shown: PathBuf = level.names.iter().collect();
    if !level.relative {
        return vec![shown];
    }
    let systemd = level.names.last().map(|name| slices(name));
    let cgroupfs = ["kubepods", "kubepods/burstable", "kubepods/besteffort"];
    let guessed = cgroupfs.iter().map(|above| Path::new(above).join(&shown)).collect::<Vec<_>>();
    [shown].into_iter().chain(systemd).chain(guessed).collect()
}

/// Returns the path that systemd gives a slice: `a.slice/a-b.slice/a-b-c.slice` for `a-b-c.slice`.
fn slices(name: &str) -> PathBuf {
    let ends = name.match_indices('-').map(|(index, _)| format!("{}.slice", &name[..index]));
    ends.chain([name.to_owned()]).collect()
}
