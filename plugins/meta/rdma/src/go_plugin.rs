//! RDMA devices that the Go plugin (rdma-cni) moved to pods before this one replaced it.
//!
//! It recorded them in `rdma/<network>-<container>-<ifname>`.

use cni::{ConfObject, DelRequest, Error as CniError};
use exclusive_rdma::{DeviceMove, PLUGIN, RdmaChange};
use identifiers::Attachment;
use plugin_runtime::{Error, Node, attachment};
use state::claim::{self, ClaimKind};
use sysfs::Function;
use tracing::info;

/// The `version` of the Go plugin's files.
const VERSION: &str = "1.0";

/// Reverts an attachment of the Go plugin, if the Go plugin has a file of it.
///
/// # Errors
/// The changes that could not be reverted; the Go plugin's file is then kept for the next DEL.
pub(crate) fn revert_go_attachment(request: &DelRequest<'_>, node: &Node) -> Result<(), Error> {
    let Attachment { container_id, ifname } = &request.attachment;
    let name = format!("{}-{container_id}-{ifname}", request.common.conf.name);
    let Some(file) = node.go_state.find(PLUGIN, &name, node.go_file_lock().at())? else { return Ok(()) };
    let noted = GoRdmaState::of(&file.fields()).inspect_err(|why| file.warn_and_keep(why));
    let Ok(noted) = noted else { return Ok(()) };
    let GoRdmaState { function, device } = &noted;
    if file.is_outdated()
        || claim::is_claimed_by_other(
            &node.state,
            node.claims_lock().at(),
            ClaimKind::Rdma,
            function,
            &request.attachment,
        )?
    {
        info!(%function, "the RDMA device belongs to another pod now: not changing it");
        return Ok(file.remove()?);
    }
    let change = noted.change(request, node);
    attachment::revert_all(node, &[change])?;
    info!(%device, %function, "reverted an attachment of the Go plugin");
    Ok(file.remove()?)
}

/// The state that the Go plugin saved of an attachment.
#[derive(Debug, PartialEq, Eq)]
pub struct GoRdmaState {
    function: Function,
    device: String,
}

impl GoRdmaState {
    /// Reads the content of a file of the Go plugin.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn of(fields: &ConfObject<'_>) -> Result<Self, CniError> {
        let text = |key: &str| fields.text(key)?.ok_or_else(|| fields.invalid(key, "a text", "none"));
        let version = text("version")?;
        if version != VERSION {
            return Err(fields.invalid("version", VERSION, version));
        }
        let function = text("deviceID")?;
        Ok(Self {
            function: function
                .parse()
                .map_err(|e| fields.invalid("deviceID", "a PCI or auxiliary device", e))?,
            device: text("containerRdmaDevName")?.to_owned(),
        })
    }

    /// Returns the change of the Go plugin. If the runtime does not pass `CNI_NETNS`, the namespace is that of the Go
    /// sriov plugin's allocation.
    fn change(&self, request: &DelRequest<'_>, node: &Node) -> RdmaChange {
        let allocation = match &self.function {
            Function::Pci(vf) if request.netns.is_none() => node.go_state.allocation(*vf),
            _ => None,
        };
        let path = request.netns.as_deref().or_else(|| Some(allocation.as_ref()?.netns()));
        // Held open only for this call: the namespace may be about to end.
        let pod = path.and_then(go_plugins::open_if_alive);
        RdmaChange::Move(DeviceMove::from_go_state(
            &request.attachment,
            &self.function,
            &self.device,
            pod.as_ref(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn noted(file: &Value) -> Result<GoRdmaState, CniError> {
        GoRdmaState::of(&ConfObject::new(file.as_object().unwrap(), ""))
    }

    #[test]
    fn a_file_of_the_go_plugin_is_read() {
        let file = json!({
            "version": "1.0", "deviceID": "0000:af:00.3",
            "sandboxRdmaDevName": "mlx5_9", "containerRdmaDevName": "mlx5_4"
        });
        let function = "0000:af:00.3".parse().unwrap();
        assert_eq!(noted(&file).unwrap(), GoRdmaState { function, device: "mlx5_4".into() });
    }

    #[test]
    fn a_malformed_file_is_refused() {
        for malformed in [
            json!({}),
            json!({"version": "2.0", "deviceID": "0000:af:00.3", "containerRdmaDevName": "mlx5_4"}),
            json!({"version": "1.0", "deviceID": "../../etc", "containerRdmaDevName": "mlx5_4"}),
            json!({"version": "1.0", "deviceID": "0000:af:00.3", "containerRdmaDevName": 4}),
            json!({"version": "1.0", "deviceID": "0000:af:00.3"}),
        ] {
            assert!(noted(&malformed).is_err(), "{malformed}");
        }
    }
}
