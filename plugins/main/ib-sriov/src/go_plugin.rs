//! VFs that the Go plugin (ib-sriov-cni) moved to pods before this one replaced it.
//!
//! It saved its configuration and the VF's former state in `ib-sriov/<container>-<ifname>`. [`GoIbSriovState`] converts that
//! to this plugin's own changes, which can be reverted.

use cni::{ConfObject, DelRequest, Error as CniError};
use exclusive_rdma::{DeviceMove, RdmaChange};
use go_plugins::GoStateFile;
use identifiers::{Attachment, LinkName, PciAddress};
use netns::NetNs;
use plugin_runtime::{Error, Node, attachment};
use rdma::Guid;
use rtnl::VfSetting;
use sysfs::Function;
use tracing::info;
use vf::{Change, HostLinkState, LinkMove, VfConfigured, VfGuids, is_claimed_by_other};

use crate::conf::NAME;

/// Reverts an attachment of the Go plugin, if the Go plugin has a file of it.
///
/// # Errors
/// The changes that could not be reverted; the file is then kept for the next DEL.
pub(crate) fn revert_go_attachment(request: &DelRequest<'_>, node: &Node) -> Result<(), Error> {
    let Attachment { container_id, ifname } = &request.attachment;
    let name = format!("{container_id}-{ifname}");
    let Some(file) = node.go_state.find(NAME, &name, node.go_file_lock().at())? else { return Ok(()) };
    let Some(saved) = GoIbSriovState::read(&file) else { return Ok(()) };
    if file.is_outdated() || is_claimed_by_other(node, &Function::Pci(saved.vf), &request.attachment)? {
        info!(vf = %saved.vf, "the VF belongs to another pod now: not changing it");
        return Ok(file.remove()?);
    }
    // Held open only for this call: the namespace may be about to end.
    let pod = request.netns.as_deref().and_then(go_plugins::open_if_alive);
    attachment::revert_all(node, &saved.changes(node, &request.attachment, pod.as_ref())?)?;
    info!(vf = %saved.vf, "reverted an attachment of the Go plugin");
    Ok(file.remove()?)
}

/// Reverts the changes of a pod of the Go plugin that is gone without a DEL, on behalf of `owner`, which has claimed the VF.
/// The VF of a living pod is not on the host, and is refused for that.
///
/// # Errors
/// If they cannot be reverted.
pub(crate) fn release_stale_state(node: &Node, vf: PciAddress, owner: &Attachment) -> Result<(), Error> {
    let file = node.go_state.newest_about(NAME, &vf.to_string(), node.go_file_lock().at())?;
    let Some(file) =
        file.filter(|_| vf::host_link(node, &Function::Pci(vf)).is_ok_and(|link| link.is_some()))
    else {
        return Ok(());
    };
    if let Some(saved) = GoIbSriovState::read(&file) {
        info!(%vf, "reverting the changes to a VF whose pod is gone without a DEL");
        attachment::revert_all(node, &saved.changes(node, owner, None)?)?;
        file.remove()?;
    }
    Ok(())
}

/// The state that the Go plugin saved of an attachment.
#[derive(Debug, PartialEq, Eq)]
pub struct GoIbSriovState {
    vf: PciAddress,
    /// The link on the host; `None` for a function in user space.
    host_link: Option<LinkName>,
    /// The former GUID; `None` if it was not changed.
    guid: Option<Guid>,
    /// Whether the link state was configured. It becomes `auto` again, as it was not saved.
    link_state: bool,
    /// The name of the RDMA device, if it was moved.
    rdma_device: Option<String>,
}

impl GoIbSriovState {
    /// Reads a file; `None` if it is malformed.
    fn read(file: &GoStateFile) -> Option<Self> {
        Self::of(&file.fields()).inspect_err(|why| file.warn_and_keep(why)).ok()
    }

    /// Reads the content of a file of the Go plugin.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn of(conf: &ConfObject<'_>) -> Result<Self, CniError> {
        let vf = conf.text("deviceID")?.ok_or_else(|| conf.invalid("deviceID", "a value", "none"))?;
        let text = |key: &str| Ok::<_, CniError>(conf.text(key)?.filter(|text| !text.is_empty()));
        let name = text("HostIFNames")?;
        let rdma = conf.object("RdmaNetState")?;
        let rdma = rdma.as_ref().map_or(Ok(None), |rdma| rdma.text("sandboxRdmaDevName"))?;
        let moved = conf.flag("rdmaIsolation")?.unwrap_or(false);
        Ok(Self {
            vf: vf.parse().map_err(|e| conf.invalid("deviceID", "a PCI address", e))?,
            host_link: name
                .map(|name| name.parse().map_err(|e| conf.invalid("HostIFNames", "a link name", e)))
                .transpose()?,
            guid: text("HostIFGUID")?.map(|guid| former_guid(conf, guid)).transpose()?,
            link_state: text("link_state")?.is_some(),
            rdma_device: rdma.filter(|name| moved && !name.is_empty()).map(str::to_owned),
        })
    }

    /// Returns the changes of the Go plugin, in the order in which ADD makes them.
    fn changes(&self, node: &Node, owner: &Attachment, pod: Option<&NetNs>) -> Result<Vec<Change>, Error> {
        let function = Function::Pci(self.vf);
        // If the VF is gone, so are its settings.
        if !node.sysfs.has(&function)? {
            return Ok(Vec::new());
        }
        let Some(pf) = node.sysfs.pf_of(self.vf)? else { return Ok(Vec::new()) };
        let index = node.sysfs.vf_index(self.vf)?;
        let mut changes = Vec::new();
        changes.extend(self.host_link.clone().map(|name| {
            let state = HostLinkState::from_go_state(name, None, None);
            Change::Move(LinkMove::from_go_state(owner, Function::Pci(self.vf), pod, state))
        }));
        if self.link_state {
            let auto = vec![VfSetting::LinkState(0)];
            changes.push(Change::Configured(VfConfigured::from_go_state(owner, self.vf, pf, index, auto)));
        }
        if let Some(guid) = self.guid {
            let driver = if self.host_link.is_some() { node.sysfs.driver(&function)? } else { None };
            changes.push(Change::Guids(VfGuids::from_go_state(owner, self.vf, pf, index, guid, driver)));
        }
        changes.extend(self.rdma_device.as_ref().map(|device| {
            Change::Rdma(RdmaChange::Move(DeviceMove::from_go_state(owner, &function, device, pod)))
        }));
        Ok(changes)
    }
}

/// The Go plugin saved zero if the VF had no GUID.
fn former_guid(conf: &ConfObject<'_>, text: &str) -> Result<Guid, CniError> {
    if text.bytes().all(|b| matches!(b, b'0' | b':')) {
        return Ok(Guid::UNASSIGNED);
    }
    text.parse().map_err(|e| conf.invalid("HostIFGUID", "a GUID", e))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn saved(file: &Value) -> Result<GoIbSriovState, CniError> {
        GoIbSriovState::of(&ConfObject::new(file.as_object().unwrap(), ""))
    }

    #[test]
    fn case_120_a_file_of_the_go_plugin_is_read() {
        let file = json!({
            "cniVersion": "0.3.1", "name": "ib", "type": "ib-sriov", "Master": "ibs0", "deviceID": "0000:af:00.2", "VFID": 0,
            "HostIFNames": "ibs0v0", "HostIFGUID": "02:00:00:00:00:00:00:01", "ContIFNames": "net1", "pkey": "",
            "link_state": "enable", "rdmaIsolation": true, "RdmaNetState": {
                "version": "1.0", "deviceID": "0000:af:00.2", "sandboxRdmaDevName": "mlx5_2", "containerRdmaDevName": "mlx5_9"
            }
        });
        let expected = GoIbSriovState {
            vf: "0000:af:00.2".parse().unwrap(),
            host_link: Some("ibs0v0".parse().unwrap()),
            guid: Some(Guid(0x0200_0000_0000_0001)),
            link_state: true,
            rdma_device: Some("mlx5_2".into()),
        };
        assert_eq!(saved(&file).unwrap(), expected);
    }

    #[test]
    fn case_118_zero_means_that_there_was_no_guid() {
        let file = json!({"deviceID": "0000:af:00.2", "HostIFNames": "ib0", "HostIFGUID": "00:00:00:00:00:00:00:00"});
        let saved = saved(&file).unwrap();
        assert_eq!(saved.guid, Some(Guid::UNASSIGNED));
        assert_eq!((saved.link_state, saved.rdma_device), (false, None));
    }

    #[test]
    fn what_was_not_changed_is_not_restored() {
        let file = json!({
            "deviceID": "0000:af:00.2", "HostIFNames": "", "HostIFGUID": "", "link_state": "", "rdmaIsolation": false,
            "RdmaNetState": {"sandboxRdmaDevName": "mlx5_2"}
        });
        let vf = "0000:af:00.2".parse().unwrap();
        let expected =
            GoIbSriovState { vf, host_link: None, guid: None, link_state: false, rdma_device: None };
        assert_eq!(saved(&file).unwrap(), expected);
        let unnamed = json!({"deviceID": "0000:af:00.2", "rdmaIsolation": true, "RdmaNetState": {"sandboxRdmaDevName": ""}});
        assert_eq!(saved(&unnamed).unwrap(), expected);
    }

    #[test]
    fn a_malformed_file_is_refused() {
        for malformed in [
            json!({}),
            json!({"deviceID": "../../etc"}),
            json!({"deviceID": "0000:af:00.2", "HostIFNames": "a/b"}),
            json!({"deviceID": "0000:af:00.2", "HostIFGUID": "02:00"}),
            json!({"deviceID": "0000:af:00.2", "RdmaNetState": 7}),
        ] {
            assert!(saved(&malformed).is_err(), "{malformed}");
        }
    }
}
