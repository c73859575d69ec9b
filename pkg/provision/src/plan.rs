//! What is to be done, without doing it.

use std::collections::BTreeMap;

use identifiers::{PciAddress, VfIndex};
use inventory::{Inventory, Pf};
use serde::Serialize;

use crate::{InvalidNodeFile, NodeFile, PfRecord, PfRefusal, PfSpec, PfStep, vf_policy::VfPolicy};

/// What the caller agrees to.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApplyPermissions {
    /// That VFs are removed, to make another number of them. Never those in use.
    pub recreate: bool,
    /// That PFs are changed although the node's own traffic may run over them.
    pub force: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct ProvisionPlan {
    /// For each PF that the file names, in the order of their addresses.
    pub pfs: Vec<PfPlan>,
    /// What the file names and the node does not have. The others are made all the same: a node that has lost one of
    /// eight rails must not come up in the wrong mode and without the VFs of the other seven.
    #[serde(skip)]
    pub missing: Vec<String>,
}

/// What is to be done with a PF.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PfPlan {
    /// Its address.
    pub pci: PciAddress,
    /// What a person calls it.
    pub name: String,
    /// How many VFs it should have.
    pub vfs: u32,
    /// What is done, in this order; nothing if it is refused.
    pub steps: Vec<PfStep>,
    /// Why nothing is done although something should be.
    pub refusal: Option<PfRefusal>,
    /// What stays other than it should be, and why.
    pub notes: Vec<String>,
    /// Whether the kernel binds new VFs by itself, as it was before us.
    #[serde(skip)]
    pub(crate) autoprobe: bool,
    /// How many of its VFs will have been made by us.
    #[serde(skip)]
    pub(crate) ours: u32,
}

impl PfPlan {
    /// The steps in words, those alike of several VFs as one: `VFs 0-7: bind to the driver`.
    pub fn summary(&self) -> Vec<String> {
        let mut groups: Vec<(String, Vec<VfIndex>)> = Vec::new();
        for step in &self.steps {
            let kind = step.kind();
            match groups
                .iter_mut()
                .find(|(other, vfs)| *other == kind && step.vf().is_some() && !vfs.is_empty())
            {
                Some((_, vfs)) => vfs.extend(step.vf()),
                None => groups.push((kind, step.vf().into_iter().collect())),
            }
        }
        groups.into_iter().map(|(kind, vfs)| of(&vfs) + &kind).collect()
    }
}

/// `VF 3: ` or `VFs 0-2, 5: `; nothing without VFs.
fn of(vfs: &[VfIndex]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for vf in vfs {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == vf.0 => *last = vf.0,
            _ => ranges.push((vf.0, vf.0)),
        }
    }
    let text = |(first, last): &(u32, u32)| {
        if first == last { format!("{first}") } else { format!("{first}-{last}") }
    };
    let texts: Vec<_> = ranges.iter().map(text).collect();
    match vfs {
        [] => String::new(),
        [vf] => format!("VF {vf}: "),
        _ => format!("VFs {}: ", texts.join(", ")),
    }
}

impl ProvisionPlan {
    /// Whether all is as it should be.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.pfs.iter().all(|pf| pf.steps.is_empty() && pf.refusal.is_none())
    }

    /// Why PFs are not changed.
    pub fn refusals(&self) -> impl Iterator<Item = &PfRefusal> {
        self.pfs.iter().filter_map(|pf| pf.refusal.as_ref())
    }
}

/// Plans how a node becomes as its file says. `remembered` is what is known of PFs from this boot.
///
/// # Errors
/// [`InvalidNodeFile::Content`] if the file speaks twice of a PF, or has too few GUIDs for one.
pub fn plan(
    file: &NodeFile,
    inventory: &Inventory,
    remembered: &BTreeMap<PciAddress, PfRecord>,
    consent: ApplyPermissions,
) -> Result<ProvisionPlan, InvalidNodeFile> {
    let mut missing = Vec::new();
    let mut chosen: BTreeMap<PciAddress, (usize, &Pf, &PfSpec)> = BTreeMap::new();
    for (number, settings) in file.pfs.iter().enumerate() {
        let wrong = |what| InvalidNodeFile::Content { path: format!("pfs[{number}].match"), what };
        let found = settings.matches.find(inventory);
        if found.is_empty() && !settings.optional {
            let there: Vec<_> =
                inventory.pfs.iter().map(|pf| format!("{} ({})", pf.name(), pf.pci)).collect();
            let what = format!("{} matches no PF; available: {}", settings.matches, there.join(", "));
            missing.push(wrong(what).to_string());
        }
        for pf in found {
            if let Some((other, ..)) = chosen.insert(pf.pci, (number, pf, settings)) {
                return Err(wrong(format!("PF {} is matched by pfs[{other}] too", pf.pci)));
            }
        }
    }
    let mut pfs = Vec::new();
    for (number, pf, settings) in chosen.into_values() {
        let consent = ApplyPermissions { force: consent.force || settings.force, ..consent };
        let policy = VfPolicy::of(file, settings, pf)
            .map_err(|what| InvalidNodeFile::Content { path: format!("pfs[{number}].vf.guid"), what })?;
        pfs.push(PlannedPf { pf, settings, policy, memory: remembered.get(&pf.pci), consent }.plan());
    }
    Ok(ProvisionPlan { pfs, missing })
}

/// A PF, and what it should be like.
struct PlannedPf<'a> {
    pf: &'a Pf,
    settings: &'a PfSpec,
    policy: VfPolicy<'a>,
    memory: Option<&'a PfRecord>,
    consent: ApplyPermissions,
}

impl PlannedPf<'_> {
    fn plan(&self) -> PfPlan {
        let mut plan = PfPlan {
            pci: self.pf.pci,
            name: self.pf.name(),
            vfs: self.settings.vfs,
            steps: Vec::new(),
            refusal: self.refusal(),
            notes: Vec::new(),
            autoprobe: self.former_autoprobe(),
            ours: 0,
        };
        if plan.refusal.is_none() && !self.settings.externally_managed {
            plan.steps = self.pf_steps();
            if self.pf.num_vfs == self.settings.vfs {
                self.repair(&mut plan);
            } else {
                plan.steps.extend(self.make_vfs());
            }
        }
        let made =
            plan.steps.iter().any(|step| matches!(step, PfStep::CreateVfs { .. } | PfStep::RemoveVfs { .. }));
        let before = self.memory.map_or(0, |memory| memory.vfs);
        plan.ours = if made { self.settings.vfs } else { before };
        plan
    }

    /// A run that was killed may have left it switched off.
    fn former_autoprobe(&self) -> bool {
        let interrupted = self.memory.filter(|memory| !memory.complete);
        interrupted.map_or(self.pf.autoprobe.unwrap_or(true), |memory| memory.autoprobe)
    }

    fn refusal(&self) -> Option<PfRefusal> {
        let (pf, wanted) = (self.pf, self.settings.vfs);
        if self.settings.externally_managed {
            return self.external();
        }
        let protected = !pf.protections.is_empty() && !self.consent.force;
        let protected = protected.then(|| PfRefusal::Protected(pf.protections.clone()));
        if pf.num_vfs == wanted {
            // Some drivers reset a PF whose MTU changes, and the switch may not take as much.
            return protected.filter(|_| self.changes_mtu());
        }
        if pf.total_vfs == 0 {
            return Some(PfRefusal::NoSriov { driver: pf.driver.clone() });
        }
        if wanted > pf.total_vfs {
            return Some(PfRefusal::TooMany { wanted, most: pf.total_vfs });
        }
        if let Some(in_use) = PfRefusal::in_use(pf.used_vfs()) {
            return Some(in_use);
        }
        if pf.num_vfs > 0 && !self.consent.recreate {
            let ours = self.memory.is_some_and(|memory| memory.vfs == pf.num_vfs);
            match wanted {
                0 if ours => {}
                0 => return Some(PfRefusal::NotOurs { have: pf.num_vfs }),
                _ => return Some(PfRefusal::NeedsRecreate { have: pf.num_vfs, wanted }),
            }
        }
        protected
    }

    fn changes_mtu(&self) -> bool {
        let is = self.pf.link.as_ref().map(|link| link.mtu);
        self.settings.mtu.zip(is).is_some_and(|(wanted, is)| wanted != is)
    }

    /// Of a PF that others manage nothing is changed. It need not be exactly so, but must do.
    fn external(&self) -> Option<PfRefusal> {
        let (have, wanted) = (self.pf.num_vfs, self.settings.vfs);
        let mtu = self.pf.link.as_ref().map(|link| link.mtu);
        if have < wanted {
            return Some(PfRefusal::External(format!(
                "has {}, at least {wanted} are wanted",
                crate::step::vfs(have)
            )));
        }
        let (is, least) = (mtu?, self.settings.mtu?);
        (is < least).then(|| PfRefusal::External(format!("has the MTU {is}, at least {least} is wanted")))
    }

    fn pf_steps(&self) -> Vec<PfStep> {
        let Some(link) = &self.pf.link else { return Vec::new() };
        let mut steps = Vec::new();
        if let Some(to) = self.settings.mtu.filter(|mtu| *mtu != link.mtu) {
            steps.push(PfStep::PfMtu { from: link.mtu, to });
        }
        if !link.up && self.settings.vfs > 0 {
            steps.push(PfStep::Up);
        }
        steps
    }

    /// VFs from nothing. They get their driver last, and once.
    fn make_vfs(&self) -> Vec<PfStep> {
        let (pf, count) = (self.pf, self.settings.vfs);
        let mut steps = Vec::new();
        if pf.num_vfs > 0 {
            steps.push(PfStep::RemoveVfs { count: pf.num_vfs });
        }
        let former = self.former_autoprobe();
        if count == 0 {
            steps.extend((pf.autoprobe == Some(!former)).then_some(PfStep::Autoprobe(former)));
            return steps;
        }
        if pf.autoprobe == Some(true) {
            steps.push(PfStep::Autoprobe(false));
        }
        steps.push(PfStep::CreateVfs { count });
        for vf in (0..count).map(VfIndex) {
            let changes = self.policy.settings_for_new_vf(vf).into_iter();
            steps.extend(changes.map(|change| PfStep::Configure { vf, change }));
        }
        steps.extend(self.bind((0..count).map(VfIndex).collect()));
        let mtu = self.settings.vf.mtu.into_iter();
        steps.extend(mtu.flat_map(|to| (0..count).map(move |vf| PfStep::VfMtu { vf: VfIndex(vf), to })));
        steps
    }

    /// Binds VFs while the kernel is allowed to, and leaves that as it was.
    fn bind(&self, vfs: Vec<VfIndex>) -> Vec<PfStep> {
        if vfs.is_empty() {
            return Vec::new();
        }
        let binds = vfs.into_iter().map(|vf| PfStep::Bind { vf });
        // Without the attribute the kernel is older than 4.12, and binds whatever it is asked to.
        let switchable = self.pf.autoprobe.is_some();
        let on = switchable.then_some(PfStep::Autoprobe(true));
        let off = (switchable && !self.former_autoprobe()).then_some(PfStep::Autoprobe(false));
        on.into_iter().chain(binds).chain(off).collect()
    }

    /// The number is right: is each VF?
    fn repair(&self, plan: &mut PfPlan) {
        let mut unbound = Vec::new();
        let mut mtus = Vec::new();
        for vf in &self.pf.vfs {
            let need = self.policy.update_for(vf);
            let lacks_driver = vf.driver.is_none();
            let mtu = self.settings.vf.mtu.filter(|mtu| vf.mtu.is_some_and(|is| is != *mtu));
            if !vf.is_free() {
                let other = need.changes.iter().map(|change| crate::step::VfSettingText(*change).to_string());
                let other: Vec<_> = other.chain(mtu.map(|mtu| format!("MTU to {mtu}"))).collect();
                if !other.is_empty() {
                    plan.notes.push(format!(
                        "VF {} is in use and stays as it is: not set: {}",
                        vf.index,
                        other.join(", ")
                    ));
                }
                continue;
            }
            if need.rebind && !lacks_driver {
                plan.steps.push(PfStep::Unbind { vf: vf.index });
            }
            plan.steps.extend(
                need.changes.iter().map(|change| PfStep::Configure { vf: vf.index, change: *change }),
            );
            if lacks_driver || need.rebind {
                unbound.push(vf.index);
                mtus.extend(self.settings.vf.mtu.map(|to| PfStep::VfMtu { vf: vf.index, to }));
            } else {
                mtus.extend(mtu.map(|to| PfStep::VfMtu { vf: vf.index, to }));
            }
        }
        let binds = self.bind(unbound);
        if binds.is_empty() && self.pf.autoprobe == Some(!plan.autoprobe) {
            plan.steps.push(PfStep::Autoprobe(plan.autoprobe));
        }
        // The kernel is told only what it does not know.
        let mut autoprobe = self.pf.autoprobe;
        for step in binds {
            match step {
                PfStep::Autoprobe(to) if autoprobe == Some(to) => {}
                PfStep::Autoprobe(to) => {
                    autoprobe = Some(to);
                    plan.steps.push(step);
                }
                _ => plan.steps.push(step),
            }
        }
        plan.steps.extend(mtus);
    }
}
