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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use podmap::PodRef;
    use tempfile::TempDir;

    use super::*;

    /// A node with an Ethernet device, whose GID 3 is `10.0.0.1`, and an InfiniBand device with two ports.
    fn node() -> (TempDir, PodReader) {
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let roce = "class/infiniband/mlx5_0";
        file(&format!("{roce}/ports/1/link_layer"), "Ethernet\n");
        for (index, gid) in ["::", "fe80::1", "::ffff:10.0.0.1", "::ffff:10.0.0.1"].iter().enumerate() {
            file(&format!("{roce}/ports/1/gids/{index}"), &format!("{gid}\n"));
            let kind = if index == 3 { "RoCE v2" } else { "IB/RoCE v1" };
            file(&format!("{roce}/ports/1/gid_attrs/types/{index}"), &format!("{kind}\n"));
        }
        file("class/infiniband/mlx5_1/ports/2/link_layer", "InfiniBand\n");
        for (function, numa_node, uverbs) in
            [("0000:af:00.0", "1", "uverbs4"), ("0000:b0:00.2", "-1", "uverbs7")]
        {
            let device = format!("bus/pci/devices/{function}");
            file(&format!("{device}/numa_node"), &format!("{numa_node}\n"));
            file(&format!("{device}/infiniband_verbs/{uverbs}/ibdev"), "any\n");
        }
        symlink("../../../bus/pci/devices/0000:af:00.0", root.path().join(roce).join("device")).unwrap();
        let sysfs = Sysfs::at(root.path());
        (root, PodReader { root: "/".into(), sysfs })
    }

    fn entry(uid: &str, ifname: &str, mode: AttachMode, device: &str) -> Entry {
        let mut entry = Entry::new("macvlan", format!("c0ffee@{ifname}").parse().unwrap());
        entry.pod = Some(PodRef { namespace: "ai".into(), name: "train-0".into(), uid: Some(uid.into()) });
        (entry.rdma.mode, entry.rdma.ibdev) = (mode, Some(device.into()));
        entry
    }

    #[test]
    fn a_pod_has_the_devices_of_its_interfaces_in_their_order() {
        let (_node, reader) = node();
        let mut roce = entry("5d3f", "net1", AttachMode::Shared, "mlx5_0");
        roce.network.ips = vec!["10.0.0.1/24".into(), "fd00::1/64".into()];
        let mut infiniband = entry("5d3f", "net2", AttachMode::Shared, "mlx5_1");
        infiniband.network.ips = vec!["10.1.0.1/24".into()];
        infiniband.rdma.port = Some(2);
        infiniband.rdma.pci = Some("0000:b0:00.2".parse().unwrap());
        let without = entry("5d3f", "eth0", AttachMode::None, "mlx5_0");
        let unnamed = Entry { rdma: podmap::RdmaInfo { ibdev: None, ..roce.rdma.clone() }, ..roce.clone() };
        let other = entry("beef", "net3", AttachMode::Shared, "mlx5_0");
        let pod = reader.read("5d3f", &[infiniband, without, unnamed, roce, other]).unwrap();
        assert_eq!((pod.pod.namespace.as_str(), pod.pod.uid.as_str()), ("ai", "5d3f"));
        let [one, two] = pod.devices.as_slice() else { panic!("{:?}", pod.devices) };
        assert_eq!((one.interface.as_str(), one.name.as_str(), one.port), ("net1", "mlx5_0", 1));
        assert_eq!((one.pci_address.as_deref(), one.numa_node), (Some("0000:af:00.0"), Some(1)));
        assert_eq!(one.char_devices, [Path::new("/dev/infiniband/uverbs4")]);
        let gid = |address: &str, index| PodGid { address: address.parse().unwrap(), index };
        assert_eq!(one.gids, [gid("10.0.0.1", Some(3)), gid("fd00::1", None)]);
        assert_eq!((two.interface.as_str(), two.name.as_str(), two.port), ("net2", "mlx5_1", 2));
        assert_eq!((two.pci_address.as_deref(), two.numa_node), (Some("0000:b0:00.2"), None));
        assert_eq!(two.char_devices, [Path::new("/dev/infiniband/uverbs7")]);
        assert!(one.is_roce() && !two.is_roce() && two.gids.is_empty(), "InfiniBand has GIDs of its own");
        assert!(!pod.has_all_gids(), "one of the addresses has none");
    }

    #[test]
    fn a_pod_without_an_rdma_device_is_reported() {
        let (_node, reader) = node();
        let entries = [
            entry("5d3f", "eth0", AttachMode::None, "mlx5_0"),
            entry("beef", "net1", AttachMode::Shared, "mlx5_0"),
        ];
        assert!(matches!(reader.read("5d3f", &entries), Err(ReadError::NoEntry(uid)) if uid == "5d3f"));
    }

    #[test]
    fn a_namespace_that_has_the_path_of_the_pods_is_not_read() {
        let (_node, reader) = node();
        let mut entry = entry("5d3f", "net1", AttachMode::Exclusive, "mlx5_0");
        entry.container.netns_path = "/proc/self/ns/net".into();
        let id = NetNs::open(Path::new("/proc/self/ns/net")).unwrap().id();
        (entry.container.netns_dev, entry.container.netns_ino) = (id.dev, id.ino + 1);
        assert!(matches!(reader.read("5d3f", &[entry]), Err(ReadError::OtherNetns(_))));
    }
}
