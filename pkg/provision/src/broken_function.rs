//! The problems of a PF or VF, the steps that may solve them, and what prevents the steps.

use std::fmt;

use identifiers::{LinkName, PciAddress};
use inventory::{Inventory, Pf, Vf, VfUser};
use rtnl::{Handle, Link};
use serde::{Serialize, Serializer};

use crate::{PciBackendError, SysfsBackend};

/// A PF or VF to repair.
#[derive(Debug)]
pub(crate) struct BrokenFunction {
    pub(crate) pci: PciAddress,
    link: Option<Link>,
    driver: Option<String>,
    has_rdma: bool,
    pub(crate) should_have_rdma: bool,
    /// Its users, and the users of its VFs, in words.
    users: Vec<String>,
    protections: Vec<String>,
    /// The number of its VFs, which are removed with its driver.
    vfs: u32,
    lacks_guid: bool,
}

/// A method of repairing a PF or VF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverMethod {
    /// Set the link down and up.
    Bounce,
    /// Unbind the driver and bind it again.
    Rebind,
    /// Unbind the driver, reset the function, and bind the driver again.
    Reset,
}

/// A step of repairing a PF or VF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverStep {
    /// Set its link down.
    Down,
    /// Set its link up.
    Up,
    /// Unbind its driver.
    Release,
    /// Reset it, by its sysfs attribute `reset`.
    Reset,
    /// Bind its driver.
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
        // A link that is not on the host is in a pod, or the driver failed to create it.
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

    /// Returns the problems that are visible on the node.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.driver.is_none() {
            problems.push("no driver is bound to it".to_owned());
        }
        match &self.link {
            Some(link) if !link.up => problems.push("its link is down".into()),
            Some(link) if !link.running => problems.push(
                "its link is up but has no carrier: check the cable, the switch and dmesg (--by bounce sets it down \
                 and up)"
                    .into(),
            ),
            Some(_) => {}
            None if self.driver.is_some() => problems.push("it has no link on the host".into()),
            None => {}
        }
        if self.driver.is_some() && self.should_have_rdma && !self.has_rdma {
            problems.push("it has no RDMA device on the host".into());
        }
        if self.lacks_guid {
            problems.push(
                "its RDMA device has no GUID: the PF must assign it an address (silkrail apply)".into(),
            );
        }
        problems
    }

    /// Returns the steps of a method; without one, the least disruptive steps that may help.
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
            // Setting the link down and up would remove its routes, and rarely restores the carrier.
            (None, Some(link)) if !link.running => Vec::new(),
            (None, _) if !self.problems().is_empty() => rebind(false),
            (None, _) => Vec::new(),
        }
    }

    /// Returns the reasons why these steps must not be taken.
    pub(crate) fn obstacles(&self, steps: &[RecoverStep], force: bool) -> Vec<String> {
        // Setting a link up or binding a driver affects no user.
        if !steps
            .iter()
            .any(|step| matches!(step, RecoverStep::Down | RecoverStep::Release | RecoverStep::Reset))
        {
            return Vec::new();
        }
        let restarts_driver =
            steps.iter().any(|step| matches!(step, RecoverStep::Release | RecoverStep::Reset));
        let lost = (self.vfs > 0 && restarts_driver).then(|| {
            format!(
                "its {} VFs would be removed with its driver: silkrail apply creates them again",
                self.vfs
            )
        });
        let soft = self.protections.iter().cloned().chain(lost).filter(|_| !force);
        let hint = |why: String| format!("{why} (use --force-pf to do it anyway)");
        self.users.iter().cloned().chain(soft.map(hint)).collect()
    }

    /// Sets its link up or down. The link is looked up again, since the driver may have renamed it.
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
            Self::Release => "unbind the driver",
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
    use inventory::ProtectionReason;

    use super::*;
    use crate::tests::{pf as healthy_pf, vf};

    fn links() -> Handle {
        Handle::open().unwrap()
    }

    fn pf(users: Vec<VfUser>, num_vfs: u32) -> BrokenFunction {
        let pf = Pf { link: None, rdma: Vec::new(), num_vfs, users, ..healthy_pf(0) };
        BrokenFunction::of_pf(&pf, &links())
    }

    fn process(pid: u32) -> VfUser {
        VfUser::Process { device: "mlx5_0".into(), process: format!("train.py (pid {pid})") }
    }

    const METHODS: [RecoverMethod; 3] = [RecoverMethod::Bounce, RecoverMethod::Rebind, RecoverMethod::Reset];

    /// The host-device plugin moves whole PFs into pods.
    #[test]
    fn a_pf_that_a_pod_has_is_left_alone() {
        let link = VfUser::LinkElsewhere { driver: "mlx5_core".into() };
        for user in [link, VfUser::RdmaElsewhere { uverbs: "uverbs7".into() }] {
            let elsewhere = pf(vec![user], 0);
            let steps = elsewhere.plan(None);
            assert!(steps.contains(&RecoverStep::Release), "no less disruptive step: {steps:?}");
            assert!(elsewhere.obstacles(&steps, false)[0].contains("--force-pf"));
            assert!(
                elsewhere.obstacles(&steps, true).is_empty(),
                "its driver may have failed to create the link"
            );
        }
    }

    #[test]
    fn a_function_in_use_is_left_alone_by_every_method() {
        let mut with_vfs = Pf { users: vec![process(7)], ..healthy_pf(3) };
        with_vfs.vfs[1].users = vec![process(8), process(9)];
        with_vfs.vfs[2].users = vec![process(10)];
        let of_vf = BrokenFunction::of_vf(&with_vfs, &with_vfs.vfs[1], &links());
        let of_pf = BrokenFunction::of_pf(&with_vfs, &links());
        for method in METHODS {
            let of = |function: &BrokenFunction| function.obstacles(&function.plan(Some(method)), true);
            assert_eq!((of(&of_pf).len(), of(&of_vf).len()), (4, 2), "{method:?}");
            assert!(of(&of_pf)[3].starts_with("VF 2 (0000:af:00.3) is in use: "), "{:?}", of(&of_pf));
        }
        let unbound = BrokenFunction { driver: None, ..of_pf };
        assert_eq!(
            unbound.obstacles(&unbound.plan(None), false),
            [""; 0],
            "binding a driver affects no user"
        );
    }

    #[test]
    fn a_pf_that_the_node_depends_on_needs_force_by_every_method() {
        let route = ProtectionReason::DefaultRoute { link: "ens6f0np0".parse().unwrap() };
        let of_node = BrokenFunction::of_pf(&Pf { protections: vec![route], ..healthy_pf(0) }, &links());
        for method in METHODS {
            let steps = of_node.plan(Some(method));
            assert!(of_node.obstacles(&steps, false)[0].contains("default route"), "{method:?}");
            assert_eq!(of_node.obstacles(&steps, true), [""; 0], "{method:?}");
        }
    }

    #[test]
    fn a_pf_whose_driver_is_bound_again_loses_its_vfs() {
        let pf = pf(Vec::new(), 8);
        for method in [RecoverMethod::Rebind, RecoverMethod::Reset] {
            let why = pf.obstacles(&pf.plan(Some(method)), false);
            assert!(why[0].starts_with("its 8 VFs would be removed with its driver"), "{why:?}");
        }
        assert!(pf.obstacles(&pf.plan(Some(RecoverMethod::Bounce)), false).is_empty());
        let one = self::pf(Vec::new(), 1);
        assert_eq!(one.obstacles(&one.plan(Some(RecoverMethod::Rebind)), false).len(), 1);
    }

    #[test]
    fn a_function_is_found_by_each_of_its_names_on_any_pf() {
        let mut second = Pf { pci: "0000:b0:00.0".parse().unwrap(), rdma: Vec::new(), ..healthy_pf(0) };
        second.link.as_mut().unwrap().name = "ens7f0np0".parse().unwrap();
        let (pci, link) = ("0000:b0:00.2".parse().unwrap(), "eth9".parse().ok());
        second.vfs = vec![Vf { pci, link, rdma: Some("mlx5_9".into()), ..vf(0, true) }];
        let inventory = Inventory { pfs: vec![healthy_pf(2), second] };
        let found = |name: &str| {
            BrokenFunction::find(&inventory, name, &links()).map(|function| function.pci.to_string())
        };
        for (name, expected) in [
            ("eth1", Some("0000:af:00.2")),
            ("mlx5_1", Some("0000:af:00.1")),
            ("ens7f0np0", Some("0000:b0:00.0")),
            ("eth9", Some("0000:b0:00.2")),
            ("mlx5_9", Some("0000:b0:00.2")),
            ("0000:b0:00.2", Some("0000:b0:00.2")),
            ("eth7", None),
        ] {
            assert_eq!(found(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn the_least_disruptive_steps_are_those_for_the_problem() {
        use RecoverStep::{Bind, Down, Release, Reset, Up};
        let lo = links().link(&"lo".parse().unwrap()).unwrap();
        let link = |up, running| Some(Link { up, running, ..lo.clone() });
        let healthy =
            || BrokenFunction { link: link(true, true), ..BrokenFunction::of_pf(&healthy_pf(0), &links()) };
        for (function, problem, steps) in [
            (healthy(), "", &[][..]),
            (BrokenFunction { link: link(false, false), ..healthy() }, "its link is down", &[Up]),
            (BrokenFunction { link: link(true, false), ..healthy() }, "no carrier", &[]),
            (BrokenFunction { link: None, ..healthy() }, "no link on the host", &[Release, Bind, Up]),
            (BrokenFunction { has_rdma: false, ..healthy() }, "no RDMA device", &[Release, Bind, Up]),
            (BrokenFunction { lacks_guid: true, ..healthy() }, "has no GUID", &[Release, Bind, Up]),
            (BrokenFunction { driver: None, link: None, ..healthy() }, "no driver is bound", &[Bind, Up]),
        ] {
            let problems = function.problems();
            assert_eq!(problems.len(), usize::from(!problem.is_empty()), "{problems:?}");
            assert!(problems.iter().all(|it| it.contains(problem)), "{problems:?}");
            assert_eq!(function.plan(None), steps, "{problem}");
        }
        let without_rdma = BrokenFunction { has_rdma: false, should_have_rdma: false, ..healthy() };
        assert!(without_rdma.problems().is_empty(), "its PF has none either");
        let unbound = BrokenFunction { driver: None, link: None, ..healthy() };
        assert_eq!(unbound.plan(Some(RecoverMethod::Reset)), [Reset, Bind, Up]);
        assert_eq!(healthy().plan(Some(RecoverMethod::Bounce)), [Down, Up]);
    }

    #[test]
    fn a_vf_should_have_what_its_pf_has() {
        let pf = healthy_pf(1);
        let of = |vf: &Vf, pf: &Pf| BrokenFunction::of_vf(pf, vf, &links()).problems();
        let without = Vf { rdma: None, node_guid: None, ..pf.vfs[0].clone() };
        assert!(of(&without, &pf).iter().any(|it| it.contains("no RDMA device")));
        assert!(!of(&without, &Pf { rdma: Vec::new(), ..pf.clone() }).iter().any(|it| it.contains("RDMA")));
        assert!(of(&pf.vfs[0], &pf).iter().any(|it| it.contains("has no GUID")), "{pf:?}");
    }
}
