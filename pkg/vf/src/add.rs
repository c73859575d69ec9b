//! The steps of an ADD that sriov and ib-sriov have in common.

use std::path::Path;

use cni::{AddRequest, AddResult, ResultInterface};
use journal::Journal;
use plugin_runtime::{
    Error, Node, PodNetns,
    attachment::{self, NodeChange},
    delegate::{self, DelegateAdd},
    pod_map_entry::{self, PodMapWrite},
};
use podmap::{Entry, RdmaInfo};
use rtnl::Link;
use state::claim::{ClaimKind, DeviceClaim};
use sysfs::Function;

use crate::{DeviceInfoWrite, HostVf};

/// An ADD of a VF, whose preconditions were checked.
#[derive(Debug, Clone, Copy)]
pub struct VfAdd<'a, 'r> {
    /// The name of the plugin.
    pub plugin: &'static str,
    /// The CNI request.
    pub request: &'a AddRequest<'r>,
    /// The host side of the call.
    pub node: &'a Node,
    /// The pod's network namespace.
    pub pod: &'a PodNetns,
    /// The VF or scalable function.
    pub function: &'a Function,
}

impl VfAdd<'_, '_> {
    /// Claims the VF. The attachment that had it before is reverted first, if its pod is gone.
    ///
    /// # Errors
    /// If an attachment of a living pod has it.
    pub fn claim<C: NodeChange + From<DeviceClaim>>(&self, journal: &mut Journal<C>) -> Result<(), Error> {
        let AddRequest { attachment, netns, .. } = self.request;
        let function = self.function.clone();
        let claim = DeviceClaim::of(ClaimKind::Vf, function, attachment, netns.clone(), self.pod.id())?;
        journal.record_and_apply(claim.clone().into(), |_| {
            let node = self.node;
            let deadline = || node.claims_lock();
            claim.acquire(&node.state, &deadline, |former| attachment::revert::<C>(node, self.plugin, former))
        })
    }

    /// Calls the IPAM plugin, if there is one. Returns its result.
    ///
    /// # Errors
    /// The IPAM plugin's error.
    pub fn addresses<C: NodeChange + From<DelegateAdd>>(
        &self,
        journal: &mut Journal<C>,
    ) -> Result<AddResult, Error> {
        match DelegateAdd::of(self.request)? {
            Some(call) => {
                journal.record_and_apply(call.into(), |_| Ok(delegate::add(self.request, self.node)?))
            }
            None => Ok(AddResult::default()),
        }
    }

    /// Adds the interface to the result. `mac` and `mtu` are those of a VF without a link.
    pub fn complete(
        &self,
        link: Option<&Link>,
        mac: Option<String>,
        mtu: Option<u32>,
        result: &mut AddResult,
    ) {
        let address = link.map(|link| &link.address).filter(|address| !address.is_empty());
        result.interfaces = vec![ResultInterface {
            name: self.request.attachment.ifname.to_string(),
            mac: address.map(ToString::to_string).or(mac),
            mtu: link.map(|link| link.mtu).or(mtu),
            sandbox: Some(self.request.netns.display().to_string()),
            pci_id: self.function.pci().map(|pci| pci.to_string()),
            ..ResultInterface::default()
        }];
        for ip in &mut result.ips {
            ip.interface = Some(0);
        }
    }

    /// Writes the device information file at `path`, if the network requests one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_device_info<C: NodeChange + From<DeviceInfoWrite>>(
        &self,
        journal: &mut Journal<C>,
        path: Option<&Path>,
        vf: &HostVf,
        moved: &[String],
    ) -> Result<(), Error> {
        let Some(path) = path else { return Ok(()) };
        // A device that has moved to the pod is not visible on the host.
        let names = if moved.is_empty() {
            self.node.sysfs.rdma_devices(self.function).unwrap_or_default()
        } else {
            moved.to_vec()
        };
        match DeviceInfoWrite::of(path, vf.pci, vf.pf.pci, &names)? {
            Some(change) => journal.record_and_apply(change.clone().into(), |_| change.apply()),
            None => Ok(()),
        }
    }

    /// Returns the entry for the pod map, with the function's part `rdma`.
    ///
    /// # Errors
    /// If the pod's namespace cannot be read.
    pub fn entry(&self, rdma: RdmaInfo, result: &AddResult) -> Result<Entry, Error> {
        let mut entry = pod_map_entry::new_entry(self.plugin, self.request, self.pod, result)?;
        entry.rdma = rdma;
        Ok(entry)
    }

    /// Writes the entry to the pod map.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn publish<C: NodeChange + From<PodMapWrite>>(
        &self,
        journal: &mut Journal<C>,
        entry: &Entry,
    ) -> Result<(), Error> {
        let change = PodMapWrite::of(&self.request.attachment);
        journal.record_and_apply(change.clone().into(), |_| change.publish(self.node, entry))
    }
}
