//! The files that tell containers about their devices.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use kubelet_api::deviceplugin::{ContainerAllocateResponse, Mount};
use pod_rdma::{PodDirectory, PodRdma, PodRdmaDevice, PodReader, WriteError};
use tracing::{info, warn};

use crate::{
    NodeReader, ResourceSpec,
    pod_use::{PodUse, PodUseError},
};

/// The files that tell containers about their devices.
///
/// The kubelet allocates devices before the pod has a network, and a container is started afterwards. So `Allocate` answers with
/// the mount of a directory, and the files in it are written by `PreStartContainer`.
#[derive(Debug, Clone)]
pub struct PodFiles {
    node: NodeReader,
    pods: PodReader,
    /// The directory below which each allocated device has its own.
    base: PathBuf,
}

/// Where containers find the files.
const CONTAINER_PATH: &str = "/run/silkrail/pod";

/// How long the kernel may take to add a pod's addresses to the GID tables.
const GID_TIMEOUT: Duration = Duration::from_secs(2);
const GID_INTERVAL: Duration = Duration::from_millis(20);

/// Why files are not written.
#[derive(Debug, thiserror::Error)]
enum PodFilesError<'a> {
    #[error("the kubelet's checkpoint does not contain the pod that has {0}")]
    Unallocated(String),
    #[error(transparent)]
    Use(&'a PodUseError),
    #[error(transparent)]
    Read(#[from] pod_rdma::ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl PodFiles {
    /// Creates the directory for the files; `None` with a warning if they cannot be written.
    pub fn create(node: NodeReader, base: PathBuf) -> Option<Self> {
        if let Err(error) = create_writable(&base) {
            let base = base.display();
            warn!("{base}: {error}: containers do not get rdma.json and nccl.conf; mount it writable");
            return None;
        }
        let pods = PodReader { root: node.root.clone(), sysfs: node.sysfs.clone() };
        Some(Self { node, pods, base })
    }

    /// Adds the mount, of an empty directory, to the answer to a container; none if it cannot be created. With several resources
    /// the kubelet mounts the first; the files are the same.
    pub(crate) fn add_to(&self, answer: &mut ContainerAllocateResponse, spec: &ResourceSpec, ids: &[String]) {
        let directories = self.directories(spec, ids);
        if let Err(error) = directories.iter().try_for_each(PodDirectory::clear) {
            warn!(resource = %spec.name, "a container does not get rdma.json and nccl.conf: {error}");
            return;
        }
        let Some(first) = directories.first() else { return };
        answer.mounts.push(Mount {
            container_path: CONTAINER_PATH.into(),
            host_path: first.path().display().to_string(),
            read_only: true,
        });
        if spec.sets_nccl_conf {
            answer.envs.insert("NCCL_CONF_FILE".into(), format!("{CONTAINER_PATH}/nccl.conf"));
        }
    }

    /// Writes the files for a container that will start. It also starts without them, but not with those of its former network.
    pub(crate) fn write(&self, spec: &ResourceSpec, ids: &[String], pods: Result<&PodUse, &PodUseError>) {
        let resource = &spec.name;
        match self.try_write(spec, ids, pods) {
            Ok(pod) if pod.has_all_gids() => {}
            Ok(pod) => warn!(%resource, pod = pod.pod.name, "an address of the pod is not in the GID table"),
            Err(error) => {
                // Its network is another one's, as of a pod that only gets the devices.
                if matches!(error, PodFilesError::Read(pod_rdma::ReadError::NoEntry(_))) {
                    info!(%resource, "no rdma.json: {error}");
                } else {
                    warn!(%resource, "no rdma.json: {error}");
                }
                for directory in self.directories(spec, ids) {
                    if let Err(error) = directory.clear() {
                        warn!(%resource, "the former rdma.json remains: {error}");
                    }
                }
            }
        }
    }

    fn try_write<'a>(
        &self,
        spec: &ResourceSpec,
        ids: &[String],
        pods: Result<&PodUse, &'a PodUseError>,
    ) -> Result<PodRdma, PodFilesError<'a>> {
        let pods = pods.map_err(PodFilesError::Use)?;
        let unallocated = || PodFilesError::Unallocated(ids.join(", "));
        let uid = pods.pod_with(spec, ids).ok_or_else(unallocated)?;
        let nodes = pods.nodes_of_container(&uid, spec, ids);
        let deadline = Instant::now() + GID_TIMEOUT;
        let mut pod = loop {
            let read = self.pods.read(&uid, &pods.entries)?;
            if read.has_all_gids() || Instant::now() >= deadline {
                break read;
            }
            thread::sleep(GID_INTERVAL);
        };
        self.add_fabric(&mut pod);
        for directory in self.directories(spec, ids) {
            directory.write(&pod, &nodes)?;
        }
        Ok(pod)
    }

    /// Adds the rails and the traffic class.
    fn add_fabric(&self, pod: &mut PodRdma) {
        for device in &mut pod.devices {
            device.rail = self.rail(device).unwrap_or_else(|error| {
                warn!(pod = pod.pod.name, device = device.name, "its rail is unknown: {error}");
                None
            });
            device.traffic_class = self.node.fabric.traffic_class.filter(|_| device.is_roce());
        }
    }

    fn rail(&self, device: &PodRdmaDevice) -> Result<Option<u32>, sysfs::Error> {
        if self.node.fabric.rails.is_empty() {
            return Ok(None);
        }
        let id = device.function.as_ref().map_or_else(|| device.name.clone(), ToString::to_string);
        Ok(self.node.find(&id)?.and_then(|found| found.rail))
    }

    /// Returns the directory of each device, in the order of the IDs. An ID of the kubelet that is no file name has none.
    fn directories(&self, spec: &ResourceSpec, ids: &[String]) -> Vec<PodDirectory> {
        let ids: BTreeSet<_> = ids.iter().collect();
        let resource = spec.name.file_name();
        ids.into_iter().filter_map(|id| PodDirectory::new(&self.base, &resource, id).ok()).collect()
    }
}

/// Creates a directory, and tests that files can be written in it: it may exist on a file system that is mounted read-only.
fn create_writable(base: &Path) -> io::Result<()> {
    fs::create_dir_all(base)?;
    fs::set_permissions(base, Permissions::from_mode(0o755))?;
    let probe = base.join(".probe");
    fs::write(&probe, "")?;
    fs::remove_file(probe)
}

#[cfg(test)]
mod tests {
    use identifiers::Attachment;
    use kubelet_checkpoint::KubeletDirectory;
    use podmap::{AttachMode, Entry, PodMap, PodRef};
    use serde_json::{Value, json};
    use sysfs::Sysfs;

    use super::*;
    use crate::{Config, Fabric};

    /// A node with a shared RDMA device that has the GIDs of two pods.
    struct SharedNode {
        root: tempfile::TempDir,
        files: PodFiles,
        spec: ResourceSpec,
    }

    impl SharedNode {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let at = |path: &str| root.path().join(path);
            let port = at("sys/class/infiniband/mlx5_0/ports/1");
            for (file, text) in [
                ("link_layer", "Ethernet"),
                ("gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
                ("gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0002"),
                ("gid_attrs/types/0", "RoCE v2"),
                ("gid_attrs/types/1", "RoCE v2"),
            ] {
                fs::create_dir_all(port.join(file).parent().unwrap()).unwrap();
                fs::write(port.join(file), format!("{text}\n")).unwrap();
            }
            fs::create_dir(at("kubelet")).unwrap();
            let node = NodeReader {
                root: root.path().into(),
                sysfs: Sysfs::at(at("sys")),
                pod_map: PodMap::below(&at("state")),
                kubelet: KubeletDirectory(at("kubelet")),
                fabric: Fabric::default(),
            };
            let files = PodFiles::create(node, at("files")).unwrap();
            let text = "configList: [{resourceName: hca, rdmaHcaMax: 3, ncclConf: true, selectors: {ifNames: [p0]}}]";
            let spec = Config::parse(text).unwrap().resources.remove(0);
            Self { root, files, spec }
        }

        /// Adds a pod to the pod map.
        fn pod(&self, name: &str, address: &str, created_at: &str) {
            let attachment =
                Attachment { container_id: name.parse().unwrap(), ifname: "net1".parse().unwrap() };
            let mut entry = Entry::new("macvlan", attachment.clone());
            entry.boot_id = bootid::current().unwrap().into();
            entry.created_at = created_at.into();
            entry.pod = Some(PodRef {
                namespace: "default".into(),
                name: name.into(),
                uid: Some(format!("uid-{name}")),
            });
            entry.network.ips = vec![format!("{address}/24")];
            entry.rdma.mode = AttachMode::Shared;
            entry.rdma.ibdev = Some("mlx5_0".into());
            self.files.node.pod_map.write(&attachment, &entry).unwrap();
        }

        /// Writes the kubelet's checkpoint: the first device belongs to these pods.
        fn allocated(&self, pods: &[&str]) {
            let entry = |pod: &&str| json!({"PodUID": format!("uid-{pod}"), "ResourceName": "rdma/hca", "DeviceIDs": {"-1": ["0"]}});
            let file = json!({"Data": {"PodDeviceEntries": pods.iter().map(entry).collect::<Vec<_>>()}});
            fs::write(self.root.path().join("kubelet/kubelet_internal_checkpoint"), file.to_string())
                .unwrap();
        }

        fn mounted(&self) -> ContainerAllocateResponse {
            let mut answer = ContainerAllocateResponse::default();
            self.files.add_to(&mut answer, &self.spec, &["0".into()]);
            answer
        }

        fn told(&self, directory: &Path) -> Option<Value> {
            self.files.write(&self.spec, &["0".into()], PodUse::read(&self.files.node).as_ref());
            Some(serde_json::from_slice(&fs::read(directory.join("rdma.json")).ok()?).unwrap())
        }
    }

    #[test]
    fn a_container_is_told_its_own_gid_by_a_mount_of_the_allocation() {
        let node = SharedNode::new();
        node.pod("one", "10.0.0.1", "2026-01-01T00:00:00Z");
        node.pod("two", "10.0.0.2", "2026-01-01T00:00:01Z");
        node.allocated(&["two"]);
        let answer = node.mounted();
        let mount = &answer.mounts[0];
        assert_eq!((mount.container_path.as_str(), mount.read_only), ("/run/silkrail/pod", true));
        assert_eq!(answer.envs["NCCL_CONF_FILE"], "/run/silkrail/pod/nccl.conf");
        let directory = Path::new(&mount.host_path);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "before the pod has a network");
        let told = node.told(directory).unwrap();
        assert_eq!(
            (&told["pod"]["name"], &told["devices"][0]["gids"][0]["index"]),
            (&json!("two"), &json!(1))
        );
        // The next pod does not see the files of the former one.
        node.mounted();
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
    }

    #[test]
    fn a_container_is_told_its_rail_and_traffic_class() {
        let mut node = SharedNode::new();
        let rails = [("p0".to_owned(), 3)].into();
        node.files.node.fabric = Fabric { rails, traffic_class: Some(106) };
        let sys = node.root.path().join("sys");
        fs::create_dir_all(sys.join("devices/virtual/infiniband/mlx5_0")).unwrap();
        fs::write(sys.join("class/infiniband/mlx5_0/parent"), "p0\n").unwrap();
        node.pod("one", "10.0.0.1", "2026-01-01T00:00:00Z");
        node.allocated(&["one"]);
        let directory = node.mounted().mounts.remove(0).host_path;
        let told = node.told(Path::new(&directory)).unwrap();
        assert_eq!(
            (&told["devices"][0]["rail"], &told["devices"][0]["trafficClass"]),
            (&json!(3), &json!(106))
        );
        let nccl = fs::read_to_string(Path::new(&directory).join("nccl.conf")).unwrap();
        assert!(nccl.contains("\nNCCL_IB_TC=106\n"), "{nccl}");
        fs::write(sys.join("class/infiniband/mlx5_0/ports/1/link_layer"), "InfiniBand\n").unwrap();
        let told = node.told(Path::new(&directory)).unwrap();
        assert_eq!(told["devices"][0]["trafficClass"], Value::Null, "InfiniBand has service levels");
    }

    /// The kubelet mounts the first directory of the devices that it passes, in any order.
    #[test]
    fn every_device_of_a_container_has_the_files() {
        let node = SharedNode::new();
        node.pod("one", "10.0.0.1", "2026-01-01T00:00:00Z");
        node.allocated(&["one"]);
        let ids: [String; 2] = ["0".into(), "1".into()];
        let mount = |ids: &[String]| {
            let mut answer = ContainerAllocateResponse::default();
            node.files.add_to(&mut answer, &node.spec, ids);
            PathBuf::from(answer.mounts.remove(0).host_path)
        };
        let directories = ids.each_ref().map(|id| mount(std::slice::from_ref(id)));
        let have_files = || directories.each_ref().map(|directory| directory.join("rdma.json").exists());
        let write = || node.files.write(&node.spec, &ids, PodUse::read(&node.files.node).as_ref());
        write();
        assert_eq!(have_files(), [true, true]);
        assert_eq!(mount(&ids), directories[0]);
        assert_eq!(have_files(), [false, false], "those of the former pod");
        write();
        node.allocated(&[]);
        write();
        assert_eq!(have_files(), [false, false], "the pod is not known any more");
    }

    #[test]
    fn the_files_are_those_of_the_newest_pod_that_has_the_device() {
        let node = SharedNode::new();
        node.pod("one", "10.0.0.1", "2026-01-01T00:00:01Z");
        node.pod("two", "10.0.0.2", "2026-01-01T00:00:00Z");
        node.allocated(&["one", "two", "without-a-network"]);
        let directory = node.mounted().mounts.remove(0).host_path;
        assert_eq!(node.told(Path::new(&directory)).unwrap()["pod"]["name"], "one");
    }

    #[test]
    fn a_container_without_a_network_of_silkrail_or_an_allocation_gets_no_files() {
        let node = SharedNode::new();
        let directory = node.mounted().mounts.remove(0).host_path;
        assert_eq!(node.told(Path::new(&directory)), None, "no checkpoint");
        node.allocated(&["one"]);
        assert_eq!(node.told(Path::new(&directory)), None, "not in the pod map");
        node.pod("one", "10.0.0.9", "2026-01-01T00:00:00Z");
        let told = node.told(Path::new(&directory)).unwrap();
        assert_eq!(told["devices"][0]["gids"][0]["index"], Value::Null, "not in the GID table");
    }
}
