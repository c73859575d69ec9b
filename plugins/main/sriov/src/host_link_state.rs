//! How a VF's link was at home, and how it becomes so again.

use std::{thread, time::Duration};

use identifiers::{LinkName, MacAddr, PciAddress};
use plugin_runtime::{Budget, Error, Node, retry_while_busy};
use rtnl::{Handle, Link};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::{error::SriovError, link_settings::VfLinkSettings};

/// How long a driver may take to accept an address. Some do it in the background, or after a reset.
const SET_MAC_TIMEOUT: Duration = Duration::from_secs(10);

/// A VF's link as it was at home. What is absent is not known, and not restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostLinkState {
    pub(crate) name: LinkName,
    index: Option<u32>,
    mac: Option<MacAddr>,
    permanent_mac: Option<MacAddr>,
    mtu: Option<u32>,
    up: bool,
    /// All of them: whatever else it is called when it comes home, a pod has called it.
    altnames: Option<Vec<String>>,
    settings: Option<VfLinkSettings>,
}

impl HostLinkState {
    /// How a VF's link is at home now.
    ///
    /// # Errors
    /// If it can have no name at all.
    pub(crate) fn of(node: &Node, vf: PciAddress, link: &Link) -> Result<Self, Error> {
        // A name that cannot be written is one that a pod gave it. The kernel calls a link that has none like this.
        let nameless = format!("dev{}", link.index);
        let name = if is_writable(&link.name) { &link.name } else { &nameless };
        let altnames = link.altnames.iter().filter(|altname| is_writable(altname));
        Ok(Self {
            name: name.parse().map_err(|source| SriovError::Nameless { vf, source })?,
            index: Some(link.index),
            mac: link.mac,
            permanent_mac: link.permanent_mac,
            mtu: Some(link.mtu),
            up: link.up,
            altnames: Some(altnames.cloned().collect()),
            settings: Some(VfLinkSettings::of(node, link)?),
        })
    }

    /// How a link was by what another program noted. It was down, as free VFs are.
    pub(crate) fn from_go_state(name: LinkName, mac: Option<MacAddr>, mtu: Option<u32>) -> Self {
        Self { name, index: None, mac, permanent_mac: mac, mtu, up: false, altnames: None, settings: None }
    }

    /// Its index.
    pub(crate) fn index(&self) -> Option<u32> {
        self.index
    }

    /// Makes a link that is at home as it was.
    pub(crate) fn restore(&self, node: &Node, link: &Link) -> Result<(), Error> {
        let links = node.links()?;
        if let Some(settings) = &self.settings {
            settings.remove_programs(node, link)?;
        }
        let link = self.restore_link(links, link)?;
        if let Some(settings) = &self.settings {
            settings.restore(node, &link)?;
        }
        if self.up && !link.up {
            set_up(links, link.index, true)?;
        }
        Ok(())
    }

    /// Restores all but the settings, and leaves the link down if it changes anything.
    fn restore_link(&self, links: &Handle, link: &Link) -> Result<Link, Error> {
        // It had none for good, or no pod would have got it: who manages the node's links may have given it some since.
        let addresses = links.permanent_addresses(link.index)?;
        if addresses.is_empty() && self.matches(link) {
            return Ok(link.clone());
        }
        if link.up {
            set_up(links, link.index, false)?;
        }
        for address in addresses {
            links.remove_address(link.index, address)?;
        }
        self.restore_names(links, link)?;
        if let Some(mtu) = self.mtu.filter(|mtu| *mtu != link.mtu) {
            retry_while_busy(|| links.set_mtu(link.index, mtu))?;
        }
        if let Some(mac) = self.mac {
            set_mac(links, link.index, mac)?;
        }
        Ok(links.link_by_index(link.index)?)
    }

    /// Gives a link that is still in the pod its former address.
    ///
    /// igbvf takes the address it has when it goes up or down for its permanent one. So the link gets its address while
    /// it is still up, where the driver can do that, and then goes down, as it does for the move; if it was down, it goes
    /// up and down once more. Here nobody sees it, and the move home resets what else that changes.
    pub(crate) fn restore_mac(&self, links: &Handle, link: &Link) -> Result<(), Error> {
        let has_all = |link: &Link| {
            link.permanent_mac == self.permanent_mac && self.mac.is_none_or(|mac| link.mac == Some(mac))
        };
        if has_all(link) {
            return Ok(());
        }
        if let Some(mac) = self.mac.filter(|_| link.up) {
            let _ = links.set_mac(link.index, mac);
        }
        set_up(links, link.index, false)?;
        if has_all(&links.link_by_index(link.index)?) {
            return Ok(());
        }
        if let Some(mac) = self.mac {
            set_mac(links, link.index, mac)?;
        }
        if links.link_by_index(link.index)?.permanent_mac != self.permanent_mac {
            set_up(links, link.index, true)?;
            set_up(links, link.index, false)?;
        }
        Ok(())
    }

    fn matches(&self, link: &Link) -> bool {
        link.name == self.name.as_str()
            && self.mtu.is_none_or(|mtu| link.mtu == mtu)
            && self.mac.is_none_or(|mac| link.mac == Some(mac))
            && link.up == self.up
            && self.has_altnames_of(link)
    }

    fn has_altnames_of(&self, link: &Link) -> bool {
        self.altnames.as_ref().is_none_or(|altnames| *altnames == link.altnames)
    }

    /// A name is one more for whoever wants to be called like it, so altnames go first and come back last.
    fn restore_names(&self, links: &Handle, link: &Link) -> Result<(), Error> {
        let is_own_altname = link.altnames.iter().any(|altname| altname == self.name.as_str());
        let other_altnames = !self.has_altnames_of(link);
        if (is_own_altname || other_altnames) && !link.altnames.is_empty() {
            links.remove_altnames(link.index)?;
        }
        self.rename(links, link)?;
        for altname in self.altnames.iter().flatten().filter(|_| is_own_altname || other_altnames) {
            // Somebody else may have the name by now; then it is theirs.
            let _ = links.add_altname(link.index, altname);
        }
        Ok(())
    }

    /// A name that is taken is no reason to keep a pod from going: the link works under any.
    fn rename(&self, links: &Handle, link: &Link) -> Result<(), Error> {
        if link.name == self.name.as_str() {
            return Ok(());
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

/// Whether a name is one that can be given again: shown as it is, and without a blank that is none to the kernel.
fn is_writable(name: &str) -> bool {
    !name.contains(|c: char| c == char::REPLACEMENT_CHARACTER || c.is_whitespace())
}

/// Gives a VF's link an address and sees that it has it.
///
/// Drivers differ: some do it in the background, some are busy with a reset, and some give a VF with an administrative
/// MAC that one when it goes down, and refuse any other way to set it.
///
/// # Errors
/// If it does not have the address in time.
pub(crate) fn set_mac(links: &Handle, index: u32, mac: MacAddr) -> Result<(), Error> {
    let budget = Budget::of_call();
    let deadline = budget.until("the address of a VF", SET_MAC_TIMEOUT);
    let mut cycled = false;
    loop {
        let link = links.link_by_index(index)?;
        if link.mac == Some(mac) {
            return Ok(());
        }
        let mut refused = links.set_mac(index, mac).err();
        if links.link_by_index(index)?.mac == Some(mac) {
            return Ok(());
        }
        if !link.up && !cycled {
            // A driver that is busy is asked for the address again first.
            match links.set_up(index, true) {
                Ok(()) => {
                    set_up(links, index, false)?;
                    cycled = true;
                    continue;
                }
                Err(error) => refused = Some(error),
            }
        }
        if deadline.has_passed() {
            let is = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
            return Err(SriovError::MacRefused { link: link.name, is, wanted: mac, source: refused }.into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn set_up(links: &Handle, index: u32, up: bool) -> Result<(), Error> {
    Ok(retry_while_busy(|| links.set_up(index, up))?)
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn every_address_goes_be_it_with_another_or_with_the_link() {
        let node = thread::spawn(|| {
            #[expect(clippy::disallowed_methods, reason = "the thread ends there")]
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let links = Handle::open().unwrap();
            let lo = links.link(&"lo".parse().unwrap()).unwrap();
            let home = HostLinkState::from_go_state("lo".parse().unwrap(), None, Some(lo.mtu));
            links.set_up(lo.index, true).unwrap();
            // The second goes with the first, and IPv6's when the link goes down.
            for address in ["10.0.0.1/24", "10.0.0.2/24", "fd00::5/64"] {
                links.add_address(lo.index, address.parse().unwrap()).unwrap();
            }
            home.restore_link(&links, &links.link_by_index(lo.index).unwrap()).unwrap();
            assert!(links.addresses(lo.index).unwrap().is_empty());
            assert!(!links.link_by_index(lo.index).unwrap().up);
        });
        node.join().unwrap();
    }
}
