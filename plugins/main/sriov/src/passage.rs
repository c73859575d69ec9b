//! A VF's link into the pod and home again, as a change that can be taken back.

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use addr::{Attachment, LinkName, MacAddr, PciAddress};
use cni::{Add, Code, Error as CniError};
use netns::{NetNs, NetNsId};
use nix::errno::Errno;
use plugin::{Error, Node, Pod};
use rtnl::{Handle, Link, random_index};
use serde::{Deserialize, Serialize};
use sysfs::Function;
use tracing::warn;

use crate::vf::{is_anothers, link_at_home, wait_at_home};

/// How long DEL waits for a VF to come home from a namespace that died: the kernel does that in the
/// background, in a tenth of a second when it is idle.
const RETURN: Duration = Duration::from_secs(20);

/// How long a driver may take to accept an address. Some do it in the background.
const MAC_PATIENCE: Duration = Duration::from_secs(3);

/// A VF's link was moved into a pod. It is known again by its PCI address, wherever it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Passage {
    owner: Attachment,
    vf: PciAddress,
    ifname: LinkName,
    /// Its index in the pod: its own, if that is free there.
    pub(crate) pod_index: u32,
    netns: PathBuf,
    netns_id: NetNsId,
    /// How it was at home.
    pub(crate) home: Home,
}

/// A VF's link as it was at home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Home {
    pub(crate) name: LinkName,
    index: u32,
    mac: Option<MacAddr>,
    permanent_mac: Option<MacAddr>,
    mtu: u32,
    up: bool,
    /// An altname that is in the way of the pod's name for it.
    altname: Option<String>,
}

impl Passage {
    /// The passage that an ADD will make.
    ///
    /// # Errors
    /// If the pod's links cannot be looked at.
    pub(crate) fn of(request: &Add<'_>, pod: &Pod, vf: PciAddress, link: &Link) -> Result<Self, Error> {
        let ifname = request.attachment.ifname.clone();
        let taken = pod.links.find_link_by_index(link.index)?.is_some();
        let name = link.name.parse().map_err(|e| CniError::new(Code::INTERNAL, format!("VF {vf}: {e}")))?;
        let home = Home {
            name,
            index: link.index,
            mac: link.mac,
            permanent_mac: link.permanent_mac,
            mtu: link.mtu,
            up: link.up,
            altname: link.altnames.iter().find(|name| name.as_str() == ifname.as_str()).cloned(),
        };
        Ok(Self {
            owner: request.attachment.clone(),
            vf,
            ifname,
            pod_index: if taken { random_index() } else { link.index },
            netns: request.netns.clone(),
            netns_id: pod.id(),
            home,
        })
    }

    /// Moves the link into the pod, under the pod's name for it, and returns it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn carry(&self, node: &Node, pod: &Pod) -> Result<Link, Error> {
        let links = node.links()?;
        if let Some(altname) = &self.home.altname {
            links.remove_altname(self.home.index, altname)?;
        }
        links.move_link(self.home.index, &pod.netns, &self.ifname, Some(self.pod_index))?;
        Ok(pod.links.link_by_index(self.pod_index)?)
    }

    /// Brings the link home and makes it as it was, unless the VF is another attachment's by now.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        if is_anothers(node, self.vf, &self.owner)? {
            return Ok(());
        }
        let pod = Pod::find(&self.netns, self.netns_id)?;
        if let Some(pod) = &pod
            && let Some(link) = self.find(&pod.links)?
        {
            self.send_home(pod, &link)?;
        }
        let home = match link_at_home(node, self.vf)? {
            Some(link) => Some(link),
            None => wait_at_home(node, self.vf, RETURN)?,
        };
        match home {
            Some(link) => self.home.restore(node.links()?, &link),
            // The VF itself is gone, or a user-space driver has it now: there is nothing to restore.
            None if !node.sysfs.has(&Function::Pci(self.vf)) => Ok(()),
            None => Err(self.lost()),
        }
    }

    fn lost(&self) -> Error {
        let msg = format!(
            "VF {} has not come home within {RETURN:?}: its network device is in no namespace we know",
            self.vf
        );
        let details = "a process may still hold the pod's namespace open; binding its driver anew brings the device back";
        CniError::new(Code::TRY_AGAIN, msg).with_details(details).into()
    }

    /// The VF's link among a pod's, known by its device or, before Linux 5.14, by its index and address.
    fn find(&self, links: &Handle) -> Result<Option<Link>, Error> {
        let device = self.vf.to_string();
        let ours = |link: &Link| link.device.as_ref().map_or(link.kind.is_none(), |is| *is == device);
        if let Some(link) = links.find_link_by_index(self.pod_index)?.filter(ours) {
            return Ok(Some(link));
        }
        Ok(links.links()?.into_iter().find(|link| link.device.as_ref() == Some(&device)))
    }

    fn send_home(&self, pod: &Pod, link: &Link) -> Result<(), Error> {
        let home = NetNs::current()?;
        self.home.restore_mac(&pod.links, link)?;
        if link.altnames.iter().any(|altname| altname == self.home.name.as_str()) {
            pod.links.remove_altname(link.index, self.home.name.as_str())?;
        }
        let mut moved = pod.links.move_link(link.index, &home, &self.home.name, Some(self.home.index));
        if matches!(&moved, Err(rtnl::Error::Netlink(e)) if e.errno() == Some(Errno::EBUSY)) {
            moved = pod.links.move_link(link.index, &home, &self.home.name, None);
        }
        match moved {
            // Its name is taken at home: it has arrived under another, which `restore` deals with.
            Err(error) if error.is_exists() => Ok(()),
            moved => Ok(moved?),
        }
    }

    /// Looks whether the link is in the pod under its name.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let changed = |msg: String| Err(CniError::new(Code::CHANGED, msg).into());
        let Some(pod) = Pod::find(&self.netns, self.netns_id)? else {
            return changed(format!("the namespace {} is gone", self.netns.display()));
        };
        match self.find(&pod.links)? {
            Some(link) if link.name == self.ifname.as_str() => Ok(()),
            Some(link) => changed(format!(
                "the link of VF {} is called {} now, not {}",
                self.vf, link.name, self.ifname
            )),
            None => changed(format!("the link of VF {} is not in the pod any more", self.vf)),
        }
    }
}

impl Home {
    /// Makes a link that is at home as it was.
    fn restore(&self, links: &Handle, link: &Link) -> Result<(), Error> {
        if self.is_like(link) {
            return Ok(());
        }
        if link.up {
            links.set_up(link.index, false)?;
        }
        for address in links.addresses(link.index)? {
            links.remove_address(link.index, address)?;
        }
        self.rename(links, link)?;
        if link.mtu != self.mtu {
            links.set_mtu(link.index, self.mtu)?;
        }
        if let Some(mac) = self.mac {
            set_mac(links, link.index, mac)?;
        }
        if let Some(altname) = &self.altname {
            // Somebody else may have the name by now; then it is theirs.
            let _ = links.add_altname(link.index, altname);
        }
        if self.up {
            links.set_up(link.index, true)?;
        }
        Ok(())
    }

    /// Gives a link that is still in the pod its former address.
    ///
    /// igbvf takes the address it last came up with for its permanent one: where that is a pod's, the link
    /// goes up and down once more. Here nobody sees it, and the move home resets what else that changes.
    fn restore_mac(&self, links: &Handle, link: &Link) -> Result<(), Error> {
        if let Some(mac) = self.mac.filter(|mac| link.mac != Some(*mac)) {
            links.set_up(link.index, false)?;
            set_mac(links, link.index, mac)?;
        }
        if links.link_by_index(link.index)?.permanent_mac != self.permanent_mac {
            links.set_up(link.index, true)?;
            links.set_up(link.index, false)?;
        }
        Ok(())
    }

    fn is_like(&self, link: &Link) -> bool {
        link.name == self.name.as_str()
            && link.mtu == self.mtu
            && link.mac == self.mac
            && link.up == self.up
            && self.altname.as_ref().is_none_or(|altname| link.altnames.contains(altname))
    }

    /// A name that is taken is no reason to keep a pod from going: the link works under any.
    fn rename(&self, links: &Handle, link: &Link) -> Result<(), Error> {
        if link.name == self.name.as_str() {
            return Ok(());
        }
        if link.altnames.iter().any(|altname| altname == self.name.as_str()) {
            links.remove_altname(link.index, self.name.as_str())?;
        }
        match links.rename(link.index, &self.name) {
            Err(error) if error.is_exists() => {
                warn!(link = %link.name, former = %self.name, "the former name is taken; the link keeps this one");
                Ok(())
            }
            renamed => Ok(renamed?),
        }
    }
}

/// Gives a VF's link an address and sees that it has it.
///
/// Drivers differ: some do it in the background, and some give a VF with an administrative MAC that one when
/// it goes down, and refuse any other way to set it.
///
/// # Errors
/// If it does not have the address in time.
pub(crate) fn set_mac(links: &Handle, index: u32, mac: MacAddr) -> Result<(), Error> {
    let deadline = Instant::now() + MAC_PATIENCE;
    loop {
        let link = links.link_by_index(index)?;
        if link.mac == Some(mac) {
            return Ok(());
        }
        let refused = links.set_mac(index, mac).err();
        if links.link_by_index(index)?.mac == Some(mac) {
            return Ok(());
        }
        if !link.up {
            links.set_up(index, true)?;
            links.set_up(index, false)?;
        }
        if Instant::now() >= deadline {
            let is = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
            let msg = format!(
                "mac: effective mac address is different from requested one: {} has {is}, not {mac}",
                link.name
            );
            let why = refused.map(|e| e.to_string()).unwrap_or_default();
            return Err(CniError::new(Code::TRY_AGAIN, msg).with_details(why).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link of VF {} ({} at home, {} in {})", self.vf, self.home.name, self.ifname, self.netns_id)
    }
}
