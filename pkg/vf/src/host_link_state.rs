//! The state of a VF's link on the host, and how it is restored.

use std::{thread, time::Duration};

use identifiers::{Attachment, LinkName, MacAddr};
use plugin_runtime::{Budget, Error, Node, retry_while_busy};
use rtnl::{Handle, Link};
use serde::{Deserialize, Serialize};
use sysfs::Function;
use tracing::warn;

use crate::{error::VfError, host_link::is_claimed_by_other, link_settings::VfLinkSettings};

/// How long a driver may take to accept a MAC address. Some set it in the background, or after a reset.
const SET_MAC_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a VF may have to wait for its former name, while another one that has it is moving.
const NAME_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of a VF's link on the host, before its move. `None` means unknown; such values are not restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLinkState {
    pub(crate) name: LinkName,
    index: Option<u32>,
    mac: Option<MacAddr>,
    permanent_mac: Option<MacAddr>,
    mtu: Option<u32>,
    up: bool,
    /// All altnames: any other that the link has after its return was added by the pod.
    altnames: Option<Vec<String>>,
    settings: Option<VfLinkSettings>,
}

impl HostLinkState {
    /// Returns the current state of a VF's link on the host.
    ///
    /// # Errors
    /// If the link has no valid name, or its settings cannot be read.
    pub(crate) fn of(node: &Node, vf: &Function, link: &Link) -> Result<Self, Error> {
        // A name that is not valid UTF-8 was set by a pod. `devN` is the kernel's name for a link without one.
        let nameless = format!("dev{}", link.index);
        let name = if is_writable(&link.name) { &link.name } else { &nameless };
        let altnames = link.altnames.iter().filter(|altname| is_writable(altname));
        Ok(Self {
            name: name.parse().map_err(|source| VfError::Nameless { vf: vf.clone(), source })?,
            index: Some(link.index),
            mac: link.mac,
            permanent_mac: link.permanent_mac,
            mtu: Some(link.mtu),
            up: link.up,
            altnames: Some(altnames.cloned().collect()),
            settings: Some(VfLinkSettings::of(node, link)?),
        })
    }

    /// Returns the state that the Go plugin saved. The link was down, as unused VFs are.
    pub fn from_go_state(name: LinkName, mac: Option<MacAddr>, mtu: Option<u32>) -> Self {
        Self { name, index: None, mac, permanent_mac: mac, mtu, up: false, altnames: None, settings: None }
    }

    /// Returns the index that the link had on the host.
    pub(crate) fn index(&self) -> Option<u32> {
        self.index
    }

    /// Restores the state of a link that is on the host.
    pub(crate) fn restore(&self, node: &Node, owner: &Attachment, link: &Link) -> Result<(), Error> {
        let links = node.links()?;
        if let Some(settings) = &self.settings {
            settings.remove_programs(node, link)?;
        }
        let link = self.restore_link(node, owner, link)?;
        if let Some(settings) = &self.settings {
            settings.restore(node, &link)?;
        }
        if self.up && !link.up {
            set_up(links, link.index, true)?;
        }
        Ok(())
    }

    /// Restores everything except the settings. The link is down afterwards if anything was changed.
    fn restore_link(&self, node: &Node, owner: &Attachment, link: &Link) -> Result<Link, Error> {
        let links = node.links()?;
        // It had no permanent addresses, or ADD would have refused it. A network manager may have added some since.
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
        self.restore_names(node, owner, link)?;
        if let Some(mtu) = self.mtu.filter(|mtu| *mtu != link.mtu) {
            retry_while_busy(|| links.set_mtu(link.index, mtu))?;
        }
        if let Some(mac) = self.mac {
            set_mac(links, link.index, mac)?;
        }
        Ok(links.link_by_index(link.index)?)
    }

    /// Restores the MAC address of a link that is still in the pod.
    ///
    /// igbvf makes the address that a link has when it is set up or down its permanent one. So the address is set while
    /// the link is still up, if the driver supports that, and then the link is set down, as the move does too. A link that
    /// was down is set up and down once. This is invisible in the pod, and the move to the host resets its other effects.
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

    /// Restores name and altnames. An altname conflicts with a name, so altnames are removed first and added last.
    fn restore_names(&self, node: &Node, owner: &Attachment, link: &Link) -> Result<(), Error> {
        let links = node.links()?;
        let is_own_altname = link.altnames.iter().any(|altname| altname == self.name.as_str());
        let other_altnames = !self.has_altnames_of(link);
        if (is_own_altname || other_altnames) && !link.altnames.is_empty() {
            links.remove_altnames(link.index)?;
        }
        self.rename(node, owner, link)?;
        for altname in self.altnames.iter().flatten().filter(|_| is_own_altname || other_altnames) {
            // Another link may have the name by now, and keeps it.
            let _ = links.add_altname(link.index, altname);
        }
        Ok(())
    }

    /// Renames the link. If the name is taken, the link keeps its current one, and DEL succeeds anyway.
    ///
    /// The kernel gives an IPoIB link that it creates the lowest free name, `ib1`, which may be the former one of another VF
    /// that is returning too. So the link gives up that name first, and then waits for its own.
    fn rename(&self, node: &Node, owner: &Attachment, link: &Link) -> Result<(), Error> {
        if link.name == self.name.as_str() {
            return Ok(());
        }
        let links = node.links()?;
        let deadline = node.budget.until("the former name of a VF's link", NAME_TIMEOUT);
        let mut gave_up_name = false;
        loop {
            match links.rename(link.index, &self.name) {
                Err(error) if error.is_exists() => {}
                renamed => return Ok(renamed?),
            }
            if deadline.has_passed() || !self.is_name_of_moving_vf(node, owner)? {
                warn!(link = %link.name, former = %self.name, "the former name is taken; the link keeps this one");
                if gave_up_name && let Ok(current) = link.name.parse() {
                    let _ = links.rename(link.index, &current);
                }
                return Ok(());
            }
            if !gave_up_name && let Ok(temporary) = format!("dev{}", link.index).parse() {
                gave_up_name = links.rename(link.index, &temporary).is_ok();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the link that has the former name is on the host only until another call has moved or renamed it.
    fn is_name_of_moving_vf(&self, node: &Node, owner: &Attachment) -> Result<bool, Error> {
        let holder = node.links()?.find_link_called(self.name.as_str())?;
        match holder.map(|link| link.device.and_then(|device| device.parse().ok())) {
            None => Ok(true), // it has just been renamed
            Some(None) => Ok(false),
            Some(Some(vf)) => is_claimed_by_other(node, &vf, owner),
        }
    }
}

/// Whether a name can be set again: valid UTF-8, and without the white space that the kernel refuses.
fn is_writable(name: &str) -> bool {
    !name.contains(|c: char| c == char::REPLACEMENT_CHARACTER || c.is_whitespace())
}

/// Sets the MAC address of a VF's link and waits until it is in effect.
///
/// Drivers differ: some set it in the background, some are busy with a reset, and some set the administrative MAC of a VF
/// when its link goes down, and refuse any other way to set it.
///
/// # Errors
/// If the link does not have the address in time.
pub fn set_mac(links: &Handle, index: u32, mac: MacAddr) -> Result<(), Error> {
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
            // If the driver is busy, the address is tried again first.
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
            return Err(VfError::MacRefused { link: link.name, is, wanted: mac, source: refused }.into());
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
    use state::StateDir;

    use super::*;
    use crate::host_link::tests::link;

    #[test]
    fn a_link_is_as_before_only_if_all_of_its_state_is() {
        let mac = |last: u8| MacAddr::from_bytes(&[2, 0, 0, 0, 0, last]);
        let is = Link { mac: mac(1), up: true, altnames: vec!["alt".into()], ..link(rtnl::ETHERNET) };
        let state = HostLinkState {
            name: is.name.parse().unwrap(),
            index: None,
            mac: is.mac,
            permanent_mac: is.mac,
            mtu: Some(is.mtu),
            up: true,
            altnames: Some(is.altnames.clone()),
            settings: None,
        };
        assert!(state.matches(&is));
        for other in [
            Link { name: "eth9".into(), ..is.clone() },
            Link { mtu: 1400, ..is.clone() },
            Link { mac: mac(2), ..is.clone() },
            Link { up: false, ..is.clone() },
            Link { altnames: Vec::new(), ..is.clone() },
            Link { altnames: vec!["alt".into(), "of-pod".into()], ..is.clone() },
        ] {
            assert!(!state.matches(&other), "{other:?}");
        }
        let unknown = HostLinkState { mac: None, mtu: None, altnames: None, ..state };
        assert!(unknown.matches(&Link { mtu: 1, mac: mac(2), altnames: Vec::new(), ..is }));
        for (name, expected) in [("p0v1", true), ("p\u{fffd}", false), ("a b", false)] {
            assert_eq!(is_writable(name), expected, "{name:?}");
        }
    }

    #[test]
    fn every_permanent_address_is_removed() {
        let node = thread::spawn(|| {
            #[expect(clippy::disallowed_methods, reason = "the thread ends there")]
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let node = Node::new(StateDir::at("/nonexistent"), Vec::new(), None);
            let links = node.links().unwrap();
            let owner = Attachment { container_id: "a".parse().unwrap(), ifname: "net1".parse().unwrap() };
            let lo = links.link(&"lo".parse().unwrap()).unwrap();
            let state = HostLinkState::from_go_state("lo".parse().unwrap(), None, Some(lo.mtu));
            links.set_up(lo.index, true).unwrap();
            // The kernel removes the second with the first, and the IPv6 address when the link goes down.
            for address in ["10.0.0.1/24", "10.0.0.2/24", "fd00::5/64"] {
                links.add_address(lo.index, address.parse().unwrap()).unwrap();
            }
            state.restore_link(&node, &owner, &links.link_by_index(lo.index).unwrap()).unwrap();
            assert!(links.addresses(lo.index).unwrap().is_empty());
            assert!(!links.link_by_index(lo.index).unwrap().up);
        });
        node.join().unwrap();
    }
}
