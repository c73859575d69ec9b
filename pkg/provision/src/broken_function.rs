//! What is wrong with a function, what may help, and who is in the way.

use std::fmt;

use identifiers::{LinkName, PciAddress};
use inventory::{Inventory, Pf, Vf, VfUser};
use rtnl::{Handle, Link};
use serde::{Serialize, Serializer};

use crate::{PciBackendError, SysfsBackend};

/// A function that does not work, or should.
#[derive(Debug)]
pub(crate) struct BrokenFunction {
    pub(crate) pci: PciAddress,
    link: Option<Link>,
    driver: Option<String>,
    has_rdma: bool,
    pub(crate) should_have_rdma: bool,
    /// Who uses it, or what is below it.
    users: Vec<String>,
    protections: Vec<String>,
    /// How many VFs its driver would take away.
    vfs: u32,
    lacks_guid: bool,
}

/// What may bring a function back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverMethod {
    /// The link goes down and up.
    Bounce,
    /// The driver lets it go and takes it anew.
    Rebind,
    /// The function is reset in between.
    Reset,
}

/// A step of recovering it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverStep {
    /// Its link goes down.
    Down,
    /// Its link goes up.
    Up,
    /// Its driver lets it go.
    Release,
    /// It is reset.
    Reset,
    /// Its driver takes it.
    Bind,
}

impl BrokenFunction {
    pub(crate) fn find(inventory: &Inventory, name: &str, links: &Handle) -> Option<Self> {
        if let Some(pf) = inventory.find(name) {
            return Some(Self::of_pf(pf, links));
        }
        let is = |vf: &&Vf| {
            vf.pci.to_string() == name
                || vf.link.as_ref().is_some_and(|link| link.as_str() == name)
                || vf.rdma.as_deref() == Some(name)
        };
        inventory.pfs.iter().find_map(|pf| Some(Self::of_vf(pf, pf.vfs.iter().find(is)?, links)))
    }

    fn of_pf(pf: &Pf, links: &Handle) -> Self {
        let in_use = pf.used_vfs().flat_map(|vf| {
            vf.users.iter().map(move |user| format!("VF {} ({}) is in use: {user}", vf.index, vf.pci))
        });
        // A link that is not here is in a pod, or the driver has failed to make it.
        let is_elsewhere =
            |user: &&VfUser| matches!(user, VfUser::LinkElsewhere { .. } | VfUser::RdmaElsewhere { .. });
        let (elsewhere, own): (Vec<_>, Vec<_>) = pf.users.iter().partition(is_elsewhere);
        let protections = pf.protections.iter().map(ToString::to_string);
        Self {
            pci: pf.pci,
            link: pf.link.as_ref().and_then(|link| found(links, &link.name)),
            driver: pf.driver.clone(),
            has_rdma: !pf.rdma.is_empty(),
            should_have_rdma: !pf.rdma.is_empty(),
            users: own.iter().map(ToString::to_string).chain(in_use).collect(),
            protections: protections.chain(elsewhere.iter().map(ToString::to_string)).collect(),
            vfs: pf.num_vfs,
            lacks_guid: false,
        }
    }

    fn of_vf(pf: &Pf, vf: &Vf, links: &Handle) -> Self {
        Self {
            pci: vf.pci,
            link: vf.link.as_ref().and_then(|name| found(links, name)),
            driver: vf.driver.clone(),
            has_rdma: vf.rdma.is_some(),
            should_have_rdma: !pf.rdma.is_empty(),
            users: vf.users.iter().map(ToString::to_string).collect(),
            protections: Vec::new(),
            vfs: 0,
            lacks_guid: vf.lacks_guid(),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.link.as_ref().map_or_else(|| self.pci.to_string(), |link| link.name.clone())
    }

    /// What the node shows to be wrong.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.driver.is_none() {
            wrong.push("no driver is bound to it".to_owned());
        }
        match &self.link {
            Some(link) if !link.up => wrong.push("its link is down".into()),
            Some(link) if !link.running => wrong.push("its link is up and has no carrier: see the cable, the switch and dmesg (--by bounce takes it down and up)".into()),
            Some(_) => {}
            None if self.driver.is_some() => wrong.push("it has no link here".into()),
            None => {}
        }
        if self.driver.is_some() && self.should_have_rdma && !self.has_rdma {
            wrong.push("it has no RDMA device here".into());
        }
        if self.lacks_guid {
            wrong.push(
                "its RDMA device has no GUID: its PF has to give it an address (silkrail apply)".into(),
            );
        }
        wrong
    }

    /// What is to be done.
    pub(crate) fn plan(&self, by: Option<RecoverMethod>) -> Vec<RecoverStep> {
        let bound = self.driver.is_some();
        let rebind = |reset: bool| {
            let release = bound.then_some(RecoverStep::Release);
            let reset = reset.then_some(RecoverStep::Reset);
            release.into_iter().chain(reset).chain([RecoverStep::Bind, RecoverStep::Up]).collect()
        };
        match (by, &self.link) {
            (Some(RecoverMethod::Bounce), _) => vec![RecoverStep::Down, RecoverStep::Up],
            (Some(RecoverMethod::Rebind), _) => rebind(false),
            (Some(RecoverMethod::Reset), _) => rebind(true),
            (None, _) if !bound => vec![RecoverStep::Bind, RecoverStep::Up],
            (None, Some(link)) if !link.up => vec![RecoverStep::Up],
            // Down and up again would cost it its routes, and rarely brings a carrier.
            (None, Some(link)) if !link.running => Vec::new(),
            (None, _) if !self.wrong().is_empty() => rebind(false),
            (None, _) => Vec::new(),
        }
    }

    /// Why these steps must not be made.
    pub(crate) fn in_the_way(&self, steps: &[RecoverStep], force: bool) -> Vec<String> {
        // What only goes up, or gets a driver, takes nothing from anybody.
        if !steps
            .iter()
            .any(|step| matches!(step, RecoverStep::Down | RecoverStep::Release | RecoverStep::Reset))
        {
            return Vec::new();
        }
        let begins_anew = steps.iter().any(|step| matches!(step, RecoverStep::Release | RecoverStep::Reset));
        let lost = (self.vfs > 0 && begins_anew).then(|| {
            format!("its {} VFs would go with its driver: silkrail apply makes them again", self.vfs)
        });
        let soft = self.protections.iter().cloned().chain(lost).filter(|_| !force);
        let hint = |why: String| format!("{why} (--force-pf does it all the same)");
        self.users.iter().cloned().chain(soft.map(hint)).collect()
    }

    /// Sets its link up or down; its driver may have given it another name by now.
    pub(crate) fn set_up(&self, system: &SysfsBackend, up: bool) -> Result<(), PciBackendError> {
        let links = system.sysfs.links(&sysfs::Function::Pci(self.pci))?;
        let handle = Handle::open()?;
        if let Some(name) = links.first() {
            handle.set_up(handle.link(name)?.index, up)?;
        }
        Ok(())
    }
}

fn found(links: &Handle, name: &LinkName) -> Option<Link> {
    links.find_link(name).ok().flatten()
}

impl fmt::Display for RecoverStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "set the link down",
            Self::Up => "set the link up",
            Self::Release => "let the driver go",
            Self::Reset => "reset the function",
            Self::Bind => "bind the driver",
        })
    }
}

impl Serialize for RecoverStep {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use inventory::PciIds;

    use super::*;

    fn pf(users: Vec<VfUser>, num_vfs: u32) -> BrokenFunction {
        let pf = Pf {
            pci: "0000:af:00.0".parse().unwrap(),
            ids: None::<PciIds>,
            driver: Some("mlx5_core".into()),
            link: None,
            rdma: Vec::new(),
            guid: None,
            total_vfs: 8,
            num_vfs,
            autoprobe: Some(true),
            protections: Vec::new(),
            users,
            vfs: Vec::new(),
        };
        BrokenFunction::of_pf(&pf, &Handle::open().unwrap())
    }

    /// A host-device plugin gives pods whole PFs.
    #[test]
    fn a_pf_that_a_pod_has_is_left_alone() {
        let elsewhere = pf(vec![VfUser::LinkElsewhere { driver: "mlx5_core".into() }], 0);
        let steps = elsewhere.plan(None);
        assert!(steps.contains(&RecoverStep::Release), "nothing gentler is left: {steps:?}");
        assert!(elsewhere.in_the_way(&steps, false)[0].contains("--force-pf"));
        assert!(elsewhere.in_the_way(&steps, true).is_empty(), "its driver may have failed to make the link");
        let open = VfUser::Process { device: "mlx5_0".into(), process: "train.py (pid 7)".into() };
        let open = pf(vec![open], 0);
        for force in [false, true] {
            assert_eq!(
                open.in_the_way(&open.plan(Some(RecoverMethod::Reset)), force).len(),
                1,
                "force: {force}"
            );
        }
    }

    #[test]
    fn a_pf_whose_driver_begins_anew_loses_its_vfs() {
        let pf = pf(Vec::new(), 8);
        let why = pf.in_the_way(&pf.plan(Some(RecoverMethod::Rebind)), false);
        assert!(why[0].starts_with("its 8 VFs would go with its driver"), "{why:?}");
        assert!(pf.in_the_way(&pf.plan(Some(RecoverMethod::Bounce)), false).is_empty());
    }
}
