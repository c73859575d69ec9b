//! A VF in the host namespace.

use std::{thread, time::Duration};

use cni::Error as CniError;
use identifiers::{LinkName, PciAddress, VfIndex};
use plugin_runtime::{Budget, Error, Node};
use podmap::RdmaInfo;
use rtnl::{Link, LinkLayer, VfSettings};
use sysfs::{Function, Sysfs};

use crate::{error::VfError, host_link};

/// A VF whose link is in the host namespace, or which has none.
#[derive(Debug)]
pub struct HostVf {
    /// Its PCI address.
    pub pci: PciAddress,
    /// Its PF.
    pub pf: VfParent,
    /// Its number on the PF.
    pub index: VfIndex,
    /// Its link; `None` if it is bound to a user-space driver.
    pub link: Option<Link>,
    /// Its settings on the PF (`IFLA_VFINFO_LIST`); `None` if the PF does not report them at present, or at all: see
    /// [`HostVf::require_settings`].
    pub settings: Option<VfSettings>,
}

/// The PF of a VF or of a scalable function.
#[derive(Debug)]
pub struct VfParent {
    /// The PF's PCI address.
    pub pci: PciAddress,
    /// The PF's link.
    pub link: Link,
}

/// How long a PF may not report a VF. Its driver needs a second at most to initialise one or to reset it.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay between two reads: the driver asks its firmware about every VF, under the lock of all links.
const REPORT_DELAY: Duration = Duration::from_millis(250);

impl VfParent {
    /// Returns the PF of a PCI address, with the settings of one of its VFs. Waits at most 10 s until the PF reports the VF: the
    /// kernel leaves one out whose settings the driver cannot read (`net/core/rtnetlink.c: rtnl_fill_vfinfo`), as ice while it
    /// resets the VF (`ice_sriov.c: ice_get_vf_cfg`).
    ///
    /// # Errors
    /// If it has no link on the host; [`VfError::NoSettings`].
    pub fn find(node: &Node, pci: PciAddress, index: VfIndex) -> Result<(Self, VfSettings), Error> {
        let name = pf_link(&node.sysfs, pci, PF_LINK_TIMEOUT)?;
        let links = node.links()?;
        let (link, settings) = find_settings(index, REPORT_TIMEOUT, || links.pf(&name))?;
        let settings = settings.ok_or_else(|| VfError::NoSettings { pf: name.to_string(), index })?;
        Ok((Self { pci, link }, settings))
    }

    /// Returns the PF of a PCI address, with the settings of one of its VFs, if it reports them now.
    ///
    /// # Errors
    /// If it has no link on the host.
    fn find_now(node: &Node, pci: PciAddress, index: VfIndex) -> Result<(Self, Option<VfSettings>), Error> {
        let name = pf_link(&node.sysfs, pci, PF_LINK_TIMEOUT)?;
        let links = node.links()?;
        let (link, settings) = find_settings(index, Duration::ZERO, || links.pf(&name))?;
        Ok((Self { pci, link }, settings))
    }

    /// Returns the PF of a PCI address, without the settings of its VFs.
    ///
    /// # Errors
    /// If it has no link on the host.
    pub fn of(node: &Node, pci: PciAddress) -> Result<Self, Error> {
        let link = node.links()?.link(&pf_link(&node.sysfs, pci, PF_LINK_TIMEOUT)?)?;
        Ok(Self { pci, link })
    }

    /// Returns the part of a pod map entry of a function with `link`, without its own address.
    pub(crate) fn rdma_info(&self, link: Option<&Link>) -> RdmaInfo {
        RdmaInfo {
            pf_pci: Some(self.pci),
            host_netdev: link.map(|link| link.name.clone()),
            master: Some(self.link.name.clone()),
            ..RdmaInfo::default()
        }
    }
}

/// How long a PF may have no link on the node: a reload of its driver creates another one.
const PF_LINK_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the name of a PF's link, or waits for it.
fn pf_link(sysfs: &Sysfs, pf: PciAddress, timeout: Duration) -> Result<LinkName, Error> {
    let budget = Budget::of_call();
    let deadline = budget.until("the link of a PF", timeout);
    loop {
        match sysfs.pf_link(pf) {
            Err(error) if error.is_not_found() && deadline.has_passed() => {
                let driver = sysfs.driver(&Function::Pci(pf))?;
                return Err(VfError::NoPfLink { pf, driver }.into());
            }
            Err(error) if error.is_not_found() => thread::sleep(REPORT_DELAY.min(timeout)),
            found => return Ok(found?),
        }
    }
}

/// Reads a PF until it reports a VF, or until the timeout.
fn find_settings(
    index: VfIndex,
    timeout: Duration,
    mut read: impl FnMut() -> Result<(Link, Vec<(VfIndex, VfSettings)>), rtnl::Error>,
) -> Result<(Link, Option<VfSettings>), rtnl::Error> {
    let budget = Budget::of_call();
    let deadline = budget.until("the settings of a VF", timeout);
    loop {
        let (link, vfs) = read()?;
        let found = vfs.into_iter().find(|(number, _)| *number == index);
        if found.is_some() || deadline.has_passed() {
            return Ok((link, found.map(|(_, settings)| settings)));
        }
        thread::sleep(REPORT_DELAY.min(timeout));
    }
}

impl HostVf {
    /// Checks that a PCI address is a VF's, and returns its PF's.
    ///
    /// # Errors
    /// If there is no such function, or it is not a VF.
    pub fn exists(node: &Node, pci: PciAddress) -> Result<PciAddress, Error> {
        if !node.sysfs.has(&Function::Pci(pci))? {
            let msg =
                format!("deviceID: failed to get VF information: there is no PCI device {pci} on this node");
            return Err(CniError::config(msg)
                .with_details("was it a VF of a PF whose sriov_numvfs has changed?")
                .into());
        }
        node.sysfs.pf_of(pci)?.ok_or_else(|| {
            let msg = format!(
                "deviceID: failed to get VF information: PCI device {pci} is not a VF (it has no physfn)"
            );
            CniError::config(msg).into()
        })
    }

    /// Finds a VF that is on the host, or is returning to it.
    ///
    /// # Errors
    /// If it is not a VF, has no link, is in another namespace, is used by the node, or has another link layer.
    pub fn find(node: &Node, pci: PciAddress, layer: LinkLayer) -> Result<Self, Error> {
        let pf = Self::exists(node, pci)?;
        let index = node.sysfs.vf_index(pci)?;
        let link = host_link::find_unused(node, &Function::Pci(pci), layer)?;
        let (pf, settings) = VfParent::find_now(node, pf, index)?;
        Ok(Self { pci, pf, index, link, settings })
    }

    /// Waits for the settings, for an ADD that changes some: DEL has to restore them.
    ///
    /// # Errors
    /// As [`VfParent::find`].
    pub fn require_settings(&mut self, node: &Node) -> Result<(), Error> {
        if self.settings.is_none() {
            self.settings = Some(VfParent::find(node, self.pf.pci, self.index)?.1);
        }
        Ok(())
    }

    /// Returns the VF's part of a pod map entry.
    pub fn rdma_info(&self) -> RdmaInfo {
        let of_parent = self.pf.rdma_info(self.link.as_ref());
        RdmaInfo { pci: Some(self.pci), vf_index: Some(self.index.0), ..of_parent }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host_link::tests::link;

    #[test]
    fn the_link_of_a_pf_is_waited_for_and_its_absence_has_a_remedy() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("bus/pci/devices/0000:af:00.0/net");
        fs::create_dir_all(&net).unwrap();
        let (sysfs, pf) = (Sysfs::at(root.path()), "0000:af:00.0".parse().unwrap());
        let error = cni::Error::from(pf_link(&sysfs, pf, Duration::from_millis(20)).unwrap_err());
        assert_eq!(error.code, cni::ErrorCode::TRY_AGAIN);
        assert!(error.msg.contains("PF 0000:af:00.0 has no link") && error.details.contains("namespace"));
        let later = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            fs::create_dir(net.join("ens1f0np0")).unwrap();
        });
        assert_eq!(pf_link(&sysfs, pf, PF_LINK_TIMEOUT).unwrap().as_str(), "ens1f0np0");
        later.join().unwrap();
    }

    #[test]
    fn a_vf_that_its_pf_does_not_report_yet_is_waited_for() {
        let reads = |absent: usize, timeout: Duration| {
            let mut reads = 0;
            let vf = |number| (VfIndex(number), VfSettings::default());
            let read = || {
                reads += 1;
                let vfs = if reads > absent { vec![vf(0), vf(1)] } else { vec![vf(0)] };
                Ok((link(rtnl::ETHERNET), vfs))
            };
            let (_, settings) = find_settings(VfIndex(1), timeout, read).unwrap();
            (reads, settings.is_some())
        };
        assert_eq!(reads(0, REPORT_TIMEOUT), (1, true));
        assert_eq!(reads(2, REPORT_TIMEOUT), (3, true));
        assert_eq!(reads(9, Duration::ZERO), (1, false));
        assert!(!reads(9, Duration::from_millis(20)).1, "not for ever");
    }
}
