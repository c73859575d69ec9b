//! The users of PFs and VFs.

mod claims;
mod evidence;
mod kubelet;
mod rdma;
mod user_space;

use sysfs::{Function, Sysfs};

pub use self::evidence::VfUser;
pub(crate) use self::{
    claims::ClaimIndex,
    evidence::FunctionView,
    kubelet::KubeletUsers,
    rdma::{OpenContexts, kernel_users},
    user_space::VfioUsers,
};
use crate::{Error, NodePaths, Vf, links::HostLinks};

/// The sources of evidence, read once for all functions.
pub(crate) struct UsageEvidence {
    sysfs: Sysfs,
    claims: ClaimIndex,
    kubelet: KubeletUsers,
    contexts: OpenContexts,
    user_space: VfioUsers,
}

impl UsageEvidence {
    pub(crate) fn read(node: &NodePaths) -> Result<Self, Error> {
        Ok(Self {
            sysfs: node.sysfs(),
            claims: ClaimIndex::read(node)?,
            kubelet: KubeletUsers::read(&node.root)?,
            contexts: OpenContexts::read(node)?,
            user_space: VfioUsers::at(&node.root),
        })
    }

    /// Returns the evidence that a VF is in use.
    pub(crate) fn of(&self, vf: &Vf, links: &HostLinks) -> Result<Vec<VfUser>, Error> {
        let rdma: Vec<String> = vf.rdma.iter().cloned().collect();
        let (driver, link) = (vf.driver.as_deref(), vf.link.as_ref());
        let mut users = self.of_function(&FunctionView { pci: vf.pci, driver, link, rdma: &rdma })?;
        if let Some(link) = link {
            let addresses = links.addresses(link)?.into_iter();
            users.extend(addresses.map(|address| VfUser::Address { link: link.clone(), address }));
        }
        Ok(users)
    }

    /// Returns the evidence that a PF itself is in use. Its bond or bridge is a [`crate::ProtectionReason`] instead.
    pub(crate) fn of_pf(&self, pf: &FunctionView<'_>) -> Result<Vec<VfUser>, Error> {
        let master = pf.link.map(|link| self.sysfs.master(link)).transpose()?.flatten();
        let mut users = self.of_function(pf)?;
        users.retain(|user| !matches!(user, VfUser::Upper { upper, .. } if Some(upper) == master.as_ref()));
        Ok(users)
    }

    fn of_function(&self, seen: &FunctionView<'_>) -> Result<Vec<VfUser>, Error> {
        let mut users = self.claims.of(seen, &self.all_uppers(seen)?);
        users.extend(self.kubelet.of(seen.pci));
        users.extend(self.elsewhere(seen)?);
        users.extend(seen.rdma.iter().flat_map(|device| self.contexts.of(device)));
        users.extend(self.user_space.of(&self.sysfs, seen.pci)?);
        if let Some(link) = seen.link {
            let uppers = self.sysfs.uppers(link)?;
            users.extend(uppers.into_iter().map(|upper| VfUser::Upper { link: link.clone(), upper }));
        }
        Ok(users)
    }

    /// Returns the links on top of a function's link, and those on top of them: a VLAN of a bond of it.
    fn all_uppers(&self, seen: &FunctionView<'_>) -> Result<Vec<String>, Error> {
        let mut all = seen.link.map(|link| self.sysfs.uppers(link)).transpose()?.unwrap_or_default();
        let mut at = 0;
        while let Some(upper) = all.get(at) {
            let next =
                upper.parse().map(|upper| self.sysfs.uppers(&upper)).unwrap_or_else(|_| Ok(Vec::new()))?;
            for link in next {
                if !all.contains(&link) {
                    all.push(link);
                }
            }
            at += 1;
        }
        Ok(all)
    }

    /// Returns the devices of a function that exist in another network namespace.
    fn elsewhere(&self, seen: &FunctionView<'_>) -> Result<Vec<VfUser>, Error> {
        let mut found = Vec::new();
        if let (Some(driver), None) = (seen.driver, seen.link)
            && self.sysfs.user_space_nodes(&Function::Pci(seen.pci))?.is_none()
        {
            found.push(VfUser::LinkElsewhere { driver: driver.to_owned() });
        }
        if seen.rdma.is_empty() {
            let uverbs = self.sysfs.uverbs(&Function::Pci(seen.pci))?;
            found.extend(uverbs.into_iter().map(|uverbs| VfUser::RdmaElsewhere { uverbs }));
        }
        Ok(found)
    }
}
