//! The network namespaces whose devices are read: that of the host, and those of pods and processes with exclusive devices.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::{Duration, Instant},
};

use netns::{FoundNetNs, NetNs, NetNsId};
use podmap::{AttachMode, Entry};
use rdma::Device;
use sysfs::{DetachedSysfs, Sysfs};

use crate::{PodInfo, ProcessInfo};

/// A network namespace whose devices are read.
///
/// No socket in it is kept open between collections. A socket would keep the namespace alive, and the VF and the RDMA device
/// of a dead pod would not return to the host. The detached sysfs that is kept does not have this effect.
#[derive(Debug)]
pub(crate) struct NetnsTarget {
    /// Device and inode number of the namespace.
    pub(crate) id: NetNsId,
    /// The path of the namespace file; `None` for the host namespace.
    path: Option<PathBuf>,
    /// The pod; `None` for the host namespace, or if the pod is unknown.
    pub(crate) pod: Option<Arc<PodInfo>>,
    /// A process in it, if the namespace does not belong to a pod.
    pub(crate) process: Option<Arc<ProcessInfo>>,
    sysfs: Mutex<Option<Arc<SysfsView>>>,
    /// Whether any port in it had a link in the last collection.
    pub(crate) has_links: AtomicBool,
    devices: Mutex<Option<DeviceListCache>>,
}

/// A list of devices from the kernel.
#[derive(Debug)]
struct DeviceListCache {
    /// The names of the devices in sysfs at that time.
    names: Vec<String>,
    devices: Vec<Device>,
    listed: Instant,
}

/// How long a list of devices is valid while the names do not change. The firmware version, for example, can change without
/// the name.
const DEVICE_LIST_TTL: Duration = Duration::from_secs(60);

/// The sysfs of a network namespace.
#[derive(Debug)]
pub(crate) enum SysfsView {
    /// The mounted sysfs of the host.
    Node(Sysfs),
    /// A detached sysfs mount of a pod. It does not keep the pod's namespace alive.
    Pod(DetachedSysfs),
}

impl NetnsTarget {
    /// Creates the target for the host namespace.
    pub(crate) fn node(host: &NetNs, sysfs: &Sysfs) -> Self {
        let view = SysfsView::Node(sysfs.clone());
        Self {
            id: host.id(),
            path: None,
            pod: None,
            process: None,
            sysfs: Mutex::new(Some(Arc::new(view))),
            has_links: true.into(),
            devices: Mutex::default(),
        }
    }

    /// Returns the namespace in an entry of the pod map; `None` if the pod has no exclusive RDMA device.
    pub(crate) fn of(entry: &Entry, root: &Path) -> Option<Self> {
        if entry.rdma.mode != AttachMode::Exclusive {
            return None;
        }
        let container = &entry.container;
        let below = container.netns_path.strip_prefix("/").unwrap_or(&container.netns_path);
        Some(Self {
            id: NetNsId::new(container.netns_dev, container.netns_ino),
            path: Some(root.join(below)),
            pod: entry.pod.as_ref().map(|pod| Arc::new(PodInfo::from(pod))),
            process: None,
            sysfs: Mutex::new(None),
            has_links: true.into(),
            devices: Mutex::default(),
        })
    }

    /// Creates the target of a namespace that the pod map does not have.
    pub(crate) fn found(
        netns: &FoundNetNs,
        pod: Option<Arc<PodInfo>>,
        process: Option<Arc<ProcessInfo>>,
    ) -> Self {
        Self {
            id: netns.id,
            path: Some(netns.path.clone()),
            pod,
            process,
            sysfs: Mutex::new(None),
            has_links: true.into(),
            devices: Mutex::default(),
        }
    }

    /// Returns the names of its devices; none if the namespace is gone.
    pub(crate) fn device_names(&self, host: &NetNs) -> io::Result<Vec<String>> {
        self.view(host)?.map_or(Ok(Vec::new()), |view| view.rdma_names())
    }

    /// Whether another target has the same path and pod.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.path, &self.pod, &self.process) == (&other.path, &other.pod, &other.process)
    }

    /// Whether it is the host namespace.
    pub(crate) fn is_node(&self) -> bool {
        self.path.is_none()
    }

    /// Runs `work` in the namespace. The calling thread must be in the host namespace, `host`. `None` if the namespace is
    /// gone, or its path refers to another namespace now.
    pub(crate) fn run_in_netns<T>(
        &self,
        host: &NetNs,
        work: impl FnOnce() -> T,
    ) -> Result<Option<T>, netns::Error> {
        let Some(path) = &self.path else { return Ok(Some(work())) };
        match NetNs::open(path) {
            Ok(netns) if netns.id() == self.id => netns.run_from(host, work).map(Some),
            Ok(_) | Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns its sysfs; `None` if the namespace is gone.
    pub(crate) fn view(&self, host: &NetNs) -> io::Result<Option<Arc<SysfsView>>> {
        let mut kept = self.sysfs.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = self
                .run_in_netns(host, DetachedSysfs::mount)
                .map_err(io::Error::other)?
                .transpose()?
                .map(|mount| Arc::new(SysfsView::Pod(mount)));
        }
        Ok(kept.clone())
    }

    /// Returns its devices. For each list the kernel checks every device of the node, so the list is cached while the names in
    /// sysfs do not change. A device that was replaced by another one with the same name has another index; a caller that
    /// does not find the old index must call [`Self::forget_devices`].
    pub(crate) fn devices(
        &self,
        host: &NetNs,
        list: impl FnOnce() -> Result<Vec<Device>, rdma::Error>,
    ) -> Result<Vec<Device>, rdma::Error> {
        let names = self.view(host).ok().flatten().and_then(|view| view.rdma_names().ok());
        let mut kept = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let good = |known: &&DeviceListCache| {
            names.as_ref() == Some(&known.names) && known.listed.elapsed() < DEVICE_LIST_TTL
        };
        if let Some(known) = kept.as_ref().filter(good) {
            return Ok(known.devices.clone());
        }
        // The names were read first, so a device that appears meanwhile invalidates this list.
        let listed = Instant::now();
        let devices = list()?;
        *kept = names.map(|names| DeviceListCache { names, devices: devices.clone(), listed });
        Ok(devices)
    }

    /// Clears the cached list of devices.
    pub(crate) fn forget_devices(&self) {
        *self.devices.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Clears the cached sysfs, which shows the former namespace if the kernel reused its inode number for a new one.
    pub(crate) fn forget_view(&self) {
        if !self.is_node() {
            *self.sysfs.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl SysfsView {
    pub(crate) fn sysfs(&self) -> &Sysfs {
        match self {
            Self::Node(sysfs) => sysfs,
            Self::Pod(mount) => mount.sysfs(),
        }
    }

    /// Returns the sorted names in `/sys/class/infiniband`.
    fn rdma_names(&self) -> io::Result<Vec<String>> {
        let mut names = match self {
            Self::Node(sysfs) => sysfs.rdma_names()?,
            Self::Pod(mount) => mount.rdma_names()?,
        };
        names.sort_unstable();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs};

    use super::*;
    use crate::families::tests::device;

    fn found(id: NetNsId, path: &str) -> NetnsTarget {
        NetnsTarget::found(&FoundNetNs { id, path: path.into(), pid: None }, None, None)
    }

    #[test]
    fn devices_are_listed_again_when_a_name_changes_after_a_while_and_on_request() {
        let root = tempfile::tempdir().unwrap();
        let class = root.path().join("class/infiniband");
        fs::create_dir_all(class.join("mlx5_0")).unwrap();
        let host = NetNs::current().unwrap();
        let target = NetnsTarget::node(&host, &Sysfs::at(root.path()));
        let lists = Cell::new(0);
        let is_listed = || {
            let before = lists.get();
            let list = || {
                lists.set(before + 1);
                Ok(vec![device(Vec::new()).device])
            };
            assert_eq!(target.devices(&host, list).unwrap().len(), 1);
            lists.get() > before
        };
        assert_eq!([is_listed(), is_listed()], [true, false]);
        fs::rename(class.join("mlx5_0"), class.join("mlx5_1")).unwrap();
        assert_eq!([is_listed(), is_listed()], [true, false]);
        fs::create_dir(class.join("mlx5_0")).unwrap();
        assert_eq!([is_listed(), is_listed()], [true, false]);
        target.forget_devices();
        assert_eq!([is_listed(), is_listed()], [true, false]);
        let age = |age| {
            let mut kept = target.devices.lock().unwrap();
            kept.as_mut().unwrap().listed = Instant::now().checked_sub(age).unwrap();
        };
        age(DEVICE_LIST_TTL / 2);
        assert!(!is_listed());
        age(DEVICE_LIST_TTL);
        assert!(is_listed());
        let failed = || Err(rdma::Error::NoRdma);
        target.forget_devices();
        assert!(target.devices(&host, failed).is_err());
        assert!(is_listed(), "an error is not kept");
    }

    #[test]
    fn a_namespace_is_entered_only_if_its_path_still_refers_to_it() {
        let host = NetNs::current().unwrap();
        let own = "/proc/thread-self/ns/net";
        let run = |target: &NetnsTarget| target.run_in_netns(&host, || 7).map_err(|error| error.to_string());
        assert_eq!(run(&NetnsTarget::node(&host, &Sysfs::at("/sys"))), Ok(Some(7)));
        for (id, path) in
            [(NetNsId::new(4, 1), own), (host.id(), "/nonexistent"), (host.id(), "/proc/self/status")]
        {
            assert_eq!(run(&found(id, path)), Ok(None), "{path}");
            assert!(found(id, path).view(&host).unwrap().is_none());
            assert!(found(id, path).device_names(&host).unwrap().is_empty());
        }
        match run(&found(host.id(), own)) {
            Ok(result) => assert_eq!(result, Some(7)),
            Err(error) => assert!(error.contains("cannot enter"), "it needs CAP_SYS_ADMIN: {error}"),
        }
    }

    #[test]
    fn only_an_attachment_with_a_device_of_its_own_has_a_target() {
        let mut entry = Entry::new("rdma", "a@net1".parse().unwrap());
        entry.pod = Some(podmap::PodRef { namespace: "ml".into(), name: "a".into(), uid: Some("u".into()) });
        entry.container.netns_path = "/run/netns/a".into();
        (entry.container.netns_dev, entry.container.netns_ino) = (4, 4026532999);
        for mode in [AttachMode::None, AttachMode::Shared] {
            entry.rdma.mode = mode;
            assert!(NetnsTarget::of(&entry, Path::new("/host")).is_none());
        }
        entry.rdma.mode = AttachMode::Exclusive;
        let target = NetnsTarget::of(&entry, Path::new("/host")).unwrap();
        assert_eq!(target.path.as_deref(), Some(Path::new("/host/run/netns/a")));
        assert_eq!((target.id, target.is_node()), (NetNsId::new(4, 4026532999), false));
        assert_eq!(target.pod.as_ref().map(|pod| &*pod.name), Some("a"));
        assert!(target.is_same(&NetnsTarget::of(&entry, Path::new("/host")).unwrap()));
        entry.pod = None;
        assert!(!target.is_same(&NetnsTarget::of(&entry, Path::new("/host")).unwrap()), "another pod");
        assert!(!found(target.id, "/a").is_same(&found(target.id, "/b")));
    }
}
