//! The call of the IPAM plugin, as a change that can be reverted.

use std::{fmt, path::PathBuf};

use cni::{AddRequest, CallContext, CniArgs, DelRequest, NetConf};
use identifiers::Attachment;
use serde::{Deserialize, Serialize};

use crate::{Error, Node};

/// The change that the IPAM plugin assigned addresses.
///
/// It contains the complete call. So the addresses can be released without the runtime's configuration: by GC, or by
/// the next ADD that needs the device.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegateAdd {
    attachment: Attachment,
    netns: PathBuf,
    cni_path: Vec<PathBuf>,
    args: String,
    configuration: String,
}

impl DelegateAdd {
    /// Returns the call that an ADD will make; `None` if its configuration has no IPAM plugin.
    ///
    /// # Errors
    /// If the configuration's `ipam` is invalid, or there is no such plugin: a call that cannot be made must not be in
    /// the journal, because it could not be reverted either.
    pub fn of(request: &AddRequest<'_>) -> Result<Option<Self>, Error> {
        if super::find::executable(&request.common)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            attachment: request.attachment.clone(),
            netns: request.netns.clone(),
            cni_path: request.common.cni_path.clone(),
            args: request.common.args.as_str().to_owned(),
            configuration: String::from_utf8_lossy(request.common.stdin).into_owned(),
        }))
    }

    /// Releases the addresses, by a DEL of the IPAM plugin.
    ///
    /// # Errors
    /// The delegate's error.
    pub fn revert(&self, node: &Node) -> Result<(), Error> {
        let stdin = self.configuration.as_bytes();
        // The directories of the ADD, then those of the current call, because the plugin may have been moved since.
        let mut cni_path = self.cni_path.clone();
        cni_path.extend(node.cni_path.iter().filter(|dir| !self.cni_path.contains(dir)).cloned());
        let common = CallContext {
            conf: NetConf::parse(stdin)?,
            args: CniArgs::parse(&self.args).unwrap_or_else(|_| CniArgs::unread(&self.args)),
            cni_path,
            stdin,
        };
        let request = DelRequest {
            attachment: self.attachment.clone(),
            netns: Some(self.netns.clone()),
            own_netns_allowed: false,
            common,
        };
        Ok(super::calls::del(&request, node)?)
    }
}

impl fmt::Display for DelegateAdd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "addresses of {}", self.attachment)
    }
}
