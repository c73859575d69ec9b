//! RDMA devices that the Go plugin gave to pods before this one took its place.
//!
//! It noted them in `rdma/<network>-<container>-<ifname>`.

use cni::{ConfObject, DelRequest, Error as CniError};
use exclusive_rdma::{DeviceMove, RdmaChange};
use identifiers::Attachment;
use plugin_runtime::{Error, Node, attachment};
use state::claim::{self, ClaimKind};
use sysfs::Function;
use tracing::info;

use crate::NAME;

/// The version of its files that the Go plugin has written so far.
const VERSION: &str = "1.0";

/// Takes back what the Go plugin noted of an attachment, if it noted any.
///
/// # Errors
/// What is left; the Go plugin's file then stays for the next DEL.
pub(crate) fn revert_go_attachment(request: &DelRequest<'_>, node: &Node) -> Result<(), Error> {
    let Attachment { container_id, ifname } = &request.attachment;
    let name = format!("{}-{container_id}-{ifname}", request.common.conf.name);
    let Some(file) = node.go_state.find(NAME, &name, node.go_file_lock().at())? else { return Ok(()) };
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
        info!(%function, "the RDMA device is another pod's by now and is left alone");
        return Ok(file.remove()?);
    }
    let change = noted.change(request, node);
    attachment::revert_all(node, &[change])?;
    info!(%device, %function, "took back what the Go plugin had moved");
    Ok(file.remove()?)
}

/// What the Go plugin noted of an attachment.
#[derive(Debug, PartialEq, Eq)]
pub struct GoRdmaState {
    function: Function,
    device: String,
}

impl GoRdmaState {
    /// Reads what its file says.
    ///
    /// # Errors
    /// What cannot be understood of it.
    pub fn of(fields: &ConfObject<'_>) -> Result<Self, CniError> {
        let text = |key: &str| fields.text(key)?.ok_or_else(|| fields.wrong(key, "a text", "none"));
        let version = text("version")?;
        if version != VERSION {
            return Err(fields.wrong("version", VERSION, version));
        }
        let function = text("deviceID")?;
        Ok(Self {
            function: function
                .parse()
                .map_err(|e| fields.wrong("deviceID", "a PCI or auxiliary device", e))?,
            device: text("containerRdmaDevName")?.to_owned(),
        })
    }

    /// What the Go plugin did, as a change of ours. Where the runtime does not name the pod any more, the Go
    /// sriov plugin of the same chain has noted it.
    fn change(&self, request: &DelRequest<'_>, node: &Node) -> RdmaChange {
        let allocation = match &self.function {
            Function::Pci(vf) if request.netns.is_none() => node.go_state.allocation(*vf),
            _ => None,
        };
        let path = request.netns.as_deref().or_else(|| Some(allocation.as_ref()?.netns()));
        // Not held open any longer than this: the pod may be about to end.
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
    fn a_file_is_understood() {
        let file = json!({
            "version": "1.0", "deviceID": "0000:af:00.3",
            "sandboxRdmaDevName": "mlx5_4", "containerRdmaDevName": "mlx5_4"
        });
        let function = "0000:af:00.3".parse().unwrap();
        assert_eq!(noted(&file).unwrap(), GoRdmaState { function, device: "mlx5_4".into() });
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for strange in [
            json!({}),
            json!({"version": "2.0", "deviceID": "0000:af:00.3", "containerRdmaDevName": "mlx5_4"}),
            json!({"version": "1.0", "deviceID": "../../etc", "containerRdmaDevName": "mlx5_4"}),
            json!({"version": "1.0", "deviceID": "0000:af:00.3", "containerRdmaDevName": 4}),
            json!({"version": "1.0", "deviceID": "0000:af:00.3"}),
        ] {
            assert!(noted(&strange).is_err(), "{strange}");
        }
    }
}
