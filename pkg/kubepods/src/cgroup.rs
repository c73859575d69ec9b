//! A pod's cgroup.

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

/// A pod's own cgroup: what is charged there is the sum of its containers'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    pod: PodUid,
    dir: PathBuf,
}

impl PodCgroup {
    /// The pod's cgroup in the hierarchy of the `rdma` controller below `<root>/sys/fs/cgroup`, by the cgroup text of a
    /// process of the pod. `None` if it is no pod's process, or there is no such directory.
    pub fn find(root: &Path, cgroup_text: &str) -> Option<Self> {
        let (mounts, path) = hierarchy(cgroup_text)?;
        let level = locate(path)?;
        let places =
            mounts.iter().flat_map(|mount| candidates(&level).into_iter().map(move |place| (mount, place)));
        let mut dirs = places.map(|(mount, place)| root.join(mount).join(place));
        let dir = dirs.find(|dir| dir.is_dir())?;
        Some(Self { pod: level.uid, dir })
    }

    /// The pod.
    pub fn pod(&self) -> &PodUid {
        &self.pod
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the pod uses of each RDMA device; `None` if the controller is not enabled there, or the pod is gone.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn rdma_usage(&self) -> Result<Option<Vec<RdmaUsage>>, Error> {
        Ok(self.file("rdma.current")?.map(|text| RdmaUsage::parse(&text)))
    }

    /// What the pod may use of each RDMA device; `None` as above.
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
            // ENODEV: the cgroup went while its file was open.
            Err(error)
                if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ENODEV) =>
            {
                Ok(None)
            }
            Err(source) => Err(Error::Unreadable { path, source }),
        }
    }
}

/// Where the hierarchy that has the `rdma` controller may be mounted, and the path there. It is the one of version 2
/// unless it has one of its own.
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

/// Where the pod's directory may be below the hierarchy's mount. The beginning of a relative path has to be guessed.
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

/// `a.slice/a-b.slice/a-b-c.slice` for `a-b-c.slice`: where systemd puts it.
fn slices(name: &str) -> PathBuf {
    let ends = name.match_indices('-').map(|(index, _)| format!("{}.slice", &name[..index]));
    ends.chain([name.to_owned()]).collect()
}
