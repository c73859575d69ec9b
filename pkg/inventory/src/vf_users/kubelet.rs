//! VFs that kubelet allocated to pods, from its checkpoint file: this works even if kubelet does not respond.

use std::{
    io,
    path::{Path, PathBuf},
};

use identifiers::PciAddress;
use kubelet_checkpoint::{CheckpointError, KubeletCheckpoint, KubeletDirectory};
use kubepods::{PodNames, PodUid};

use super::evidence::VfUser;
use crate::Error;

/// The directory of kubelet's device plugins.
const DIRECTORY: &str = "var/lib/kubelet/device-plugins";

/// The pod and the resource name of each allocated VF.
#[derive(Debug)]
pub(crate) struct KubeletUsers {
    root: PathBuf,
    checkpoint: KubeletCheckpoint,
    names: PodNames,
}

impl KubeletUsers {
    /// Reads the checkpoint. One from before the last boot is ignored, since kubelet recreates all pods.
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        let mut checkpoint =
            KubeletCheckpoint::read(&KubeletDirectory(root.join(DIRECTORY))).map_err(io_error)?;
        if checkpoint.is_of_former_boot(root) {
            checkpoint = KubeletCheckpoint::default();
        }
        let mut names = PodNames::at(root);
        // Pods whose names cannot be read are shown by their UIDs.
        let _ = names.read();
        Ok(Self { root: root.to_owned(), checkpoint, names })
    }

    pub(crate) fn of(&self, vf: PciAddress) -> Option<VfUser> {
        let id = vf.to_string();
        let mut allocations = self.checkpoint.allocations_of(&id);
        let (resource, pod) = allocations.find(|(_, pod)| is_there(&self.root, pod))?;
        Some(VfUser::Kubelet { pod: name(&self.names, pod), resource: resource.to_owned() })
    }
}

fn io_error(error: CheckpointError) -> Error {
    match error {
        CheckpointError::Read { path, source } => Error::Io { path, source },
        CheckpointError::Malformed { path, source } => {
            Error::Io { path, source: io::Error::new(io::ErrorKind::InvalidData, source) }
        }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

    fn node(checkpoint: &str, btime: u64) -> (tempfile::TempDir, Result<KubeletUsers, Error>) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(DIRECTORY).join("kubelet_internal_checkpoint");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, checkpoint).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/stat"), format!("cpu 1 2\nbtime {btime}\n")).unwrap();
        fs::create_dir_all(root.path().join(format!("var/log/pods/train_job-0_{UID}"))).unwrap();
        fs::create_dir_all(root.path().join(format!("var/lib/kubelet/pods/{UID}"))).unwrap();
        let kubelet = KubeletUsers::read(root.path());
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
    fn all_devices_of_all_pods_and_numa_nodes_are_used() {
        let second =
            checkpoint(r#"{"0":["0000:af:00.3"],"1":["x","0000:b0:00.2"]}"#).replace(UID, "not-a-uid");
        let (first, second) = (checkpoint(r#"["0000:af:00.2"]"#), second);
        let entry = second.split_once('[').unwrap().1.split_once(r#"],"Reg"#).unwrap().0;
        let both = first.replacen('[', &format!("[{entry},"), 1);
        let (_root, kubelet) = node(&both, 1);
        let kubelet = kubelet.unwrap();
        let pod = |vf: &str| match kubelet.of(vf.parse().unwrap()) {
            Some(VfUser::Kubelet { pod, .. }) => pod,
            other => panic!("{vf}: {other:?}"),
        };
        assert_eq!(
            ["0000:af:00.2", "0000:af:00.3", "0000:b0:00.2"].map(pod),
            ["train/job-0", "not-a-uid", "not-a-uid"]
        );
    }

    #[test]
    fn a_pod_without_a_directory_has_no_vf_even_if_the_checkpoint_lists_it() {
        let (root, _) = node(&checkpoint(r#"["0000:af:00.2"]"#), 1);
        fs::remove_dir(root.path().join(format!("var/lib/kubelet/pods/{UID}"))).unwrap();
        assert_eq!(KubeletUsers::read(root.path()).unwrap().of("0000:af:00.2".parse().unwrap()), None);
    }

    #[test]
    fn a_checkpoint_from_before_the_boot_is_ignored() {
        let (_root, kubelet) = node(&checkpoint(r#"["0000:af:00.2"]"#), u64::from(u32::MAX));
        assert_eq!(kubelet.unwrap().of("0000:af:00.2".parse().unwrap()), None);
    }

    #[test]
    fn a_checkpoint_without_pods_is_empty_and_an_invalid_one_is_an_error() {
        let (_root, kubelet) = node(r#"{"Data":{"PodDeviceEntries":null},"Checksum":1}"#, 1);
        assert!(kubelet.unwrap().of("0000:af:00.2".parse().unwrap()).is_none());
        let (_root, broken) = node("{", 1);
        assert!(broken.unwrap_err().to_string().contains("kubelet_internal_checkpoint"));
        let empty = tempfile::tempdir().unwrap();
        assert!(
            KubeletUsers::read(empty.path()).unwrap().of("0000:af:00.2".parse().unwrap()).is_none(),
            "no kubelet"
        );
    }
}
