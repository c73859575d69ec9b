//! The device information file of the Device Information Specification 1.1.0, by which Multus reports a pod's device in its
//! `network-status` annotation.
//!
//! Multus names the file in `runtimeConfig.CNIDeviceInfoFile` if the network declares that capability. If the device plugin wrote
//! one, Multus has copied it there before the ADD. Multus deletes it after the DEL.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use cni::CallContext;
use identifiers::PciAddress;
use plugin_runtime::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracing::warn;

/// The directory of the files: Multus' `DefaultCNIDeviceInfoDir`. `/var/run` is a link to `/run`.
const DIRECTORIES: [&str; 2] = ["/var/run/k8s.cni.cncf.io/devinfo/cni", "/run/k8s.cni.cncf.io/devinfo/cni"];

/// Returns the path of the file that a network requests.
///
/// # Errors
/// If it is not in the directory of these files: a plugin runs as root, and would write to any path.
pub fn path(common: &CallContext<'_>) -> Result<Option<PathBuf>, cni::Error> {
    let Some(runtime) = common.conf.runtime()? else { return Ok(None) };
    let Some(text) = runtime.text("CNIDeviceInfoFile")? else { return Ok(None) };
    let path = Path::new(text);
    if is_allowed(path) {
        return Ok(Some(path.to_owned()));
    }
    let expected = format!("a file in {}", DIRECTORIES[0]);
    Err(runtime.invalid("CNIDeviceInfoFile", &expected, format!("{text:?}")))
}

/// Whether a path is a file in the directory of these files.
fn is_allowed(path: &Path) -> bool {
    let is_in = |directory: &&str| path.parent() == Some(Path::new(directory)) && path.file_name().is_some();
    DIRECTORIES.iter().any(is_in)
}

/// The change that a device information file was written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceInfoWrite {
    path: PathBuf,
    content: String,
    /// Its former content: a copy of the device plugin's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    former: Option<String>,
}

impl DeviceInfoWrite {
    /// Returns the change for a VF and the names of its RDMA devices; `None` if the file describes a device of another type.
    ///
    /// # Errors
    /// If the present file cannot be read.
    pub(crate) fn of(
        path: &Path,
        vf: PciAddress,
        pf: PciAddress,
        rdma: &[String],
    ) -> Result<Option<Self>, Error> {
        let former = statefile::read(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let content = content(former.as_deref(), vf, pf, rdma);
        Ok(content.map(|content| Self { path: path.to_owned(), content, former }))
    }

    pub(crate) fn apply(&self) -> Result<(), Error> {
        if let Some(directory) = self.path.parent() {
            statefile::make_dir(directory, 0o755)?;
        }
        Ok(statefile::replace(&self.path, 0o444, self.content.as_bytes())?)
    }

    /// Restores the former file, or removes the file, unless another program has changed or deleted it.
    ///
    /// # Errors
    /// If the file cannot be read, written or removed.
    pub fn revert(&self) -> Result<(), Error> {
        if !is_allowed(&self.path) {
            warn!(path = %self.path.display(), "not a device information file: no ADD has written it");
            return Ok(());
        }
        self.restore()
    }

    fn restore(&self) -> Result<(), Error> {
        let present = match statefile::read(&self.path) {
            Err(error) if error.is_foreign() => return Ok(()),
            present => present?,
        };
        if present.as_deref() != Some(self.content.as_bytes()) {
            return Ok(());
        }
        match &self.former {
            Some(former) => Ok(statefile::replace(&self.path, 0o444, former.as_bytes())?),
            None => Ok(statefile::remove(&self.path)?),
        }
    }
}

impl fmt::Display for DeviceInfoWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device information file {}", self.path.display())
    }
}

/// Returns the content: the former one with this VF's attributes. Others are kept, such as `vhost-net`.
fn content(former: Option<&str>, vf: PciAddress, pf: PciAddress, rdma: &[String]) -> Option<String> {
    let parsed = former.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    let mut info = parsed.unwrap_or_default();
    if info.get("type").is_some_and(|kind| kind != "pci") {
        return None;
    }
    let mut pci = info.remove("pci").and_then(|pci| pci.as_object().cloned()).unwrap_or_default();
    pci.insert("pci-address".into(), json!(vf.to_string()));
    pci.insert("pf-pci-address".into(), json!(pf.to_string()));
    if !rdma.is_empty() {
        pci.insert("rdma-device".into(), json!(rdma.join(",")));
    }
    info.insert("type".into(), json!("pci"));
    info.insert("version".into(), json!("1.1.0"));
    info.insert("pci".into(), pci.into());
    Some(Value::from(info).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(former: Option<&str>, rdma: &[&str]) -> Option<Value> {
        let (vf, pf) = ("0000:af:00.2".parse().unwrap(), "0000:af:00.0".parse().unwrap());
        let rdma: Vec<_> = rdma.iter().map(|name| (*name).to_owned()).collect();
        content(former, vf, pf, &rdma).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn a_new_file_has_the_addresses_and_the_rdma_devices() {
        let pci = json!({"pci-address": "0000:af:00.2", "pf-pci-address": "0000:af:00.0", "rdma-device": "mlx5_3,mlx5_4"});
        let expected = json!({"type": "pci", "version": "1.1.0", "pci": pci});
        assert_eq!(written(None, &["mlx5_3", "mlx5_4"]), Some(expected.clone()));
        assert_eq!(written(Some("{"), &["mlx5_3", "mlx5_4"]), Some(expected));
    }

    #[test]
    fn what_the_device_plugin_wrote_is_kept() {
        let former = json!({"type": "pci", "version": "1.0.0", "pci": {"vhost-net": "/dev/vhost-net", "rdma-device": "old"}});
        let now = written(Some(&former.to_string()), &["mlx5_3"]).unwrap();
        assert_eq!(now["pci"]["vhost-net"], "/dev/vhost-net");
        assert_eq!((&now["pci"]["rdma-device"], &now["version"]), (&json!("mlx5_3"), &json!("1.1.0")));
        let without_rdma = written(Some(&former.to_string()), &[]).unwrap();
        assert_eq!(without_rdma["pci"]["rdma-device"], "old");
    }

    #[test]
    fn the_file_of_another_type_is_left_alone() {
        assert_eq!(written(Some(r#"{"type": "vdpa", "vdpa": {}}"#), &["mlx5_3"]), None);
    }

    #[test]
    fn a_file_that_another_program_changed_is_not_reverted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/net1");
        let change = |former: Option<&str>| DeviceInfoWrite {
            path: path.clone(),
            content: "ours".into(),
            former: former.map(str::to_owned),
        };
        let read = || std::fs::read_to_string(&path).ok();
        change(None).apply().unwrap();
        assert_eq!(read().as_deref(), Some("ours"));
        change(Some("theirs")).restore().unwrap();
        assert_eq!(read().as_deref(), Some("theirs"));
        change(None).restore().unwrap();
        assert_eq!(read().as_deref(), Some("theirs"));
        change(None).apply().unwrap();
        change(None).restore().unwrap();
        assert_eq!(read(), None);
        change(None).restore().unwrap();
    }

    #[test]
    fn a_file_outside_the_directory_is_not_reverted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("net1");
        let change =
            DeviceInfoWrite { path: path.clone(), content: "ours".into(), former: Some("theirs".into()) };
        change.apply().unwrap();
        change.revert().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "ours");
    }
}
