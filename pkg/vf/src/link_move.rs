//! The move of a VF's link to the pod, as a change that can be reverted.

use std::{fmt, path::PathBuf, time::Duration};

use cni::AddRequest;
use identifiers::{Attachment, LinkName};
use netns::{NetNs, NetNsId};
use nix::errno::Errno;
use plugin_runtime::{Error, Node, PodNetns, other_netns};
use rtnl::{Handle, Link, LinkLayer, indexes_above};
use serde::{Deserialize, Serialize};
use sysfs::Function;

use tracing::warn;

use crate::{
    error::{VfError, noun},
    host_link::{host_link, is_claimed_by_other, may_have_link, wait_for_host_link},
    host_link_state::HostLinkState,
};

/// How long DEL waits for a VF to return from a namespace that was deleted. The kernel returns it in the background,
/// within 0.1 s if it is idle.
const LINK_RETURN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long DEL waits before it searches other namespaces. Most VFs have returned by then.
const QUICK_RETURN_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a pod may add new names to its VF during the move to the host. Normally no process of it runs any more.
const MAX_RENAME_ATTEMPTS: usize = 20;

/// The change that the link of a VF or scalable function was moved to a pod. The link is identified by its device, in any
/// namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkMove {
    owner: Attachment,
    vf: Function,
    ifname: LinkName,
    /// Its index in the pod: its own, if that is above those of the links that were there first. Unknown for an
    /// attachment of the Go plugin.
    pod_index: Option<u32>,
    netns: PathBuf,
    /// `None` if that namespace was already gone when this was recorded.
    netns_id: Option<NetNsId>,
    /// The state of the link on the host before the move.
    #[serde(rename = "home")]
    host_state: HostLinkState,
}

impl LinkMove {
    /// Returns the move that an ADD will make.
    ///
    /// # Errors
    /// If the pod's links, or the link's settings, cannot be read.
    pub fn of(
        request: &AddRequest<'_>,
        node: &Node,
        pod: &PodNetns,
        vf: &Function,
        link: &Link,
    ) -> Result<Self, Error> {
        let ifname = request.attachment.ifname.clone();
        let highest = pod.links.links()?.iter().map(|link| link.index).max().unwrap_or_default();
        let own = Some(link.index).filter(|own| *own > highest);
        let host_state = HostLinkState::of(node, vf, link)?;
        Ok(Self {
            owner: request.attachment.clone(),
            vf: vf.clone(),
            ifname,
            pod_index: own.or_else(|| indexes_above(highest).next()),
            netns: request.netns.clone(),
            netns_id: Some(pod.id()),
            host_state,
        })
    }

    /// Returns the move that the Go plugin made, by the state that it saved.
    pub fn from_go_state(
        owner: &Attachment,
        vf: Function,
        pod: Option<&NetNs>,
        host_state: HostLinkState,
    ) -> Self {
        Self {
            owner: owner.clone(),
            vf,
            ifname: owner.ifname.clone(),
            pod_index: None,
            netns: pod.map(|pod| pod.path().to_owned()).unwrap_or_default(),
            netns_id: pod.map(NetNs::id),
            host_state,
        }
    }

    /// Moves `link` into the pod under the name `CNI_IFNAME`, and returns the link in the pod.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn move_to_pod(&self, node: &Node, pod: &PodNetns, link: &Link) -> Result<Link, Error> {
        let links = node.links()?;
        // They are in the journal. An altname that a link of the pod has would block the move, and one that equals
        // `CNI_IFNAME` would block the rename.
        if !link.altnames.is_empty() {
            links.remove_altnames(link.index)?;
        }
        let mut moved = links.move_link(link.index, &pod.netns, &self.ifname, self.pod_index);
        if matches!(&moved, Err(rtnl::Error::Netlink(e)) if e.errno() == Some(Errno::EBUSY)) {
            // Another link took the index first. The kernel chooses one; the link is identified by its device too.
            moved = links.move_link(link.index, &pod.netns, &self.ifname, None);
        }
        moved?;
        Ok(pod.links.link(&self.ifname)?)
    }

    /// Gives the name `CNI_IFNAME` to a link that the kernel created in the pod, and returns it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn rename_in_pod(&self, pod: &PodNetns, link: &Link) -> Result<Link, Error> {
        if link.up {
            pod.links.set_up(link.index, false)?; // kernels before 6.2 do not rename a link that is up
        }
        pod.links.rename(link.index, &self.ifname)?;
        Ok(pod.links.link(&self.ifname)?)
    }

    /// Returns the move with the link's actual index in the pod, if that differs: kernels before 5.13 choose it
    /// themselves.
    pub fn with_actual_index(&self, link: &Link) -> Option<Self> {
        let actual = Self { pod_index: Some(link.index), ..self.clone() };
        (actual != *self).then_some(actual)
    }

    /// Returns the link to the host and restores its state, unless the VF belongs to another attachment by now.
    ///
    /// # Errors
    /// If it does not return, or its state cannot be restored.
    pub fn revert(&self, node: &Node) -> Result<(), Error> {
        if is_claimed_by_other(node, &self.vf, &self.owner)? {
            return Ok(());
        }
        let pod = self.pod()?;
        if let Some(pod) = &pod
            && host_link(node, &self.vf)?.is_none()
            && let Some(link) = self.find(&pod.links)?
        {
            self.move_to_host(pod, &link)?;
        }
        if let Some(link) = host_link(node, &self.vf)? {
            return self.restore(node, &link);
        }
        // The VF is gone, or is bound to a user-space driver or none: there is no link to restore.
        if !may_have_link(node, &self.vf)? {
            return Ok(());
        }
        let returned = match wait_for_host_link(node, &self.vf, QUICK_RETURN_TIMEOUT)? {
            None => self
                .move_to_host_from_any(node)
                .and_then(|()| wait_for_host_link(node, &self.vf, LINK_RETURN_TIMEOUT))?,
            link => link,
        };
        match returned {
            Some(link) => self.restore(node, &link),
            None if !node.sysfs.has(&self.vf)? => Ok(()),
            None => Err(VfError::NotReturned { vf: self.vf.clone(), waited: LINK_RETURN_TIMEOUT }.into()),
        }
    }

    /// Restores the state of the link, which is on the host.
    fn restore(&self, node: &Node, link: &Link) -> Result<(), Error> {
        self.delete_children(node.links()?, link);
        self.host_state.restore(node, &self.owner, link)
    }

    /// Searches all namespaces in use for the link, which the pod may have moved on, and returns it to the host.
    fn move_to_host_from_any(&self, node: &Node) -> Result<(), Error> {
        for netns in other_netns()? {
            // If the namespace ends meanwhile, the kernel returns the link.
            let Ok(pod) = PodNetns::of(netns) else { continue };
            let device = self.vf.to_string();
            let links = pod.links.links().unwrap_or_default();
            let Some(link) = links.into_iter().find(|link| link.device.as_ref() == Some(&device)) else {
                continue;
            };
            warn!(vf = %self.vf, netns = %pod.id(), "the pod moved the VF to another network namespace");
            return match self.move_to_host(&pod, &link) {
                Err(_) if host_link(node, &self.vf)?.is_some() => Ok(()),
                moved => moved,
            };
        }
        Ok(())
    }

    /// Opens the pod's namespace, if it still exists.
    fn pod(&self) -> Result<Option<PodNetns>, Error> {
        self.netns_id.map_or(Ok(None), |id| PodNetns::find(&self.netns, id))
    }

    /// Whether a link may be the VF's. Kernels before 5.14 only report that it is a physical one.
    fn may_be(&self, link: &Link) -> bool {
        let is_physical = link.kind.is_none() || link.is_ipoib_port();
        link.device.as_ref().map_or(is_physical, |is| *is == self.vf.to_string())
    }

    /// Finds the VF's link in a pod by its device or, before Linux 5.14, by its index or name. On such a kernel the
    /// physical link that has its name in the pod is taken for it, because it is not on the host. That is wrong only if
    /// the pod has given its name to another VF.
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
        let host = NetNs::current()?;
        self.delete_children(&pod.links, link);
        if let Err(error) = self.host_state.restore_mac(&pod.links, link) {
            // It is tried again on the host; the link must be moved anyway.
            warn!(%error, vf = %self.vf, "failed to restore the VF's MAC address in the pod");
        }
        self.move_named(pod, &host, link)
    }

    /// Deletes the IPoIB links that the pod created on its VF. The kernel would move them to the host when the pod's namespace
    /// ends. The VF had none before, or ADD would have refused it.
    fn delete_children(&self, links: &Handle, link: &Link) {
        if link.layer() != LinkLayer::InfiniBand {
            return;
        }
        let children = links.links().unwrap_or_default();
        for child in children.iter().filter(|child| child.is_ipoib_child_of(link)) {
            if let Err(error) = links.delete_link(child.index) {
                warn!(%error, vf = %self.vf, child = %child.name, "failed to delete a link that the pod created on the VF");
            }
        }
    }

    /// Moves the link without its altnames, which are the pod's; the former ones are restored on the host. The kernel does
    /// not move a link with an altname that exists in the target namespace, and older ones then create two links of one name.
    fn move_named(&self, pod: &PodNetns, host: &NetNs, link: &Link) -> Result<(), Error> {
        let mut altnames = !link.altnames.is_empty();
        for _ in 0..MAX_RENAME_ATTEMPTS {
            if altnames && let Err(error) = pod.links.remove_altnames(link.index) {
                warn!(%error, vf = %self.vf, "failed to remove the altnames that the pod added to the VF");
            }
            let taken = match self.move_with_former_name(pod, host, link) {
                Err(error) if error.is_exists() => error,
                moved => return Ok(moved?),
            };
            // The kernel moves first and renames second: the link may be on the host under the name it had in the pod.
            let Some(link) = pod.links.find_link_by_index(link.index)? else { return Ok(()) };
            altnames = !link.altnames.is_empty();
            if !altnames {
                warn!(error = %taken, vf = %self.vf, "both names of the VF are taken on the host: using another name");
                return self.move_with_temporary_name(pod, host, &link);
            }
        }
        Err(VfError::RenamedFaster(self.vf.clone()).into())
    }

    fn move_with_former_name(&self, pod: &PodNetns, host: &NetNs, link: &Link) -> Result<(), rtnl::Error> {
        let name = &self.host_state.name;
        match pod.links.move_link(link.index, host, name, self.host_state.index()) {
            Err(rtnl::Error::Netlink(e)) if e.errno() == Some(Errno::EBUSY) => {
                pod.links.move_link(link.index, host, name, None)
            }
            moved => moved,
        }
    }

    fn move_with_temporary_name(&self, pod: &PodNetns, host: &NetNs, link: &Link) -> Result<(), Error> {
        let any = "dev%d".parse().map_err(|source| VfError::Nameless { vf: self.vf.clone(), source })?;
        Ok(pod.links.move_link(link.index, host, &any, None)?)
    }

    /// Checks that the link is in the pod under its name.
    ///
    /// # Errors
    /// If it is not.
    pub fn verify(&self) -> Result<(), Error> {
        let Some(pod) = self.pod()? else {
            return Err(VfError::NamespaceGone(self.netns.clone()).into());
        };
        // By its name, not by the index: kernels before 5.13 choose that, and another VF may have it.
        if pod.links.find_link(&self.ifname)?.is_some_and(|link| self.may_be(&link)) {
            return Ok(());
        }
        match self.find(&pod.links)? {
            Some(link) => {
                let (name, ifname) = (link.name, self.ifname.to_string());
                Err(VfError::Renamed { vf: self.vf.clone(), name, ifname }.into())
            }
            None => Err(VfError::Gone(self.vf.clone()).into()),
        }
    }
}

impl fmt::Display for LinkMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "link of {} {} ({} on the host, {} in ",
            noun(&self.vf),
            self.vf,
            self.host_state.name,
            self.ifname
        )?;
        match self.netns_id {
            Some(id) => write!(f, "{id})"),
            None => f.write_str("a pod that is gone)"),
        }
    }
}
