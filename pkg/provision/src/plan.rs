//! Plans the changes of a node, without I/O.

use std::collections::BTreeMap;

use identifiers::{PciAddress, VfIndex};
use inventory::Pf;
use serde::Serialize;

use crate::{
    DcbRecord, InvalidNodeFile, NodeFile, NodeReading, PfRecord, PfRefusal, PfSpec, PfStep,
    dcb_plan::{DcbPlan, DcbState},
    vf_policy::VfPolicy,
};

/// The disruptive changes that are permitted.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApplyPermissions {
    /// Whether VFs may be removed to create another number of them. VFs in use are never removed.
    pub recreate: bool,
    /// Whether PFs may be changed even if the node's own traffic may run over them.
    pub force: bool,
}

/// The changes of a node.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct ProvisionPlan {
    /// The PFs that the file matches, in the order of their PCI addresses.
    pub pfs: Vec<PfPlan>,
    /// Entries that match no PF, as error messages. Other PFs are still configured: a node that has lost one of eight
    /// rails must not come up in the wrong mode and without the VFs of the other seven.
    #[serde(skip)]
    pub missing: Vec<String>,
}

/// The changes of a PF.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PfPlan {
    /// Its PCI address.
    pub pci: PciAddress,
    /// Its name: its link, or its PCI address.
    pub name: String,
    /// The wanted number of VFs.
    pub vfs: u32,
    /// The steps in order; empty if the PF is refused.
    pub steps: Vec<PfStep>,
    /// Why the PF is not changed although it differs from the file.
    pub refusal: Option<PfRefusal>,
    /// Why only its DCB settings are not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcb_refusal: Option<PfRefusal>,
    /// Differences that remain, and why.
    pub notes: Vec<String>,
    /// The value of `sriov_drivers_autoprobe` before the first run.
    #[serde(skip)]
    pub(crate) autoprobe: bool,
    /// The number of VFs that silkrail will have created.
    #[serde(skip)]
    pub(crate) ours: u32,
    /// The record of its DCB settings before the first step.
    #[serde(skip)]
    pub(crate) dcb: DcbRecord,
    /// Whether that record differs from the one in the file, even if there are no steps.
    #[serde(skip)]
    pub(crate) dcb_record_differs: bool,
}

impl PfPlan {
    /// Returns the steps in words. Equal steps of several VFs are combined: `VFs 0-7: bind to the driver`.
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
        groups.into_iter().map(|(kind, vfs)| prefix(&vfs) + &kind).collect()
    }
}

/// Returns `VF 3: ` or `VFs 0-2, 5: `; empty without VFs.
fn prefix(vfs: &[VfIndex]) -> String {
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
    /// Whether nothing needs to change.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty()
            && self.pfs.iter().all(|pf| pf.steps.is_empty())
            && self.refusals().next().is_none()
    }

    /// Returns the reasons why PFs are not changed.
    pub fn refusals(&self) -> impl Iterator<Item = &PfRefusal> {
        self.pfs.iter().flat_map(|pf| pf.refusal.iter().chain(&pf.dcb_refusal))
    }
}

/// Plans the changes from the state of the node to the node file.
///
/// # Errors
/// [`InvalidNodeFile::Content`] if two entries match one PF, or a PF has too few GUIDs.
pub fn plan(
    file: &NodeFile,
    node: &NodeReading,
    consent: ApplyPermissions,
) -> Result<ProvisionPlan, InvalidNodeFile> {
    let inventory = &node.inventory;
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
                return Err(wrong(format!("PF {} is also matched by pfs[{other}]", pf.pci)));
            }
        }
    }
    let mut pfs = Vec::new();
    for (number, pf, settings) in chosen.into_values() {
        let consent = ApplyPermissions { force: consent.force || settings.force, ..consent };
        let policy = VfPolicy::of(file, settings, pf)
            .map_err(|what| InvalidNodeFile::Content { path: format!("pfs[{number}].vf.guid"), what })?;
        let memory = node.records.get(&pf.pci);
        let dcb = DcbState {
            pf,
            reading: node.dcb.get(&pf.pci),
            wanted: settings.dcb.as_ref(),
            record: memory.map(|memory| memory.dcb.clone()).unwrap_or_default(),
        };
        pfs.push(PlannedPf { pf, settings, policy, memory, dcb, consent }.plan());
    }
    Ok(ProvisionPlan { pfs, missing })
}

/// A PF with its wanted configuration.
struct PlannedPf<'a> {
    pf: &'a Pf,
    settings: &'a PfSpec,
    policy: VfPolicy<'a>,
    memory: Option<&'a PfRecord>,
    dcb: DcbState<'a>,
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
            dcb_refusal: None,
            notes: Vec::new(),
            autoprobe: self.former_autoprobe(),
            ours: 0,
            dcb: self.dcb.record.clone(),
            dcb_record_differs: false,
        };
        if plan.refusal.is_none() && self.settings.externally_managed {
            let DcbPlan { refusal, notes, .. } = self.dcb.external();
            (plan.dcb_refusal, plan.notes) = (refusal, notes);
        } else if plan.refusal.is_none() {
            plan.steps = self.pf_steps();
            let DcbPlan { changes, record, refusal, notes } = self.dcb.plan(self.consent.force);
            plan.steps.extend(changes.into_iter().map(PfStep::Dcb));
            plan.dcb_record_differs = record != self.dcb.record;
            (plan.dcb, plan.dcb_refusal, plan.notes) = (record, refusal, notes);
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

    /// The value of autoprobe before the first run; a killed run may have left it off.
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
            // Some drivers reset a PF when its MTU changes, and the switch may not support the MTU.
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

    /// Compares an externally managed PF. Its number of VFs and its MTU must be at least those in the file.
    fn external(&self) -> Option<PfRefusal> {
        let (have, wanted) = (self.pf.num_vfs, self.settings.vfs);
        let mtu = self.pf.link.as_ref().map(|link| link.mtu);
        if have < wanted {
            return Some(PfRefusal::External(format!(
                "has {}, expected at least {wanted}",
                crate::step::vfs(have)
            )));
        }
        match (mtu, self.settings.mtu) {
            (Some(is), Some(least)) if is < least => {
                Some(PfRefusal::External(format!("has the MTU {is}, expected at least {least}")))
            }
            _ => None,
        }
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

    /// Returns the steps that create all VFs. Their drivers are bound last, and once.
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

    /// Returns the steps that bind VFs: autoprobe is on meanwhile, and then has its former value.
    fn bind(&self, vfs: Vec<VfIndex>) -> Vec<PfStep> {
        if vfs.is_empty() {
            return Vec::new();
        }
        let binds = vfs.into_iter().map(|vf| PfStep::Bind { vf });
        // Kernels before 4.12 do not have the attribute, and bind VFs on request.
        let switchable = self.pf.autoprobe.is_some();
        let on = switchable.then_some(PfStep::Autoprobe(true));
        let off = (switchable && !self.former_autoprobe()).then_some(PfStep::Autoprobe(false));
        on.into_iter().chain(binds).chain(off).collect()
    }

    /// Adds the steps for existing VFs, whose number is correct.
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
                        "VF {} is in use and is left unchanged; not set: {}",
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
        // Skip writes of the current value.
        let mut autoprobe = self.pf.autoprobe;
        for step in binds {
            match step {
                PfStep::Autoprobe(to) if autoprobe == Some(to) => {}
                PfStep::Autoprobe(to) => {
                    autoprobe = Some(to);
                    plan.steps.push(PfStep::Autoprobe(to));
                }
                _ => plan.steps.push(step),
            }
        }
        plan.steps.extend(mtus);
    }
}
