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
use kubelet_plugin::KubeletCheckpoint;
use pod_rdma::{PodDirectory, PodRdma, PodReader, WriteError};
use podmap::Entry;
use tracing::{info, warn};

use crate::{NodeReader, ResourceMode, ResourceSpec};

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
enum PodFilesError {
    #[error("the kubelet's checkpoint does not contain the pod that has {0}")]
    Unallocated(String),
    #[error(transparent)]
    Checkpoint(#[from] kubelet_plugin::CheckpointError),
    #[error("the pod map cannot be read: {0}")]
    PodMap(#[from] podmap::Error),
    #[error("the boot ID cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Read(#[from] pod_rdma::ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl PodFiles {
    /// Creates the directory for the files; `None` with a warning if they cannot be written.
    pub fn create(node: NodeReader, root: PathBuf, base: PathBuf) -> Option<Self> {
        if let Err(error) = create_writable(&base) {
            let base = base.display();
            warn!("{base}: {error}: containers do not get rdma.json and nccl.conf; mount it writable");
            return None;
        }
        let pods = PodReader { root, sysfs: node.sysfs.clone() };
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
    pub(crate) fn write(&self, spec: &ResourceSpec, ids: &[String]) {
        let resource = &spec.name;
        match self.try_write(spec, ids) {
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

    fn try_write(&self, spec: &ResourceSpec, ids: &[String]) -> Result<PodRdma, PodFilesError> {
        let entries = self.entries()?;
        let checkpoint = KubeletCheckpoint::read(&self.node.kubelet)?;
        let pod = pod_with(&checkpoint, spec, ids, &entries)?;
        let nodes = nodes_of_container(&checkpoint, &pod, spec, ids);
        let deadline = Instant::now() + GID_TIMEOUT;
        let pod = loop {
            let read = self.pods.read(&pod, &entries)?;
            if read.has_all_gids() || Instant::now() >= deadline {
                break read;
            }
            thread::sleep(GID_INTERVAL);
        };
        for directory in self.directories(spec, ids) {
            directory.write(&pod, &nodes)?;
        }
        Ok(pod)
    }

    /// Returns the entries of this boot. One that cannot be read is reported by the resources.
    fn entries(&self) -> Result<Vec<Entry>, PodFilesError> {
        let boot_id = bootid::current()?;
        let entries = self.node.pod_map.read_all()?.into_iter().flatten();
        Ok(entries.filter(|entry| entry.boot_id == boot_id).collect())
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

/// Returns the UID of the pod to which the kubelet has allocated the devices. Until the kubelet notices that a former pod has
/// ended, its checkpoint has both.
fn pod_with(
    checkpoint: &KubeletCheckpoint,
    spec: &ResourceSpec,
    ids: &[String],
    entries: &[Entry],
) -> Result<String, PodFilesError> {
    let resource = spec.name.to_string();
    let uids: BTreeSet<_> = ids.iter().flat_map(|id| checkpoint.pods(&resource, id)).collect();
    let is_exclusive = matches!(spec.mode, ResourceMode::Exclusive(_));
    // The entry of a scalable function has no address.
    let has_device =
        |entry: &Entry| !is_exclusive || entry.rdma.pci.is_none_or(|pci| ids.contains(&pci.to_string()));
    let uid_of = |entry: &Entry| entry.pod.as_ref()?.uid.clone();
    let mut candidates: Vec<_> = entries
        .iter()
        .filter(|entry| uid_of(entry).is_some_and(|uid| uids.contains(uid.as_str())) && has_device(entry))
        .collect();
    candidates.sort_by(|one, two| one.created_at.cmp(&two.created_at));
    let newest = candidates.last().and_then(|entry| uid_of(entry));
    let only = || uids.first().map(|uid| (*uid).to_owned());
    newest.or_else(only).ok_or_else(|| PodFilesError::Unallocated(ids.join(", ")))
}

/// Returns the device nodes of the container to which the devices are allocated, of all its resources.
fn nodes_of_container(
    checkpoint: &KubeletCheckpoint,
    pod: &str,
    spec: &ResourceSpec,
    ids: &[String],
) -> BTreeSet<PathBuf> {
    let resource = spec.name.to_string();
    let answers = checkpoint.answers_to_container(pod, &resource, &ids.iter().cloned().collect());
    let nodes = answers.into_iter().flat_map(|answer| answer.devices);
    nodes.map(|node| node.host_path.into()).collect()
}

#[cfg(test)]
mod tests {
    use identifiers::Attachment;
    use kubelet_plugin::KubeletDirectory;
    use podmap::{AttachMode, PodMap, PodRef};
    use serde_json::{Value, json};
    use sysfs::Sysfs;

    use super::*;
    use crate::Config;

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
                sysfs: Sysfs::at(at("sys")),
                pod_map: PodMap::below(&at("state")),
                kubelet: KubeletDirectory(at("kubelet")),
            };
            let files = PodFiles::create(node, root.path().into(), at("files")).unwrap();
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
            self.files.write(&self.spec, &["0".into()]);
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
