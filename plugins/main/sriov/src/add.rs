//! ADD: claims the VF, configures it, moves it to the pod, and sets its addresses.

use cni::{AddRequest, AddResult, Error as CniError};
use exclusive_rdma::{ExclusiveRdmaRequirement, MovedDevice};
use journal::Journal;
use plugin_runtime::{
    Error, Node, PodNetns,
    attachment::{self, JournalSpec},
    delegate, retry_while_busy,
};
use rtnl::{Link, VfSettings};
use tracing::warn;
use vf::{
    Change, HostFunction, HostVf, LinkMove, SavedAdminMac, VfAdd, VfConfigured, gratuitous_arp, set_mac,
};

use crate::{
    conf::{NAME, SriovConf},
    go_plugin,
    vf_settings::wanted_settings,
};

/// Moves a VF or scalable function to a pod and returns the CNI result.
pub(crate) fn add(node: &Node, request: &AddRequest<'_>) -> Result<AddResult, CniError> {
    let conf = SriovConf::of(&request.common)?;
    let pod = PodNetns::open(&request.netns, request.own_netns_allowed)?;
    HostFunction::exists(node, &conf.device)?;
    if conf.isolation.is_some() {
        exclusive_rdma::require_exclusive_mode(node)?;
    }

    let journal = attachment::begin(node, &JournalSpec::of(NAME, request, &pod))?;
    let vf = VfAdd { plugin: NAME, request, node, pod: &pod, function: &conf.device };
    let addition = PreparedVfAdd { vf, conf: &conf, request, node, pod: &pod };
    attachment::run_or_revert(journal, node, |journal| addition.attach(journal))
}

/// An ADD whose preconditions were checked.
struct PreparedVfAdd<'a, 'r> {
    vf: VfAdd<'a, 'r>,
    request: &'a AddRequest<'r>,
    conf: &'a SriovConf,
    node: &'a Node,
    pod: &'a PodNetns,
}

impl PreparedVfAdd<'_, '_> {
    fn attach(&self, journal: &mut Journal<Change>) -> Result<AddResult, Error> {
        self.vf.claim(journal)?;
        if let Some(vf) = self.conf.device.pci() {
            go_plugin::release_go_allocation(self.node, vf, &self.request.attachment)?;
        }
        self.pod.require_name_free(&self.request.attachment.ifname)?;
        let mut function = HostFunction::find(self.node, &self.conf.device)?;
        if let HostFunction::Vf(vf) = &mut function
            && !wanted_settings(&VfSettings::default(), self.conf).is_empty()
        {
            vf.require_settings(self.node)?;
        }
        // A VF in user space has no link that a dhcp client could need.
        let link_first = function.link().is_some() && delegate::needs_link(&self.request.common)?;
        let early = if link_first { None } else { Some(self.vf.addresses(journal)?) };
        let link = self.configure_and_move(journal, &function)?;
        let mut result = match early {
            Some(result) => result,
            None => self.vf.addresses(journal)?,
        };
        self.complete(&function, link.as_ref(), &mut result);
        if let Some(link) = &link {
            self.conf.routing.configure(journal, self.request, self.pod, link, &mut result)?;
        }
        let moved = self.conf.isolation.map(|need| self.isolate(journal, need, &result)).transpose()?;
        self.publish(journal, &function, &result, moved.as_deref().unwrap_or_default())?;
        if let Some(link) = &link {
            // Last, because it waits for the link's carrier, which comes up in the meantime.
            journal.time("announce", || gratuitous_arp::announce(self.pod, link, &result))?;
        }
        Ok(result)
    }

    /// Configures the function and moves its link; without a link it is only configured.
    fn configure_and_move(
        &self,
        journal: &mut Journal<Change>,
        function: &HostFunction,
    ) -> Result<Option<Link>, Error> {
        let link = function.link();
        if let HostFunction::Vf(vf) = function {
            self.record_admin_mac(journal, vf)?;
        }
        let link_move = link
            .map(|link| LinkMove::of(self.request, self.node, self.pod, &self.conf.device, link))
            .transpose()?;
        if let Some(link_move) = &link_move {
            journal.record(Change::Move(link_move.clone()))?;
        }
        if let (Some(link), Some(mac)) = (link, self.conf.mac) {
            // Some drivers accept the address only while no administrative one is set, others only after.
            let _ = self.node.links()?.set_mac(link.index, mac);
        }
        if let HostFunction::Vf(vf) = function {
            self.configure(journal, vf)?;
        }
        let (Some(link_move), Some(link)) = (link_move, link) else { return Ok(None) };
        let link = journal.time("move", || link_move.move_to_pod(self.node, self.pod, link))?;
        if let Some(arrived) = link_move.with_actual_index(&link) {
            journal.record(Change::Move(arrived))?;
        }
        self.use_optimistic_dad()?;
        self.set_link(&function.pf().link, link).map(Some)
    }

    /// Records the administrative MAC address of a VF, if it will be changed.
    fn record_admin_mac(&self, journal: &mut Journal<Change>, vf: &HostVf) -> Result<(), Error> {
        let former = SavedAdminMac::of(&self.request.attachment, vf).filter(|_| self.conf.mac.is_some());
        if let Some(former) = former {
            journal.record(Change::Mac(former))?;
        }
        Ok(())
    }

    /// Configures a VF through its PF.
    fn configure(&self, journal: &mut Journal<Change>, vf: &HostVf) -> Result<(), Error> {
        let wanted = wanted_settings(&vf.settings.clone().unwrap_or_default(), self.conf);
        let settings = VfConfigured::of(&self.request.attachment, vf, wanted);
        journal.record_and_apply(Change::Configured(settings.clone()), |_| settings.apply(self.node, &vf.pf))
    }

    /// Lets the pod use an IPv6 address before duplicate address detection has ended, as the Go plugin does. It takes effect
    /// for addresses that are added later. A kernel without IPv6, or without that option, does not have the sysctl.
    fn use_optimistic_dad(&self) -> Result<(), Error> {
        let sysctl = format!("net/ipv6/conf/{}/optimistic_dad", self.request.attachment.ifname);
        let _ = self.pod.write_sysctls(&[(sysctl, "1")])?;
        Ok(())
    }

    /// Sets the link's MTU and MAC address as configured, and returns the link with its new attributes.
    fn set_link(&self, pf: &Link, link: Link) -> Result<Link, Error> {
        let (links, index) = (&self.pod.links, link.index);
        let (mtu, mac) = (mtu(self.conf.mtu, pf).unwrap_or(link.mtu), self.conf.mac.or(link.mac));
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

    /// Moves the function's RDMA devices to the pod.
    fn isolate(
        &self,
        journal: &mut Journal<Change>,
        need: ExclusiveRdmaRequirement,
        result: &AddResult,
    ) -> Result<Vec<MovedDevice>, Error> {
        let (request, node, pod, function) = (self.request, self.node, &self.pod.netns, &self.conf.device);
        let addition = exclusive_rdma::RdmaAdd { request, node, pod, function, moves_ipoib: false };
        let moved = addition.attach(journal)?;
        let addresses: Vec<_> = result.ips.iter().map(|ip| ip.address.ip()).collect();
        addition.wait_until_ready(need, &moved, &addresses)?;
        Ok(moved)
    }

    /// Adds the interface to the result.
    fn complete(&self, function: &HostFunction, link: Option<&Link>, result: &mut AddResult) {
        let mac = self.conf.mac.or(function.admin_mac()).map(|mac| mac.to_string());
        self.vf.complete(link, mac, Some(function.pf().link.mtu), result);
    }

    fn publish(
        &self,
        journal: &mut Journal<Change>,
        function: &HostFunction,
        result: &AddResult,
        moved: &[MovedDevice],
    ) -> Result<(), Error> {
        let mut entry = self.vf.entry(function.rdma_info(), result)?;
        entry.network.vlan = self.conf.vlan.map(|tag| tag.id.get()).filter(|id| *id != 0);
        if let Some(device) = moved.first() {
            device.fill(&mut entry.rdma);
        }
        let names: Vec<_> = moved.iter().map(|device| device.name().to_owned()).collect();
        if let HostFunction::Vf(vf) = function {
            self.vf.write_device_info(journal, self.conf.device_info.as_deref(), vf, &names)?;
        }
        self.vf.publish(journal, &entry)
    }
}

/// Returns the MTU to set. The Go plugin ignores `mtu`, so a value above the PF's must not make the ADD fail.
fn mtu(wanted: Option<u32>, pf: &Link) -> Option<u32> {
    let (limit, wanted) = (pf.mtu, wanted?);
    if wanted > limit {
        warn!(mtu = wanted, pf = %pf.name, limit, "mtu is above that of the PF: the link keeps its own");
    }
    Some(wanted).filter(|mtu| *mtu <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_above_that_of_the_pf_is_not_set() {
        let loopback = rtnl::Handle::open().unwrap().link_by_index(1).unwrap();
        let pf = Link { mtu: 9000, ..loopback };
        for (wanted, expected) in
            [(None, None), (Some(1500), Some(1500)), (Some(9000), Some(9000)), (Some(9001), None)]
        {
            assert_eq!(mtu(wanted, &pf), expected, "{wanted:?}");
        }
    }
}
