//! Device information files (Device Information Specification 1.1.0), by which Multus reports the devices of a pod in its
//! `network-status` annotation. Multus copies the file of a device before it calls the plugin of the network.

use std::{fs, io, path::PathBuf};

use serde_json::{Value, json};
use tracing::warn;

use crate::{NodeDevice, ResourceSpec};

/// The directory of the device information files of device plugins.
#[derive(Debug, Clone)]
pub struct DeviceInfoDirectory(PathBuf);

impl DeviceInfoDirectory {
    /// Where Multus reads the files, as `/var/run/…`, below the root directory of the node.
    pub const DEFAULT: &str = "run/k8s.cni.cncf.io/devinfo/dp";

    /// Creates the directory; `None` with a warning if files cannot be written there.
    pub fn create(path: PathBuf) -> Option<Self> {
        let probe = path.join(".silkrail");
        let created = fs::create_dir_all(&path)
            .and_then(|()| fs::write(&probe, ""))
            .and_then(|()| fs::remove_file(&probe));
        if let Err(error) = created {
            warn!("{}: {error}: there are no device information files; mount it writable", path.display());
            return None;
        }
        Some(Self(path))
    }

    /// Writes the files of devices that are allocated.
    pub(crate) fn write<'a>(&self, spec: &ResourceSpec, devices: impl IntoIterator<Item = &'a NodeDevice>) {
        for device in devices {
            let Some(content) = content(device, spec) else { continue };
            if let Err(error) =
                statefile::replace(&self.file(spec, &device.id), 0o444, content.to_string().as_bytes())
            {
                warn!(resource = %spec.name, device = device.id, "no device information file: {error}");
            }
        }
    }

    /// Removes the files of devices.
    pub(crate) fn remove(&self, spec: &ResourceSpec, ids: impl IntoIterator<Item = impl AsRef<str>>) {
        for id in ids {
            match fs::remove_file(self.file(spec, id.as_ref())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    warn!(resource = %spec.name, device = id.as_ref(), "its device information file remains: {error}");
                }
                _ => {}
            }
        }
    }

    /// Whether a device has a file.
    pub(crate) fn has(&self, spec: &ResourceSpec, id: &str) -> bool {
        self.file(spec, id).exists()
    }

    fn file(&self, spec: &ResourceSpec, id: &str) -> PathBuf {
        self.0.join(format!("{}-{id}-device.json", spec.name.to_string().replace('/', "-")))
    }
}

/// Returns the content of the file of a device; `None` if it is not a PCI device, for which there is no type.
fn content(device: &NodeDevice, spec: &ResourceSpec) -> Option<Value> {
    let pci = device.function.as_ref()?.pci()?;
    let mut attributes = json!({"pci-address": pci.to_string()});
    if let Some(pf) = &device.pf {
        attributes["pf-pci-address"] = pf.pci.to_string().into();
    }
    if spec.requires_rdma(device) && !device.rdma.is_empty() {
        attributes["rdma-device"] = device.rdma.join(",").into();
    }
    if spec.requires_vhost_net(device) {
        attributes["vhost-net"] = "/dev/vhost-net".into();
    }
    Some(json!({"type": "pci", "version": "1.1.0", "pci": attributes}))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{Config, device::fixture::vf};

    fn spec() -> ResourceSpec {
        let text = "resourceList: [{resourceName: vf, resourcePrefix: a.io, selectors: {isRdma: true, needVhostNet: true}}]";
        Config::parse(text).unwrap().resources.remove(0)
    }

    #[test]
    fn an_allocated_device_has_a_file_until_the_end() {
        let base = tempfile::tempdir().unwrap();
        let directory = DeviceInfoDirectory::create(base.path().join("devinfo/dp")).unwrap();
        let (device, software) =
            (vf("p0", 0), NodeDevice { function: None, id: "rxe0".into(), ..vf("p0", 1) });
        for round in 0..2 {
            directory.write(&spec(), &[device.clone(), software.clone()]);
            let files: Vec<_> =
                fs::read_dir(&directory.0).unwrap().map(|it| it.unwrap().file_name()).collect();
            assert_eq!(files, ["a.io-vf-0000:af:00.2-device.json"], "{round}");
        }
        let path = directory.0.join("a.io-vf-0000:af:00.2-device.json");
        let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let pci = json!({
            "pci-address": "0000:af:00.2", "pf-pci-address": "0000:af:00.0", "rdma-device": "mlx5_2",
            "vhost-net": "/dev/vhost-net",
        });
        assert_eq!(written, json!({"type": "pci", "version": "1.1.0", "pci": pci}));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o444);
        directory.remove(&spec(), [&device.id, &software.id]);
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
    }

    #[test]
    fn without_a_directory_there_are_no_files() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(DeviceInfoDirectory::create(file.join("dp")).is_none());
    }
}
