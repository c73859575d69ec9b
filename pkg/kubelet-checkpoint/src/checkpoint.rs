//! The kubelet's checkpoint of device plugins: which pod has which devices.
//!
//! The kubelet writes it after each allocation, in a format that has been the same since Kubernetes 1.20. Before, a container
//! had a list of IDs instead of one for each NUMA node.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;

use crate::KubeletDirectory;

/// The devices that the kubelet has allocated to pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletCheckpoint {
    allocations: Vec<Allocation>,
    /// The places of the allocations of a device, of all resources, by ID. Several pods have a device for a moment, until the
    /// kubelet notices that one has ended, and several containers of a pod if one of them is an init container.
    of_device: BTreeMap<String, Vec<usize>>,
    /// The resources that have healthy devices.
    registered: BTreeSet<String>,
    /// The boot in which it was written. Only new kubelets write it: `Data` in pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go
    /// of Kubernetes.
    boot_id: Option<String>,
    /// When it was written.
    modified: Option<SystemTime>,
}

/// The devices of a resource that are allocated to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Allocation {
    /// The UID of its pod.
    pod: String,
    /// Its name in the pod.
    container: String,
    resource: String,
    ids: BTreeSet<String>,
    /// The answer of the device plugin, in base64.
    answer: String,
}

/// Why the checkpoint is unknown.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file has another format.
    #[error("{}: {source}: it is not a checkpoint of Kubernetes 1.10 or later", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error.
        source: serde_json::Error,
    },
}

impl KubeletCheckpoint {
    /// Reads the checkpoint. It is empty if there is no file: the kubelet has allocated nothing yet.
    ///
    /// # Errors
    /// [`CheckpointError`] if it cannot be read.
    pub fn read(directory: &KubeletDirectory) -> Result<Self, CheckpointError> {
        let path = directory.checkpoint();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(CheckpointError::Read { path, source }),
        };
        let file: File =
            serde_json::from_slice(&bytes).map_err(|source| CheckpointError::Malformed { path, source })?;
        let registered = file.data.registered.unwrap_or_default().into_keys().collect();
        let modified = fs::metadata(directory.checkpoint()).and_then(|file| file.modified()).ok();
        let boot_id = file.boot_id.filter(|id| !id.is_empty());
        Ok(Self { registered, boot_id, modified, ..Self::of(file.data.entries.unwrap_or_default()) })
    }

    /// Whether it was written before the node with this root directory booted: no container that it lists has run since. The
    /// kubelet starts those of pods that still exist again, with the same devices. `false` if it is unknown.
    pub fn is_of_former_boot(&self, root: &Path) -> bool {
        match (&self.boot_id, bootid::below(root)) {
            (Some(written), Ok(present)) => *written != present,
            // The clock may have been set since.
            _ => self.modified.zip(boot_time(root)).is_some_and(|(written, boot)| written < boot),
        }
    }

    fn of(entries: Vec<Entry>) -> Self {
        let mut checkpoint = Self::default();
        for Entry { pod, container, resource, devices, answer } in entries {
            let ids: BTreeSet<_> = devices.into_ids().into_iter().collect();
            for id in &ids {
                let places = checkpoint.of_device.entry(id.clone()).or_default();
                places.push(checkpoint.allocations.len());
            }
            let answer = answer.unwrap_or_default();
            checkpoint.allocations.push(Allocation { pod, container, resource, ids, answer });
        }
        checkpoint
    }

    /// Returns the resources that device plugins have registered with healthy devices.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.registered.iter().map(String::as_str)
    }

    /// Returns the UIDs of the pods that have a device.
    pub fn pods<'a>(&'a self, resource: &str, id: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let pods: BTreeSet<_> =
            self.allocated(resource, id).into_iter().map(|allocation| allocation.pod.as_str()).collect();
        pods.into_iter()
    }

    /// Whether a pod has a device, of any resource.
    pub fn is_allocated_to(&self, pod: &str, id: &str) -> bool {
        self.allocations_of(id).any(|(_, other)| other == pod)
    }

    /// Returns the resource and the pod of each allocation of a device, of any resource.
    pub fn allocations_of(&self, id: &str) -> impl Iterator<Item = (&str, &str)> {
        self.of_id(id).map(|allocation| (allocation.resource.as_str(), allocation.pod.as_str()))
    }

    /// Returns what the device plugin answered for each container that has a device, about all devices of the container: a
    /// `ContainerAllocateResponse` in protobuf. The kubelet starts the container with it, again and again, also after a reboot.
    pub fn answers(&self, resource: &str, id: &str) -> impl Iterator<Item = Vec<u8>> {
        self.allocated(resource, id).into_iter().filter_map(Allocation::decode)
    }

    /// Returns such answers of all device plugins for the container of a pod that has exactly these devices of a resource.
    pub fn answers_to_container(&self, pod: &str, resource: &str, ids: &BTreeSet<String>) -> Vec<Vec<u8>> {
        let mut all = self.allocations.iter();
        let own = all.find(|one| one.pod == pod && one.resource == resource && one.ids == *ids);
        let Some(own) = own else { return Vec::new() };
        let is_same = |other: &&Allocation| (&other.pod, &other.container) == (&own.pod, &own.container);
        self.allocations.iter().filter(is_same).filter_map(Allocation::decode).collect()
    }

    fn allocated(&self, resource: &str, id: &str) -> Vec<&Allocation> {
        self.of_id(id).filter(|allocation| allocation.resource == resource).collect()
    }

    fn of_id(&self, id: &str) -> impl Iterator<Item = &Allocation> {
        let places = self.of_device.get(id);
        places.into_iter().flatten().filter_map(|place| self.allocations.get(*place))
    }
}

/// Returns the time of the boot, `btime` in proc_stat(5).
fn boot_time(root: &Path) -> Option<SystemTime> {
    let stat = fs::read_to_string(root.join("proc/stat")).ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

impl Allocation {
    /// Decodes the answer, which Go writes in base64; `None` if there is none.
    fn decode(&self) -> Option<Vec<u8>> {
        BASE64_STANDARD.decode(&self.answer).ok().filter(|bytes| !bytes.is_empty())
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "Data")]
    data: Data,
    #[serde(rename = "BootID")]
    boot_id: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    /// `null` without allocations.
    #[serde(rename = "PodDeviceEntries")]
    entries: Option<Vec<Entry>>,
    /// The IDs of the healthy devices of each resource.
    #[serde(rename = "RegisteredDevices", default)]
    registered: Option<BTreeMap<String, serde::de::IgnoredAny>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "PodUID")]
    pod: String,
    #[serde(rename = "ContainerName", default)]
    container: String,
    #[serde(rename = "ResourceName")]
    resource: String,
    #[serde(rename = "DeviceIDs")]
    devices: Ids,
    #[serde(rename = "AllocResp")]
    answer: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    ByNumaNode(BTreeMap<String, Vec<String>>),
    List(Vec<String>),
    None,
}

impl Ids {
    fn into_ids(self) -> Vec<String> {
        match self {
            Self::ByNumaNode(nodes) => nodes.into_values().flatten().collect(),
            Self::List(ids) => ids,
            Self::None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<KubeletCheckpoint, CheckpointError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kubelet_internal_checkpoint"), text).unwrap();
        KubeletCheckpoint::read(&KubeletDirectory(dir.path().to_owned()))
    }

    fn pods(checkpoint: &KubeletCheckpoint, id: &str) -> Vec<String> {
        checkpoint.pods("a.io/vf", id).map(str::to_owned).collect()
    }

    #[test]
    fn the_pods_of_devices_in_both_formats() {
        let checkpoint = read(
            r#"{"Data":{"PodDeviceEntries":[
                {"PodUID":"one","ContainerName":"c","ResourceName":"a.io/vf","DeviceIDs":{"-1":["x"],"0":["y"]},"AllocResp":""},
                {"PodUID":"two","ContainerName":"c","ResourceName":"a.io/vf","DeviceIDs":["z"],"AllocResp":""},
                {"PodUID":"new","ContainerName":"c","ResourceName":"a.io/vf","DeviceIDs":["z"],"AllocResp":""},
                {"PodUID":"two","ContainerName":"c","ResourceName":"b.io/vf","DeviceIDs":{"0":["x"]},"AllocResp":""},
                {"PodUID":"two","ContainerName":"d","ResourceName":"b.io/vf","DeviceIDs":null,"AllocResp":""}
            ],"RegisteredDevices":{"a.io/vf":["x","y","z"]}},"Checksum":1}"#,
        )
        .unwrap();
        assert_eq!(
            ["x", "y", "z", "other"].map(|id| pods(&checkpoint, id).join(" ")),
            ["one", "one", "new two", ""]
        );
        assert_eq!(checkpoint.resources().collect::<Vec<_>>(), ["a.io/vf"]);
        let allocated = |pod: &str| ["x", "y", "z"].map(|id| checkpoint.is_allocated_to(pod, id));
        assert_eq!(allocated("one"), [true, true, false]);
        assert_eq!(allocated("two"), [true, false, true], "of any resource");
    }

    #[test]
    fn the_answers_that_containers_were_given() {
        let given = BASE64_STANDARD.encode("an answer");
        let entry = |pod: &str, answer: &str| {
            format!(
                r#"{{"PodUID":"{pod}","ResourceName":"a.io/vf","DeviceIDs":["x"],"AllocResp":"{answer}"}}"#
            )
        };
        let entries = [entry("one", &given), entry("two", "not base64"), entry("old", "")].join(",");
        let checkpoint = read(&format!(r#"{{"Data":{{"PodDeviceEntries":[{entries}]}}}}"#)).unwrap();
        assert_eq!(checkpoint.answers("a.io/vf", "x").collect::<Vec<_>>(), [b"an answer"]);
        assert_eq!(checkpoint.answers("a.io/vf", "y").count(), 0);
    }

    #[test]
    fn a_container_has_the_answers_for_all_its_resources() {
        let entry = |pod: &str, container: &str, resource: &str, device: &str| {
            let answer = BASE64_STANDARD.encode(device.split('"').next().unwrap());
            format!(
                r#"{{"PodUID":"{pod}","ContainerName":"{container}","ResourceName":"{resource}","DeviceIDs":["{device}"],"AllocResp":"{answer}"}}"#
            )
        };
        let entries = [
            // An init container, whose device the next one gets too.
            entry("one", "init", "a.io/vf", r#"x","i"#),
            entry("one", "main", "a.io/vf", "x"),
            entry("one", "main", "b.io/vf", "y"),
            entry("one", "other", "a.io/vf", "z"),
            entry("two", "main", "a.io/vf", "w"),
        ];
        let file = format!(r#"{{"Data":{{"PodDeviceEntries":[{}]}}}}"#, entries.join(","));
        let mut answers = read(&file).unwrap().answers_to_container("one", "a.io/vf", &["x".into()].into());
        answers.sort_unstable();
        assert_eq!(answers, [b"x", b"y"]);
        assert_eq!(pods(&read(&file).unwrap(), "x"), ["one"], "once, for both containers");
    }

    #[test]
    fn a_checkpoint_of_a_former_boot_is_known_by_its_boot_id_or_its_time() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/sys/kernel/random")).unwrap();
        fs::write(root.path().join(bootid::FILE), "present\n").unwrap();
        let (early, late) = (1, u64::from(u32::MAX));
        for (boot_id, btime, expected) in [
            ("", early, false),
            ("", late, true),
            (r#","BootID":"""#, late, true),
            (r#","BootID":"present""#, late, false),
            (r#","BootID":"former""#, early, true),
        ] {
            fs::write(root.path().join("proc/stat"), format!("cpu 1 2\nbtime {btime}\n")).unwrap();
            let checkpoint = read(&format!(r#"{{"Data":{{}},"Checksum":1{boot_id}}}"#)).unwrap();
            assert_eq!(checkpoint.is_of_former_boot(root.path()), expected, "{boot_id} {btime}");
        }
    }

    #[test]
    fn a_kubelet_uses_the_directory_of_its_socket_or_its_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let directory = KubeletDirectory(dir.path().to_owned());
        assert!(!directory.is_used());
        for name in ["kubelet.sock", "kubelet_internal_checkpoint"] {
            fs::write(dir.path().join(name), "").unwrap();
            assert!(directory.is_used(), "{name}");
            fs::remove_file(dir.path().join(name)).unwrap();
        }
    }

    #[test]
    fn without_allocations_it_is_empty() {
        let none = tempfile::tempdir().unwrap();
        let missing = KubeletCheckpoint::read(&KubeletDirectory(none.path().join("none"))).unwrap();
        let empty =
            read(r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":0}"#).unwrap();
        assert_eq!((missing, empty.allocations.len()), (KubeletCheckpoint::default(), 0));
    }

    #[test]
    fn another_format_is_an_error_with_the_path() {
        let error = read(r#"{"PodDeviceEntries":[]}"#).unwrap_err().to_string();
        assert!(error.contains("kubelet_internal_checkpoint: missing field `Data`"), "{error}");
    }
}
