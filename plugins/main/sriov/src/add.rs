//! ADD: claims the VF, configures it, moves it to the pod, and sets its addresses.

use cni::{AddRequest, AddResult, Error as CniError, ResultInterface};
use exclusive_rdma::{ExclusiveRdmaRequirement, MovedDevice};
use identifiers::MacAddr;
use journal::Journal;
use plugin_runtime::{
    Error, Node, PodNetns,
    attachment::{self, JournalSpec},
    delegate::{self, DelegateAdd},
    interface,
    pod_map_entry::{self, PodMapWrite},
    retry_while_busy,
};
use podmap::RdmaInfo;
use rtnl::Link;
use state::claim::{ClaimKind, DeviceClaim};
use sysfs::Function;
use tracing::info;

use crate::{
    admin_mac::SavedAdminMac,
    change::Change,
    conf::{NAME, SriovConf},
    go_plugin, gratuitous_arp,
    host_link_state::set_mac,
    link_move::LinkMove,
    vf::HostVf,
    vf_settings::VfConfigured,
};

/// Moves a VF to a pod and returns the CNI result.
pub(crate) fn add(node: &Node, request: &AddRequest<'_>) -> Result<AddResult, CniError> {
    let conf = SriovConf::of(&request.common)?;
    let pod = PodNetns::open(&request.netns, request.own_netns_allowed)?;
    HostVf::exists(node, conf.device)?;
    if conf.isolation.is_some() {
        exclusive_rdma::require_exclusive_mode(node)?;
    }

    let journal = attachment::begin(node, &JournalSpec::of(NAME, request, &pod))?;
    let addition = PreparedVfAdd { request, conf: &conf, node, pod: &pod };
    attachment::run_or_revert(journal, node, |journal| addition.attach(journal))
}

/// An ADD whose preconditions were checked.
struct PreparedVfAdd<'a, 'r> {
    request: &'a AddRequest<'r>,
    conf: &'a SriovConf,
    node: &'a Node,
    pod: &'a PodNetns,
}

impl PreparedVfAdd<'_, '_> {
    fn attach(&self, journal: &mut Journal<Change>) -> Result<AddResult, Error> {
        self.claim(journal)?;
        go_plugin::release_go_allocation(self.node, self.conf.device, &self.request.attachment)?;
        self.pod.require_name_free(&self.request.attachment.ifname)?;
        let vf = HostVf::find(self.node, self.conf.device)?;
        self.require_mtu_fits(&vf)?;
        // A VF in user space has no link that a dhcp client could need.
        let link_first = vf.link.is_some() && delegate::needs_link(&self.request.common)?;
        let early = if link_first { None } else { Some(self.addresses(journal)?) };
        let link = self.configure_and_move(journal, &vf)?;
        let mut result = match early {
            Some(result) => result,
            None => self.addresses(journal)?,
        };
        self.complete(&vf, link.as_ref(), &mut result);
        if let Some(link) = &link {
            interface::configure(self.pod, link, &mut result)?;
        }
        let moved = self.conf.isolation.map(|need| self.isolate(journal, need, &result)).transpose()?;
        self.publish(journal, &vf, &result, moved.as_deref().unwrap_or_default())?;
        if let Some(link) = &link {
            // Last, because it waits for the link's carrier, which comes up in the meantime.
            gratuitous_arp::announce(self.pod, link, &result)?;
        }
        info!(vf = %vf.pci, pf = %vf.pf.link.name, "attached");
        Ok(result)
    }

    fn claim(&self, journal: &mut Journal<Change>) -> Result<(), Error> {
        let AddRequest { attachment, netns, .. } = self.request;
        let vf = Function::Pci(self.conf.device);
        let claim = DeviceClaim::of(ClaimKind::Vf, vf, attachment, netns.clone(), self.pod.id())?;
        journal.record_and_apply(Change::Claim(claim.clone()), |_| {
            let node = self.node;
            let deadline = || node.claims_lock();
            claim.acquire(&node.state, &deadline, |former| attachment::revert::<Change>(node, NAME, former))
        })
    }

    fn require_mtu_fits(&self, vf: &HostVf) -> Result<(), Error> {
        let highest = vf.pf.link.mtu;
        match self.conf.mtu {
            Some(mtu) if mtu > highest => {
                let msg = format!("invalid MTU {mtu}, must be [0, PF MTU({highest})]");
                Err(CniError::config(msg)
                    .with_details(format!("PF {} limits its VFs", vf.pf.link.name))
                    .into())
            }
            _ => Ok(()),
        }
    }

    fn addresses(&self, journal: &mut Journal<Change>) -> Result<AddResult, Error> {
        match DelegateAdd::of(self.request)? {
            Some(call) => journal
                .record_and_apply(Change::Delegated(call), |_| Ok(delegate::add(self.request, self.node)?)),
            None => Ok(AddResult::default()),
        }
    }

    /// Configures the VF and moves its link; without a link it is only configured.
    fn configure_and_move(&self, journal: &mut Journal<Change>, vf: &HostVf) -> Result<Option<Link>, Error> {
        let owner = &self.request.attachment;
        if let Some(former) = SavedAdminMac::of(owner, vf).filter(|_| self.conf.mac.is_some()) {
            journal.record(Change::Mac(former))?;
        }
        let link_move = vf
            .link
            .as_ref()
            .map(|link| LinkMove::of(self.request, self.node, self.pod, vf.pci, link))
            .transpose()?;
        if let Some(link_move) = &link_move {
            journal.record(Change::Move(link_move.clone()))?;
        }
        if let (Some(link), Some(mac)) = (&vf.link, self.conf.mac) {
            // Some drivers accept the address only while no administrative one is set, others only after.
            let _ = self.node.links()?.set_mac(link.index, mac);
        }
        let settings = VfConfigured::of(owner, vf, self.conf);
        journal
            .record_and_apply(Change::Configured(settings.clone()), |_| settings.apply(self.node, &vf.pf))?;
        let (Some(link_move), Some(link)) = (link_move, &vf.link) else { return Ok(None) };
        let link = link_move.move_to_pod(self.node, self.pod, link)?;
        if let Some(arrived) = link_move.with_actual_index(&link) {
            journal.record(Change::Move(arrived))?;
        }
        self.set_link(link).map(Some)
    }

    /// Sets the link's MTU and MAC address as configured, and returns the link with its new attributes.
    fn set_link(&self, link: Link) -> Result<Link, Error> {
        let (links, index) = (&self.pod.links, link.index);
        let (mtu, mac) = (self.conf.mtu.unwrap_or(link.mtu), self.conf.mac.or(link.mac));
        if (mtu, mac) == (link.mtu, link.mac) {
            return Ok(link);
        }
        if mtu != link.mtu {
            retry_while_busy(|| links.set_mtu(index, mtu))?;
        }
        if let Some(mac) = self.conf.mac {
            set_mac(links, index, mac)?;
        }
        Ok(links.link_by_index(index)?)
    }

    /// Moves the VF's RDMA devices to the pod.
    fn isolate(
        &self,
        journal: &mut Journal<Change>,
        need: ExclusiveRdmaRequirement,
        result: &AddResult,
    ) -> Result<Vec<MovedDevice>, Error> {
        let (request, node, pod, function) =
            (self.request, self.node, &self.pod.netns, &Function::Pci(self.conf.device));
        let addition = exclusive_rdma::RdmaAdd { request, node, pod, function };
        let moved = addition.attach(journal)?;
        let addresses: Vec<_> = result.ips.iter().map(|ip| ip.address.ip()).collect();
        addition.wait_until_ready(need, &moved, &addresses)?;
        Ok(moved)
    }

    /// Adds the interface to the result.
    fn complete(&self, vf: &HostVf, link: Option<&Link>, result: &mut AddResult) {
        let admin = vf.settings.mac.filter(|mac| !mac.is_zero());
        let mac: Option<MacAddr> = link.map_or(self.conf.mac.or(admin), |link| link.mac);
        result.interfaces = vec![ResultInterface {
            name: self.request.attachment.ifname.to_string(),
            mac: mac.map(|mac| mac.to_string()),
            mtu: Some(link.map_or(vf.pf.link.mtu, |link| link.mtu)),
            sandbox: Some(self.request.netns.display().to_string()),
            pci_id: Some(vf.pci.to_string()),
            ..ResultInterface::default()
        }];
        for ip in &mut result.ips {
            ip.interface = Some(0);
        }
    }

    fn publish(
        &self,
        journal: &mut Journal<Change>,
        vf: &HostVf,
        result: &AddResult,
        moved: &[MovedDevice],
    ) -> Result<(), Error> {
        let mut entry = pod_map_entry::new_entry(NAME, self.request, self.pod, result)?;
        entry.network.vlan = self.conf.vlan.map(|tag| tag.id.get()).filter(|id| *id != 0);
        entry.rdma = RdmaInfo {
            pci: Some(vf.pci),
            pf_pci: Some(vf.pf.pci),
            vf_index: Some(vf.index.0),
            host_netdev: vf.link.as_ref().map(|link| link.name.clone()),
            master: Some(vf.pf.link.name.clone()),
            ..RdmaInfo::default()
        };
        if let Some(device) = moved.first() {
            device.fill(&mut entry.rdma);
        }
        let change = PodMapWrite::of(&self.request.attachment);
        journal.record_and_apply(Change::Published(change.clone()), |_| change.publish(self.node, &entry))
    }
}
