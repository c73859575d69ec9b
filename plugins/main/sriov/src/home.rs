//! How a VF's link was at home, and how it becomes so again.

use std::time::{Duration, Instant};

use addr::{LinkName, MacAddr, PciAddress};
use cni::{Code, Error as CniError};
use plugin::Error;
use rtnl::{Handle, Link};
use serde::{Deserialize, Serialize};
use tracing::warn;

/// How long a driver may take to accept an address. Some do it in the background.
const MAC_PATIENCE: Duration = Duration::from_secs(3);

/// A VF's link as it was at home. What is absent is not known, and not restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Home {
    pub(crate) name: LinkName,
    index: Option<u32>,
    mac: Option<MacAddr>,
    permanent_mac: Option<MacAddr>,
    mtu: Option<u32>,
    up: bool,
    /// An altname that is in the way of the pod's name for it.
    altname: Option<String>,
}

impl Home {
    /// How a VF's link is at home now; in a pod it will be called `ifname`.
    ///
    /// # Errors
    /// If its name is none that a link can be given.
    pub(crate) fn of(vf: PciAddress, link: &Link, ifname: &LinkName) -> Result<Self, Error> {
        let name = link.name.parse().map_err(|e| CniError::new(Code::INTERNAL, format!("VF {vf}: {e}")))?;
        Ok(Self {
            name,
            index: Some(link.index),
            mac: link.mac,
            permanent_mac: link.permanent_mac,
            mtu: Some(link.mtu),
            up: link.up,
            altname: link.altnames.iter().find(|name| name.as_str() == ifname.as_str()).cloned(),
        })
    }

    /// How a link was by what another program noted. It was down, as free VFs are.
    pub(crate) fn noted(name: LinkName, mac: Option<MacAddr>, mtu: Option<u32>) -> Self {
        Self { name, index: None, mac, permanent_mac: mac, mtu, up: false, altname: None }
    }

    /// Its index.
    pub(crate) fn index(&self) -> Option<u32> {
        self.index
    }

    /// An altname that has to go before the link can have the pod's name for it.
    pub(crate) fn altname_in_the_way(&self) -> Option<&str> {
        self.altname.as_deref()
    }

    /// Makes a link that is at home as it was.
    pub(crate) fn restore(&self, links: &Handle, link: &Link) -> Result<(), Error> {
        // It had none, or no pod would have got it: who manages the node's links may have given it some since.
        let addresses = links.addresses(link.index)?;
        if addresses.is_empty() && self.is_like(link) {
            return Ok(());
        }
        if link.up {
            links.set_up(link.index, false)?;
        }
        for address in addresses {
            links.remove_address(link.index, address)?;
        }
        self.rename(links, link)?;
        if let Some(mtu) = self.mtu.filter(|mtu| *mtu != link.mtu) {
            links.set_mtu(link.index, mtu)?;
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
    pub(crate) fn restore_mac(&self, links: &Handle, link: &Link) -> Result<(), Error> {
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
            && self.mtu.is_none_or(|mtu| link.mtu == mtu)
            && self.mac.is_none_or(|mac| link.mac == Some(mac))
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
    let mut cycled = false;
    loop {
        let link = links.link_by_index(index)?;
        if link.mac == Some(mac) {
            return Ok(());
        }
        let refused = links.set_mac(index, mac).err();
        if links.link_by_index(index)?.mac == Some(mac) {
            return Ok(());
        }
        if !link.up && !cycled {
            links.set_up(index, true)?;
            links.set_up(index, false)?;
            cycled = true;
            continue;
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

#[cfg(test)]
mod tests {
    use std::thread;

    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn every_address_goes_be_it_with_another_or_with_the_link() {
        let node = thread::spawn(|| {
            #[expect(clippy::disallowed_methods, reason = "the thread ends there")]
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let links = Handle::open().unwrap();
            let lo = links.link(&"lo".parse().unwrap()).unwrap();
            let home = Home::noted("lo".parse().unwrap(), None, Some(lo.mtu));
            links.set_up(lo.index, true).unwrap();
            // The second goes with the first, and IPv6's when the link goes down.
            for address in ["10.0.0.1/24", "10.0.0.2/24", "fd00::5/64"] {
                links.add_address(lo.index, address.parse().unwrap()).unwrap();
            }
            home.restore(&links, &links.link_by_index(lo.index).unwrap()).unwrap();
            assert!(links.addresses(lo.index).unwrap().is_empty());
            assert!(!links.link_by_index(lo.index).unwrap().up);
        });
        node.join().unwrap();
    }
}
