//! Plans the changes of a PF's DCB settings.

use dcb::{DcbChange, DcbSettings, WantedDcb, host_mode_remedy};
use inventory::{Pf, VfUser};

use crate::PfRefusal;

/// A PF's DCB settings: as they are, as they should be, and what was changed since the boot.
pub(crate) struct DcbState<'a> {
    pub(crate) pf: &'a Pf,
    /// The current settings; `None` if the driver has none.
    pub(crate) settings: Option<&'a DcbSettings>,
    pub(crate) wanted: Option<&'a WantedDcb>,
    /// The changes that silkrail has made.
    pub(crate) made: &'a [DcbChange],
}

/// The changes of a PF's DCB settings.
#[derive(Debug, Default)]
pub(crate) struct DcbPlan {
    /// The changes in order; empty if they are refused.
    pub(crate) changes: Vec<DcbChange>,
    /// The changes since the boot, after these.
    pub(crate) made: Vec<DcbChange>,
    /// Why they are refused.
    pub(crate) refusal: Option<PfRefusal>,
    /// Changes that are not reverted, and why.
    pub(crate) notes: Vec<String>,
}

impl DcbState<'_> {
    /// Plans the changes. `force` permits them even if the node's own traffic may run over the PF.
    pub(crate) fn plan(&self, force: bool) -> DcbPlan {
        let mut plan = DcbPlan { made: self.made.to_vec(), ..DcbPlan::default() };
        let Some(settings) = self.settings else {
            let wants = self.wanted.is_some_and(|wanted| *wanted != WantedDcb::default());
            plan.refusal = wants.then(|| PfRefusal::DcbUnsupported(vec!["DCB"]));
            return plan;
        };
        let mut changes = self.reverts(settings, &mut plan);
        changes.extend(self.wanted.map(|wanted| wanted.changes(settings)).unwrap_or_default());
        plan.refusal = self.refusal(settings, &changes, force);
        if plan.refusal.is_none() {
            changes.iter().cloned().for_each(|change| change.record(&mut plan.made));
            plan.changes = changes;
        }
        plan
    }

    /// Compares a PF that another program manages.
    pub(crate) fn external(&self) -> Option<PfRefusal> {
        let wanted = self.wanted?;
        let Some(settings) = self.settings else { return Some(PfRefusal::DcbUnsupported(vec!["DCB"])) };
        let changes: Vec<_> = wanted.changes(settings).iter().map(ToString::to_string).collect();
        let differs = || PfRefusal::External(format!("its DCB settings differ: {}", changes.join(", ")));
        (!changes.is_empty()).then(differs)
    }

    /// Returns the reverts of changes to settings that the node file does not contain any more, the latest first. A setting that
    /// another program has changed since is left as it is, and forgotten.
    fn reverts(&self, settings: &DcbSettings, plan: &mut DcbPlan) -> Vec<DcbChange> {
        let is_unwanted =
            |change: &&DcbChange| !self.wanted.is_some_and(|wanted| wanted.wants_setting_of(change));
        let mut reverts = Vec::new();
        for change in self.made.iter().filter(is_unwanted).rev() {
            if change.is_in_place(settings) {
                reverts.push(change.inverse());
            } else {
                plan.made.retain(|made| made != change);
                plan.notes.push(format!("not reverted, since another program has changed it: {change}"));
            }
        }
        reverts
    }

    fn refusal(&self, settings: &DcbSettings, changes: &[DcbChange], force: bool) -> Option<PfRefusal> {
        let lacks = self.wanted.map(|wanted| wanted.unsupported(settings)).unwrap_or_default();
        if !lacks.is_empty() {
            return Some(PfRefusal::DcbUnsupported(lacks));
        }
        if changes.is_empty() {
            return None;
        }
        if settings.dcbx.is_some_and(|mode| mode.is_by_firmware()) {
            let remedy = host_mode_remedy(self.pf.driver.as_deref(), &self.pf.name());
            return Some(PfRefusal::DcbByFirmware { remedy });
        }
        let users = self.users();
        if !users.is_empty() {
            return Some(PfRefusal::DcbInUse(users));
        }
        let protections = self.pf.protections.clone();
        (!protections.is_empty() && !force).then_some(PfRefusal::Protected(protections))
    }

    /// The users of the PF and of its VFs whose traffic an interruption of the link would stop.
    fn users(&self) -> Vec<(String, VfUser)> {
        // The links and the addresses of the node itself are no jobs.
        let is_job = |user: &&VfUser| !matches!(user, VfUser::Upper { .. } | VfUser::Address { .. });
        let own = self.pf.users.iter().filter(is_job).map(|user| ("the PF".to_owned(), user.clone()));
        let of_vfs = self.pf.vfs.iter().flat_map(|vf| {
            vf.users.iter().filter(is_job).map(|user| (format!("VF {} ({})", vf.index, vf.pci), user.clone()))
        });
        own.chain(of_vfs).collect()
    }
}

#[cfg(test)]
mod tests {
    use dcb::{AppPriority, AppSelector, DcbxMode, Pfc};
    use inventory::ProtectionReason;

    use super::*;
    use crate::tests::pf;

    fn settings(enabled: &[u8]) -> DcbSettings {
        DcbSettings {
            pfc: Some(Pfc { enabled: enabled.to_vec(), ..Pfc::default() }),
            dcbx: Some(DcbxMode { host: true, ieee: true, ..DcbxMode::default() }),
            ..DcbSettings::default()
        }
    }

    fn pfc(enabled: &[u8]) -> WantedDcb {
        WantedDcb { pfc: Some(enabled.to_vec()), ..WantedDcb::default() }
    }

    fn change(from: &[u8], to: &[u8]) -> DcbChange {
        DcbChange::Pfc { from: from.to_vec(), to: to.to_vec() }
    }

    fn plan(pf: &Pf, settings: &DcbSettings, wanted: Option<&WantedDcb>, made: &[DcbChange]) -> DcbPlan {
        DcbState { pf, settings: Some(settings), wanted, made }.plan(false)
    }

    #[test]
    fn a_setting_that_the_file_does_not_contain_any_more_is_reverted() {
        let pf = pf(0);
        let first = plan(&pf, &settings(&[]), Some(&pfc(&[3])), &[]);
        assert_eq!(
            (&first.changes[..], &first.made[..]),
            (&[change(&[], &[3])][..], &[change(&[], &[3])][..])
        );
        let second = plan(&pf, &settings(&[3]), Some(&pfc(&[4])), &first.made);
        assert_eq!(second.made, [change(&[], &[4])], "the value before the first change is kept");
        for wanted in [None, Some(&WantedDcb::default())] {
            let removed = plan(&pf, &settings(&[4]), wanted, &second.made);
            assert_eq!((&removed.changes[..], removed.made.len()), (&[change(&[4], &[])][..], 0));
        }
    }

    #[test]
    fn what_another_program_has_changed_since_is_not_reverted() {
        let reverted = plan(&pf(0), &settings(&[5]), None, &[change(&[], &[3])]);
        assert!(reverted.changes.is_empty() && reverted.made.is_empty(), "{reverted:?}");
        assert!(reverted.notes[0].contains("another program has changed it"), "{reverted:?}");
    }

    #[test]
    fn a_dscp_that_the_file_does_not_contain_any_more_has_its_former_priority() {
        let app = |protocol, priority| AppPriority { selector: AppSelector::Dscp, protocol, priority };
        let wanted =
            |dscp: u8| WantedDcb { dscp_priorities: Some([(dscp, 3)].into()), ..WantedDcb::default() };
        let before = DcbSettings { apps: vec![app(26, 1)], ..settings(&[]) };
        let first = plan(&pf(0), &before, Some(&wanted(26)), &[]);
        assert_eq!(first.changes, [DcbChange::RemoveApp(app(26, 1)), DcbChange::AddApp(app(26, 3))]);
        let is = DcbSettings { apps: vec![app(26, 3)], ..settings(&[]) };
        let second = plan(&pf(0), &is, Some(&wanted(48)), &first.made);
        let expected =
            [DcbChange::RemoveApp(app(26, 3)), DcbChange::AddApp(app(26, 1)), DcbChange::AddApp(app(48, 3))];
        assert_eq!((&second.changes[..], &second.made[..]), (&expected[..], &expected[2..]));
    }

    #[test]
    fn a_change_that_would_harm_is_refused() {
        let by_firmware =
            DcbSettings { dcbx: Some(DcbxMode { ieee: true, ..DcbxMode::default() }), ..settings(&[]) };
        let refused = plan(&pf(0), &by_firmware, Some(&pfc(&[3])), &[]);
        assert!(refused.changes.is_empty() && refused.made.is_empty());
        let text = refused.refusal.unwrap().to_string();
        assert!(text.contains("dcb dcbx set dev ens6f0np0 host ieee"), "{text}");
        assert!(plan(&pf(0), &by_firmware, Some(&pfc(&[])), &[]).refusal.is_none(), "nothing to change");

        let mut used = pf(2);
        used.vfs[1].users.push(VfUser::RdmaElsewhere { uverbs: "uverbs7".into() });
        let refused = plan(&used, &settings(&[]), Some(&pfc(&[3])), &[]).refusal.unwrap();
        assert!(
            matches!(&refused, PfRefusal::DcbInUse(users) if users[0].0 == "VF 1 (0000:af:00.2)"),
            "{refused}"
        );
        let mut with_vlan = pf(0);
        let (link, upper) = ("ens6f0np0".parse().unwrap(), "ens6f0np0.7".parse().unwrap());
        with_vlan.users.push(VfUser::Upper { link, upper });
        assert!(plan(&with_vlan, &settings(&[]), Some(&pfc(&[3])), &[]).refusal.is_none());

        let route = ProtectionReason::DefaultRoute { link: "ens6f0np0".parse().unwrap() };
        let own = Pf { protections: vec![route], ..pf(0) };
        let state =
            DcbState { pf: &own, settings: Some(&settings(&[])), wanted: Some(&pfc(&[3])), made: &[] };
        assert!(matches!(state.plan(false).refusal, Some(PfRefusal::Protected(_))));
        assert_eq!(state.plan(true).changes.len(), 1);
    }

    #[test]
    fn a_driver_without_dcb_is_refused_only_if_dcb_is_wanted() {
        let (pf, nothing, lossless) = (pf(0), WantedDcb::default(), pfc(&[3]));
        let without = |wanted| DcbState { pf: &pf, settings: None, wanted, made: &[] }.plan(false).refusal;
        assert_eq!(without(None), None);
        assert_eq!(without(Some(&nothing)), None);
        let refused = without(Some(&lossless)).unwrap();
        assert!(refused.is_unsupported() && refused.to_string().contains("DCB"), "{refused}");
        let no_pfc = DcbSettings { pfc: None, ..settings(&[]) };
        assert!(plan(&pf, &no_pfc, Some(&lossless), &[]).refusal.unwrap().is_unsupported());
    }
}
