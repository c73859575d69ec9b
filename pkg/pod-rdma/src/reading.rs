//! Reads the RDMA devices of a pod.

use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use netns::{NetNs, NetNsId};
use podmap::{AttachMode, Entry};
use sysfs::{DetachedSysfs, Function, Sysfs};

use crate::{PodGid, PodRdma, PodRdmaDevice, PodRdmaPod};

/// Where the devices of pods are read.
#[derive(Debug, Clone)]
pub struct PodReader {
    /// The root directory of the node, with the network namespaces.
    pub root: PathBuf,
    /// The devices in the node's namespace.
    pub sysfs: Sysfs,
}

/// Why the devices of a pod cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The pod map has no entry of it.
    #[error(
        "the pod map has no RDMA device of the pod with UID {0}: does its network have Silkrail's plugins?"
    )]
    NoEntry(String),
    /// Its network namespace is gone, or cannot be entered.
    #[error("the network namespace of the pod: {0}")]
    Netns(#[from] netns::Error),
    /// Another namespace has its path.
    #[error("{}: this is no longer the network namespace of the pod", .0.display())]
    OtherNetns(PathBuf),
    /// Its sysfs.
    #[error("the sysfs of the pod cannot be mounted: {0}")]
    Mount(#[from] io::Error),
    /// A device.
    #[error("{0}")]
    Sysfs(#[from] sysfs::Error),
}

impl PodReader {
    /// Reads the devices of the pod with this UID, of its newest sandbox: an entry of a former one remains if its DEL failed.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self, uid: &str, entries: &[Entry]) -> Result<PodRdma, ReadError> {
        let mut entries = podmap::of_pod(entries, uid);
        entries.retain(|entry| entry.rdma.mode != AttachMode::None);
        let Some(pod) = entries.first().and_then(|entry| entry.pod.as_ref()) else {
            return Err(ReadError::NoEntry(uid.to_owned()));
        };
        let pod =
            PodRdmaPod { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: uid.to_owned() };
        let mut devices = Vec::new();
        for entry in entries {
            devices.extend(self.device(entry)?);
        }
        devices.sort_by(|one, two| one.interface.cmp(&two.interface));
        Ok(PodRdma { version: 1, pod, devices })
    }

    /// Returns the device of an entry; `None` if it has no name.
    fn device(&self, entry: &Entry) -> Result<Option<PodRdmaDevice>, ReadError> {
        let (rdma, network) = (&entry.rdma, &entry.network);
        let Some(name) = rdma.ibdev.clone() else { return Ok(None) };
        let port = rdma.port.unwrap_or(1);
        let view = self.view(entry)?;
        let sysfs = view.as_ref().map_or(&self.sysfs, DetachedSysfs::sysfs);
        let link_layer = sysfs.link_layer(&name, port)?;
        let mut gids = Vec::new();
        if link_layer == "Ethernet" {
            for address in addresses(&network.ips) {
                gids.push(PodGid { address, index: sysfs.find_gid(&name, port, address)? });
            }
        }
        let function = match rdma.pci {
            Some(pci) => Some(Function::Pci(pci)),
            None => sysfs.function_of_rdma(&name)?,
        };
        let numa_node = function.as_ref().map(|function| self.sysfs.numa_node(function)).transpose()?;
        Ok(Some(PodRdmaDevice {
            name,
            port,
            mode: rdma.mode,
            link_layer,
            interface: network.ifname.clone(),
            network: network.name.clone(),
            mtu: network.mtu,
            vlan: network.vlan,
            pci_address: function.as_ref().and_then(Function::pci).map(|pci| pci.to_string()),
            numa_node: numa_node.flatten(),
            // Of the fabric, the caller knows more.
            rail: None,
            traffic_class: None,
            char_devices: self.char_devices(function.as_ref())?,
            function,
            gids,
        }))
    }

    /// Mounts the sysfs of the pod; `None` if the device is in the node's namespace.
    fn view(&self, entry: &Entry) -> Result<Option<DetachedSysfs>, ReadError> {
        if entry.rdma.mode != AttachMode::Exclusive {
            return Ok(None);
        }
        let container = &entry.container;
        let path = self.root.join(container.netns_path.strip_prefix("/").unwrap_or(&container.netns_path));
        let netns = NetNs::open(&path)?;
        if netns.id() != NetNsId::new(container.netns_dev, container.netns_ino) {
            return Err(ReadError::OtherNetns(path));
        }
        Ok(Some(netns.run(DetachedSysfs::mount)??))
    }

    /// Returns the character devices for verbs. The kernel lists them in every namespace.
    fn char_devices(&self, function: Option<&Function>) -> Result<Vec<PathBuf>, ReadError> {
        let Some(function) = function else { return Ok(Vec::new()) };
        let names = self.sysfs.uverbs(function)?;
        Ok(names.into_iter().map(|name| Path::new("/dev/infiniband").join(name)).collect())
    }
}

/// Returns the addresses without their prefix lengths.
fn addresses(ips: &[String]) -> impl Iterator<Item = IpAddr> {
    ips.iter().filter_map(|ip| ip.split('/').next()?.parse().ok())
}
