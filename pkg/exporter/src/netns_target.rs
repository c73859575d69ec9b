//! The namespaces whose devices are read: the node's own, and those of pods that have a device to themselves.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::{Duration, Instant},
};

use netns::{NetNs, NetNsId};
use podmap::{AttachMode, Entry};
use rdma::Device;
use sysfs::{DetachedSysfs, Sysfs};

use crate::PodInfo;

/// A namespace whose devices are read.
///
/// Nothing of it is kept open between two collections that would keep it alive: a socket does, and then the VF and the
/// RDMA device of a pod that died would not come home. What stays is a view of its sysfs, which does not.
#[derive(Debug)]
pub(crate) struct NetnsTarget {
    /// What tells it from others.
    pub(crate) id: NetNsId,
    /// Where it is found; the node's own needs no path.
    path: Option<PathBuf>,
    /// The pod, if it is one's, and if it is known whose.
    pub(crate) pod: Option<Arc<PodInfo>>,
    sysfs: Mutex<Option<Arc<SysfsView>>>,
    /// Whether any port in it had a link the last time.
    pub(crate) has_links: AtomicBool,
    devices: Mutex<Option<DeviceListCache>>,
}

/// The devices of a place, as the kernel listed them.
#[derive(Debug)]
struct DeviceListCache {
    /// What sysfs called them then.
    names: Vec<OsString>,
    devices: Vec<Device>,
    listed: Instant,
}

/// How long a list of devices is good whose names have not changed. What changes with the name alone is the firmware's
/// version.
const DEVICE_LIST_TTL: Duration = Duration::from_secs(60);

/// sysfs as a namespace sees it.
#[derive(Debug)]
pub(crate) enum SysfsView {
    /// The node's own, as it is mounted.
    Node(Sysfs),
    /// A pod's. It does not keep the pod's namespace alive.
    Pod(DetachedSysfs),
}

impl NetnsTarget {
    /// The node's own namespace.
    pub(crate) fn node(home: &NetNs, sysfs: &Sysfs) -> Self {
        let view = SysfsView::Node(sysfs.clone());
        Self {
            id: home.id(),
            path: None,
            pod: None,
            sysfs: Mutex::new(Some(Arc::new(view))),
            has_links: true.into(),
            devices: Mutex::default(),
        }
    }

    /// The namespace that an entry of the pod map tells of, if the pod has an RDMA device in it.
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
            sysfs: Mutex::new(None),
            has_links: true.into(),
            devices: Mutex::default(),
        })
    }

    /// Whether another is found at the same path and has the same pod.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.path, &self.pod) == (&other.path, &other.pod)
    }

    /// Whether it is the node's own.
    pub(crate) fn is_node(&self) -> bool {
        self.path.is_none()
    }

    /// Runs `work` inside, on a thread that is in the node's namespace, `home`. `None` if the namespace is gone: its path
    /// may lead to another one by now.
    pub(crate) fn run_in_netns<T>(
        &self,
        home: &NetNs,
        work: impl FnOnce() -> T,
    ) -> Result<Option<T>, netns::Error> {
        let Some(path) = &self.path else { return Ok(Some(work())) };
        match NetNs::open(path) {
            Ok(netns) if netns.id() == self.id => netns.run_from(home, work).map(Some),
            Ok(_) | Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Its sysfs; `None` if the namespace is gone.
    pub(crate) fn view(&self, home: &NetNs) -> io::Result<Option<Arc<SysfsView>>> {
        let mut kept = self.sysfs.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = self
                .run_in_netns(home, DetachedSysfs::mount)
                .map_err(io::Error::other)?
                .transpose()?
                .map(|mount| Arc::new(SysfsView::Pod(mount)));
        }
        Ok(kept.clone())
    }

    /// Its devices. For a list the kernel looks at every device of the node, once for each place; so it is asked for one
    /// only when sysfs shows other names than the last time. A device that took another's place under its name has
    /// another number: whoever finds none of the old number [forgets](Self::forget_devices) the list.
    pub(crate) fn devices(
        &self,
        home: &NetNs,
        list: impl FnOnce() -> Result<Vec<Device>, rdma::Error>,
    ) -> Result<Vec<Device>, rdma::Error> {
        let names = self.view(home).ok().flatten().and_then(|view| view.rdma_names().ok());
        let mut kept = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let good = |known: &&DeviceListCache| {
            names.as_ref() == Some(&known.names) && known.listed.elapsed() < DEVICE_LIST_TTL
        };
        if let Some(known) = kept.as_ref().filter(good) {
            return Ok(known.devices.clone());
        }
        // The names were read before: one that comes meanwhile makes the next list another.
        let listed = Instant::now();
        let devices = list()?;
        *kept = names.map(|names| DeviceListCache { names, devices: devices.clone(), listed });
        Ok(devices)
    }

    /// Its devices are listed anew next time.
    pub(crate) fn forget_devices(&self) {
        *self.devices.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Its sysfs is looked for anew next time. The kernel gives the number of a dead namespace to a new one, and then
    /// what is kept shows the dead one.
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

    /// The names of the RDMA devices that it shows, in order.
    fn rdma_names(&self) -> io::Result<Vec<OsString>> {
        let entries = fs::read_dir(self.sysfs().root().join("class/infiniband"))?;
        let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }
}
