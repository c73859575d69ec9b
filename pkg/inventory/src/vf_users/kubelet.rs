//! VFs that kubelet allocated to pods, from its checkpoint file: this works even if kubelet does not respond.

use std::{collections::BTreeMap, fs, io, path::Path, time::SystemTime};

use identifiers::PciAddress;
use kubepods::{PodNames, PodUid};
use serde::Deserialize;
use serde_json::Value;

use super::evidence::VfUser;
use crate::Error;

/// The checkpoint of kubelet's device manager.
const CHECKPOINT: &str = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/// The pod and the resource name of each allocated VF.
#[derive(Debug, Default)]
pub(crate) struct KubeletCheckpoint {
    pods: BTreeMap<PciAddress, (String, String)>,
}

#[derive(Deserialize)]
struct CheckpointFile {
    #[serde(rename = "Data")]
    data: CheckpointData,
}

#[derive(Deserialize)]
struct CheckpointData {
    #[serde(rename = "PodDeviceEntries", default)]
    entries: Option<Vec<PodDevicesEntry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PodDevicesEntry {
    #[serde(rename = "PodUID")]
    pod: String,
    resource_name: String,
    /// Device IDs by NUMA node; older versions of kubelet write a plain list.
    #[serde(rename = "DeviceIDs")]
    devices: Value,
}

impl KubeletCheckpoint {
    /// Reads the checkpoint. One from before the last boot is ignored, since kubelet recreates all pods.
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        let path = root.join(CHECKPOINT);
        let text = match fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(|source| Error::Io { path: path.clone(), source })?,
        };
        let written =
            fs::metadata(&path).and_then(|meta| meta.modified()).unwrap_or_else(|_| SystemTime::now());
        if boot_time(root).is_some_and(|boot| written < boot) {
            return Ok(Self::default());
        }
        let checkpoint: CheckpointFile = serde_json::from_slice(&text)
            .map_err(|error| Error::Io { path, source: io::Error::new(io::ErrorKind::InvalidData, error) })?;
        let mut names = PodNames::at(root);
        // Pods whose names cannot be read are shown by their UIDs.
        let _ = names.read();
        let mut pods = BTreeMap::new();
        let entries = checkpoint.data.entries.unwrap_or_default().into_iter();
        for entry in entries.filter(|entry| is_there(root, &entry.pod)) {
            let pod = name(&names, &entry.pod);
            for vf in ids(&entry.devices).filter_map(|id| id.parse().ok()) {
                pods.insert(vf, (pod.clone(), entry.resource_name.clone()));
            }
        }
        Ok(Self { pods })
    }

    pub(crate) fn of(&self, vf: PciAddress) -> Option<VfUser> {
        let (pod, resource) = self.pods.get(&vf)?;
        Some(VfUser::Kubelet { pod: pod.clone(), resource: resource.clone() })
    }
}

/// Whether the pod exists. kubelet removes a pod's directory at once, but its devices only at the next allocation.
fn is_there(root: &Path, pod: &str) -> bool {
    let uid: Result<PodUid, _> = pod.parse();
    uid.map_or(true, |uid| root.join("var/lib/kubelet/pods").join(uid.as_str()).try_exists().unwrap_or(true))
}

fn name(names: &PodNames, uid: &str) -> String {
    let uid_of: Option<PodUid> = uid.parse().ok();
    let name = uid_of.as_ref().and_then(|uid| names.get(uid));
    name.map_or_else(|| uid.to_owned(), |name| format!("{}/{}", name.namespace, name.name))
}

fn ids(devices: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match devices {
        Value::Array(list) => Box::new(list.iter().filter_map(Value::as_str)),
        Value::Object(nodes) => Box::new(nodes.values().flat_map(ids)),
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the time of the boot, `btime` in proc_stat(5).
fn boot_time(root: &Path) -> Option<SystemTime> {
    let stat = fs::read_to_string(root.join("proc/stat")).ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

    fn node(checkpoint: &str, btime: u64) -> (tempfile::TempDir, Result<KubeletCheckpoint, Error>) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(CHECKPOINT);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, checkpoint).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/stat"), format!("cpu 1 2\nbtime {btime}\n")).unwrap();
        fs::create_dir_all(root.path().join(format!("var/log/pods/train_job-0_{UID}"))).unwrap();
        fs::create_dir_all(root.path().join(format!("var/lib/kubelet/pods/{UID}"))).unwrap();
        let kubelet = KubeletCheckpoint::read(root.path());
        (root, kubelet)
    }

    fn checkpoint(devices: &str) -> String {
        format!(
            r#"{{"Data":{{"PodDeviceEntries":[{{"PodUID":"{UID}","ContainerName":"c","ResourceName":"a.b/vf",
               "DeviceIDs":{devices},"AllocResp":"x"}}],"RegisteredDevices":{{}}}},"Checksum":1}}"#
        )
    }

    #[test]
    fn a_vf_of_a_pod_is_used_in_both_formats_of_the_checkpoint() {
        for devices in [r#"{"0":["0000:af:00.2"],"-1":["gpu-1"]}"#, r#"["0000:af:00.2"]"#] {
            let (_root, kubelet) = node(&checkpoint(devices), 1);
            let kubelet = kubelet.unwrap();
            let expected = VfUser::Kubelet { pod: "train/job-0".into(), resource: "a.b/vf".into() };
            assert_eq!(kubelet.of("0000:af:00.2".parse().unwrap()), Some(expected));
            assert_eq!(kubelet.of("0000:af:00.3".parse().unwrap()), None);
        }
    }

    #[test]
    fn a_pod_without_a_directory_has_no_vf_even_if_the_checkpoint_lists_it() {
        let (root, _) = node(&checkpoint(r#"["0000:af:00.2"]"#), 1);
        fs::remove_dir(root.path().join(format!("var/lib/kubelet/pods/{UID}"))).unwrap();
        assert_eq!(KubeletCheckpoint::read(root.path()).unwrap().of("0000:af:00.2".parse().unwrap()), None);
    }

    #[test]
    fn a_checkpoint_from_before_the_boot_is_ignored() {
        let (_root, kubelet) = node(&checkpoint(r#"["0000:af:00.2"]"#), u64::from(u32::MAX));
        assert_eq!(kubelet.unwrap().of("0000:af:00.2".parse().unwrap()), None);
    }

    #[test]
    fn a_checkpoint_without_pods_is_empty_and_an_invalid_one_is_an_error() {
        let (_root, kubelet) = node(r#"{"Data":{"PodDeviceEntries":null},"Checksum":1}"#, 1);
        assert!(kubelet.unwrap().pods.is_empty());
        let (_root, broken) = node("{", 1);
        assert!(broken.unwrap_err().to_string().contains("kubelet_internal_checkpoint"));
        let empty = tempfile::tempdir().unwrap();
        assert!(KubeletCheckpoint::read(empty.path()).unwrap().pods.is_empty(), "no kubelet");
    }
}
