//! ADD: claims the VF, gives it its GUIDs, moves its RDMA device and its IPoIB link to the pod, and sets its addresses.

use cni::{AddRequest, AddResult, Error as CniError};
use exclusive_rdma::{ExclusiveRdmaRequirement, MovedDevice, RdmaAdd};
use journal::Journal;
use plugin_runtime::{
    Error, Node, PodNetns,
    attachment::{self, JournalSpec},
};
use rtnl::{Link, LinkLayer, VfSetting};
use sysfs::Function;
use vf::{
    Change, HostVf, LinkMove, VfAdd, VfConfigured, VfGuids, effective_port_guid, gratuitous_arp,
    wait_for_link,
};

use crate::{
    conf::{IbSriovConf, NAME},
    error::IbSriovError,
    go_plugin,
    passthrough::{self, Passthrough},
};

/// Moves a VF to a pod and returns the CNI result.
pub(crate) fn add(node: &Node, request: &AddRequest<'_>) -> Result<AddResult, CniError> {
    let conf = IbSriovConf::of(&request.common)?;
    let pod = PodNetns::open(&request.netns, request.own_netns_allowed)?;
    let passthrough = passthrough::of(node, &conf)?;
    if passthrough != Passthrough::No || request.common.conf.ipam_type()?.is_none() {
        request.common.conf.require_results_without_addresses()?;
    }
    if conf.isolation.is_some() {
        exclusive_rdma::require_exclusive_mode(node)?;
    }

    let journal = attachment::begin(node, &JournalSpec::of(NAME, request, &pod))?;
    let function = &Function::Pci(conf.device);
    let vf = VfAdd { plugin: NAME, request, node, pod: &pod, function };
    let addition = PreparedIbAdd { vf, conf: &conf, request, node, pod: &pod };
    attachment::run_or_revert(journal, node, |journal| match passthrough {
        Passthrough::Pf => addition.attach_pf(journal),
        Passthrough::No | Passthrough::Vf => addition.attach(journal),
    })
}

/// An ADD whose preconditions were checked.
struct PreparedIbAdd<'a, 'r> {
    vf: VfAdd<'a, 'r>,
    request: &'a AddRequest<'r>,
    conf: &'a IbSriovConf,
    node: &'a Node,
    pod: &'a PodNetns,
}

impl PreparedIbAdd<'_, '_> {
    /// A PF that is passed to a VM has nothing to configure.
    fn attach_pf(&self, journal: &mut Journal<Change>) -> Result<AddResult, Error> {
        self.vf.claim(journal)?;
        let mut result = AddResult::default();
        self.vf.complete(None, None, None, &mut result);
        Ok(result)
    }

    fn attach(&self, journal: &mut Journal<Change>) -> Result<AddResult, Error> {
        self.vf.claim(journal)?;
        go_plugin::release_stale_state(self.node, self.conf.device, &self.request.attachment)?;
        self.pod.require_name_free(&self.request.attachment.ifname)?;
        let mut vf = HostVf::find(self.node, self.conf.device, LinkLayer::InfiniBand)?;
        if self.conf.guid.is_some() || self.conf.link_state.is_some() {
            vf.require_settings(self.node)?;
        }
        self.require_guid(&vf)?;
        // A VF in user space has no link for addresses.
        let mut result = if vf.link.is_some() { self.vf.addresses(journal)? } else { AddResult::default() };
        let link_move = self.record_move(journal, &vf)?;
        self.configure(journal, &vf)?;
        // A VF in user space has no RDMA device.
        let isolation = self.conf.isolation.filter(|_| vf.link.is_some());
        let moved = isolation.map(|need| self.isolate(journal, need)).transpose()?;
        let link = link_move.map(|it| self.move_link(journal, &vf, &it)).transpose()?;
        self.vf.complete(link.as_ref(), None, Some(vf.pf.link.mtu), &mut result);
        if let Some(link) = &link {
            self.conf.routing.configure(journal, self.request, self.pod, link, &mut result)?;
        }
        self.publish(journal, &vf, &result, moved.as_deref().unwrap_or_default())?;
        if let Some(link) = &link {
            // Last, because it waits for the link's carrier, which comes up in the meantime.
            journal.time("announce", || gratuitous_arp::announce(self.pod, link, &result))?;
        }
        Ok(result)
    }

    fn require_guid(&self, vf: &HostVf) -> Result<(), Error> {
        if self.conf.guid.is_some() {
            return Ok(());
        }
        if self.conf.needs_guid {
            return Err(IbSriovError::NoConfiguredGuid(vf.pci).into());
        }
        let is = effective_port_guid(vf);
        // The PF's driver may know only the GUIDs that were set since it was loaded.
        if is.is_assigned() || vf.link.is_none() {
            Ok(())
        } else {
            Err(IbSriovError::NoGuid { vf: vf.pci, is }.into())
        }
    }

    /// Records the move of the VF's link, which is made last.
    fn record_move(&self, journal: &mut Journal<Change>, vf: &HostVf) -> Result<Option<LinkMove>, Error> {
        let Some(link) = &vf.link else { return Ok(None) };
        let link_move = LinkMove::of(self.request, self.node, self.pod, self.vf.function, link)?;
        journal.record(Change::Move(link_move.clone()))?;
        Ok(Some(link_move))
    }

    /// Sets the VF's link state and GUIDs, as configured.
    fn configure(&self, journal: &mut Journal<Change>, vf: &HostVf) -> Result<(), Error> {
        let (owner, node) = (&self.request.attachment, self.node);
        let former =
            VfSetting::LinkState(vf.settings.as_ref().and_then(|now| now.link_state).unwrap_or_default());
        let wanted = self.conf.link_state.map(|state| (VfSetting::LinkState(state), former));
        let settings = VfConfigured::of(owner, vf, wanted.into_iter().collect());
        journal.record_and_apply(Change::Configured(settings.clone()), |_| settings.apply(node, &vf.pf))?;
        let Some(guid) = self.conf.guid else { return Ok(()) };
        let Some(guids) = VfGuids::of(owner, node, vf, guid)? else { return Ok(()) };
        journal.record_and_apply(Change::Guids(guids.clone()), |_| guids.apply(node, &vf.pf))
    }

    /// Moves the VF's RDMA device to the pod. The kernel then creates another IPoIB link.
    fn isolate(
        &self,
        journal: &mut Journal<Change>,
        need: ExclusiveRdmaRequirement,
    ) -> Result<Vec<MovedDevice>, Error> {
        let (request, node, pod, function) = (self.request, self.node, &self.pod.netns, self.vf.function);
        let addition = RdmaAdd { request, node, pod, function, moves_ipoib: true };
        let moved = addition.attach(journal)?;
        // The GIDs of an InfiniBand port are its own: no address becomes one.
        addition.wait_until_ready(need, &moved, &[])?;
        Ok(moved)
    }

    /// Moves the link that the VF has now to the pod, unless the kernel has created it there.
    fn move_link(
        &self,
        journal: &mut Journal<Change>,
        vf: &HostVf,
        link_move: &LinkMove,
    ) -> Result<Link, Error> {
        let driver = self.node.sysfs.driver(self.vf.function)?.unwrap_or_else(|| "no driver".into());
        let link = match self.link_in_pod(vf)? {
            Some(link) => link_move.rename_in_pod(self.pod, &link)?,
            None => {
                let link = wait_for_link(self.node, vf.pci, "its RDMA device has moved", &driver)?;
                journal.time("move", || link_move.move_to_pod(self.node, self.pod, &link))?
            }
        };
        if let Some(arrived) = link_move.with_actual_index(&link) {
            journal.record(Change::Move(arrived))?;
        }
        Ok(link)
    }

    /// Returns the link that the kernel created in the pod when the RDMA device had moved there.
    ///
    /// # Kernel
    /// An IPoIB link is created in the namespace of its RDMA device since Linux 6.17 (`ipoib_add_port`), before that in the
    /// initial one. In both cases it exists when the request that moves the device ends.
    fn link_in_pod(&self, vf: &HostVf) -> Result<Option<Link>, Error> {
        if self.conf.isolation.is_none() {
            return Ok(None);
        }
        let device = vf.pci.to_string();
        let is_it = |link: &Link| link.is_ipoib_port() && link.device.as_ref() == Some(&device);
        Ok(self.pod.links.links()?.into_iter().find(is_it))
    }

    fn publish(
        &self,
        journal: &mut Journal<Change>,
        vf: &HostVf,
        result: &AddResult,
        moved: &[MovedDevice],
    ) -> Result<(), Error> {
        let mut entry = self.vf.entry(vf.rdma_info(), result)?;
        if let Some(device) = moved.first() {
            device.fill(&mut entry.rdma);
        }
        let names: Vec<_> = moved.iter().map(|device| device.name().to_owned()).collect();
        self.vf.write_device_info(journal, self.conf.device_info.as_deref(), vf, &names)?;
        self.vf.publish(journal, &entry)
    }
}
