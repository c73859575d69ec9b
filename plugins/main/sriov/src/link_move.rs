//! A VF's link into the pod and home again, as a change that can be taken back.

use std::{fmt, path::PathBuf, time::Duration};

use cni::AddRequest;
use identifiers::{Attachment, LinkName, PciAddress};
use netns::{NetNs, NetNsId};
use nix::errno::Errno;
use plugin_runtime::{Error, Node, PodNetns, other_netns};
use rtnl::{Handle, Link, indexes_above};
use serde::{Deserialize, Serialize};
use sysfs::Function;

use tracing::warn;

use crate::{
    error::SriovError,
    host_link_state::HostLinkState,
    vf::{host_link, is_claimed_by_other, may_have_link, wait_for_host_link},
};

/// How long DEL waits for a VF to come home from a namespace that died: the kernel does that in the
/// background, in a tenth of a second when it is idle.
const LINK_RETURN_TIMEOUT: Duration = Duration::from_secs(20);

/// Most of them are home by then.
const QUICK_RETURN_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a pod may give its VF new names while it is to go home. As a rule nothing of it runs any more.
const MAX_RENAME_ATTEMPTS: usize = 20;

/// A VF's link was moved into a pod. It is known again by its PCI address, wherever it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkMove {
    owner: Attachment,
    vf: PciAddress,
    ifname: LinkName,
    /// Its index in the pod: its own, if that is above those of the links that were there first. Not known of a pod that
    /// another program attached.
    pod_index: Option<u32>,
    netns: PathBuf,
    /// Absent if that namespace was gone when this was written down.
    netns_id: Option<NetNsId>,
    /// How it was at home.
    home: HostLinkState,
}

impl LinkMove {
    /// The move that an ADD will make.
    ///
    /// # Errors
    /// If the pod's links cannot be looked at.
    pub(crate) fn of(
        request: &AddRequest<'_>,
        node: &Node,
        pod: &PodNetns,
        vf: PciAddress,
        link: &Link,
    ) -> Result<Self, Error> {
        let ifname = request.attachment.ifname.clone();
        let highest = pod.links.links()?.iter().map(|link| link.index).max().unwrap_or_default();
        let own = Some(link.index).filter(|own| *own > highest);
        let home = HostLinkState::of(node, vf, link)?;
        Ok(Self {
            owner: request.attachment.clone(),
            vf,
            ifname,
            pod_index: own.or_else(|| indexes_above(highest).next()),
            netns: request.netns.clone(),
            netns_id: Some(pod.id()),
            home,
        })
    }

    /// The move that another program made, by what it noted.
    pub(crate) fn from_go_state(
        owner: &Attachment,
        vf: PciAddress,
        pod: Option<&NetNs>,
        home: HostLinkState,
    ) -> Self {
        Self {
            owner: owner.clone(),
            vf,
            ifname: owner.ifname.clone(),
            pod_index: None,
            netns: pod.map(|pod| pod.path().to_owned()).unwrap_or_default(),
            netns_id: pod.map(NetNs::id),
            home,
        }
    }

    /// Moves `link` into the pod, under the pod's name for it, and returns it as it is there.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn move_to_pod(&self, node: &Node, pod: &PodNetns, link: &Link) -> Result<Link, Error> {
        let links = node.links()?;
        // They are noted. One that a link of the pod has would keep it from going, and one that is the pod's name for it
        // from having that.
        if !link.altnames.is_empty() {
            links.remove_altnames(link.index)?;
        }
        let mut moved = links.move_link(link.index, &pod.netns, &self.ifname, self.pod_index);
        if matches!(&moved, Err(rtnl::Error::Netlink(e)) if e.errno() == Some(Errno::EBUSY)) {
            // Another link was quicker. The kernel chooses one; the link is known by its device too.
            moved = links.move_link(link.index, &pod.netns, &self.ifname, None);
        }
        moved?;
        Ok(pod.links.link(&self.ifname)?)
    }

    /// The move as it was made, if the link has another index in the pod than it was to have: kernels before 5.13
    /// choose it themselves.
    pub(crate) fn with_actual_index(&self, link: &Link) -> Option<Self> {
        let arrived = Self { pod_index: Some(link.index), ..self.clone() };
        (arrived != *self).then_some(arrived)
    }

    /// Brings the link home and makes it as it was, unless the VF is another attachment's by now.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        if is_claimed_by_other(node, self.vf, &self.owner)? {
            return Ok(());
        }
        let pod = self.pod()?;
        if let Some(pod) = &pod
            && host_link(node, self.vf)?.is_none()
            && let Some(link) = self.find(&pod.links)?
        {
            self.move_to_host(pod, &link)?;
        }
        if let Some(link) = host_link(node, self.vf)? {
            return self.home.restore(node, &link);
        }
        // The VF itself is gone, or a user-space driver or none has it now: there is no link to restore.
        if !may_have_link(node, self.vf)? {
            return Ok(());
        }
        let returned = match wait_for_host_link(node, self.vf, QUICK_RETURN_TIMEOUT)? {
            None => self
                .move_to_host_from_any(node)
                .and_then(|()| wait_for_host_link(node, self.vf, LINK_RETURN_TIMEOUT))?,
            link => link,
        };
        match returned {
            Some(link) => self.home.restore(node, &link),
            None if !node.sysfs.has(&Function::Pci(self.vf))? => Ok(()),
            None => Err(SriovError::NotReturned { vf: self.vf, waited: LINK_RETURN_TIMEOUT }.into()),
        }
    }

    /// Brings the link home from wherever the pod moved it on to, if it is in a namespace that something holds.
    fn move_to_host_from_any(&self, node: &Node) -> Result<(), Error> {
        for netns in other_netns()? {
            // One that ends meanwhile gives the link back by itself.
            let Ok(pod) = PodNetns::of(netns) else { continue };
            let device = self.vf.to_string();
            let links = pod.links.links().unwrap_or_default();
            let Some(link) = links.into_iter().find(|link| link.device.as_ref() == Some(&device)) else {
                continue;
            };
            warn!(vf = %self.vf, netns = %pod.id(), "the pod moved the VF on to another namespace");
            return match self.move_to_host(&pod, &link) {
                Err(_) if host_link(node, self.vf)?.is_some() => Ok(()),
                moved => moved,
            };
        }
        Ok(())
    }

    /// The pod, if it lives.
    fn pod(&self) -> Result<Option<PodNetns>, Error> {
        self.netns_id.map_or(Ok(None), |id| PodNetns::find(&self.netns, id))
    }

    /// Whether a link is the VF's, as far as the kernel tells: before Linux 5.14 only that it is a physical one.
    fn may_be(&self, link: &Link) -> bool {
        link.device.as_ref().map_or(link.kind.is_none(), |is| *is == self.vf.to_string())
    }

    /// The VF's link among a pod's, known by its device or, before Linux 5.14, by its index or name. It is not at home,
    /// so on such a kernel the physical link that has its name in the pod is it, unless another of the pod's VFs has
    /// been given that.
    fn find(&self, links: &Handle) -> Result<Option<Link>, Error> {
        let ours = |link: &Link| self.may_be(link);
        let expected = self.pod_index.map(|index| links.find_link_by_index(index)).transpose()?.flatten();
        if let Some(link) = expected.filter(ours) {
            return Ok(Some(link));
        }
        if let Some(link) = links.find_link(&self.ifname)?.filter(ours) {
            return Ok(Some(link));
        }
        let device = self.vf.to_string();
        Ok(links.links()?.into_iter().find(|link| link.device.as_ref() == Some(&device)))
    }

    fn move_to_host(&self, pod: &PodNetns, link: &Link) -> Result<(), Error> {
        let home = NetNs::current()?;
        if let Err(error) = self.home.restore_mac(&pod.links, link) {
            // At home it is tried again; here it must not keep the link from going.
            warn!(%error, vf = %self.vf, "the VF's address could not be restored in the pod");
        }
        self.move_named(pod, &home, link)
    }

    /// Its other names are the pod's; at home it gets back what it had. The kernel moves no link with an altname that is
    /// taken where it goes, and older ones make two links of one name.
    fn move_named(&self, pod: &PodNetns, home: &NetNs, link: &Link) -> Result<(), Error> {
        let mut altnames = !link.altnames.is_empty();
        for _ in 0..MAX_RENAME_ATTEMPTS {
            if altnames && let Err(error) = pod.links.remove_altnames(link.index) {
                warn!(%error, vf = %self.vf, "the names that the pod gave the VF could not be taken away");
            }
            let taken = match self.move_with_former_name(pod, home, link) {
                Err(error) if error.is_exists() => error,
                moved => return Ok(moved?),
            };
            // The kernel moves first and renames second: it may have arrived under the name it had in the pod.
            let Some(link) = pod.links.find_link_by_index(link.index)? else { return Ok(()) };
            altnames = !link.altnames.is_empty();
            if !altnames {
                warn!(error = %taken, vf = %self.vf, "both its names are taken at home; it gets another");
                return self.move_with_temporary_name(pod, home, &link);
            }
        }
        Err(SriovError::RenamedFaster(self.vf).into())
    }

    fn move_with_former_name(&self, pod: &PodNetns, home: &NetNs, link: &Link) -> Result<(), rtnl::Error> {
        let name = &self.home.name;
        match pod.links.move_link(link.index, home, name, self.home.index()) {
            Err(rtnl::Error::Netlink(e)) if e.errno() == Some(Errno::EBUSY) => {
                pod.links.move_link(link.index, home, name, None)
            }
            moved => moved,
        }
    }

    fn move_with_temporary_name(&self, pod: &PodNetns, home: &NetNs, link: &Link) -> Result<(), Error> {
        let any = "dev%d".parse().map_err(|source| SriovError::Nameless { vf: self.vf, source })?;
        Ok(pod.links.move_link(link.index, home, &any, None)?)
    }

    /// Looks whether the link is in the pod under its name.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let Some(pod) = self.pod()? else {
            return Err(SriovError::NamespaceGone(self.netns.clone()).into());
        };
        // By its name, not by the index: kernels before 5.13 choose that, and another VF may have got it.
        if pod.links.find_link(&self.ifname)?.is_some_and(|link| self.may_be(&link)) {
            return Ok(());
        }
        match self.find(&pod.links)? {
            Some(link) => {
                let (name, ifname) = (link.name, self.ifname.to_string());
                Err(SriovError::Renamed { vf: self.vf, name, ifname }.into())
            }
            None => Err(SriovError::Gone(self.vf).into()),
        }
    }
}

impl fmt::Display for LinkMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link of VF {} ({} at home, {} in ", self.vf, self.home.name, self.ifname)?;
        match self.netns_id {
            Some(id) => write!(f, "{id})"),
            None => f.write_str("a pod that is gone)"),
        }
    }
}
