//! Plans the changes of a PF's DCB settings.

use dcb::{DcbChange, DcbSettings, WantedDcb, host_mode_remedy};
use inventory::{Pf, VfUser};

use crate::{DcbReading, DcbRecord, PfRefusal};

/// The driver that refuses PFC with `EINVAL` until it was told the traffic classes (`bnxt_hwrm_queue_pfc_cfg`).
const NEEDS_CLASSES_FOR_PFC: &str = "bnxt_en";

/// A PF's DCB settings: as they are, as they should be, and what was changed since the boot.
pub(crate) struct DcbState<'a> {
    pub(crate) pf: &'a Pf,
    /// The current settings; `None` if neither the node file nor a record concerns them.
    pub(crate) reading: Option<&'a DcbReading>,
    pub(crate) wanted: Option<&'a WantedDcb>,
    /// The changes that silkrail has made.
    pub(crate) record: DcbRecord,
}

/// The changes of a PF's DCB settings.
#[derive(Debug, Default)]
pub(crate) struct DcbPlan {
    /// The changes in order; empty if they are refused.
    pub(crate) changes: Vec<DcbChange>,
    /// The record before these changes.
    pub(crate) record: DcbRecord,
    /// Why they are refused.
    pub(crate) refusal: Option<PfRefusal>,
    /// Changes that are not made, and why.
    pub(crate) notes: Vec<String>,
}

impl DcbState<'_> {
    /// Plans the changes. `force` permits them even if the node's own traffic may run over the PF.
    pub(crate) fn plan(&self, force: bool) -> DcbPlan {
        let settings = match self.settings() {
            Ok(settings) => settings,
            Err(unread) => return DcbPlan { record: self.record.clone(), ..unread },
        };
        let mut plan = DcbPlan::default();
        plan.record.made = self.record.made_in(settings);
        let mut changes = self.reverts(settings, &mut plan);
        changes.extend(self.wanted.map(|wanted| wanted.changes(settings)).unwrap_or_default());
        self.announce_classes(settings, &mut changes);
        plan.refusal = self.refusal(settings, &changes, force);
        if plan.refusal.is_none() {
            plan.record.pending.clone_from(&changes);
            plan.changes = changes;
        }
        plan
    }

    /// Compares a PF that another program manages.
    pub(crate) fn external(&self) -> DcbPlan {
        let settings = match self.settings() {
            Ok(settings) => settings,
            Err(unread) => return unread,
        };
        let Some(wanted) = self.wanted else { return DcbPlan::default() };
        let lacks = wanted.unsupported(settings);
        let changes: Vec<_> = wanted.changes(settings).iter().map(ToString::to_string).collect();
        let refusal = match (&lacks[..], &changes[..]) {
            ([], []) => None,
            ([], _) => Some(PfRefusal::External(format!("its DCB settings differ: {}", changes.join(", ")))),
            _ => Some(PfRefusal::DcbUnsupported(lacks)),
        };
        DcbPlan { refusal, ..DcbPlan::default() }
    }

    /// Returns the current settings, or a plan without changes that says why there are none.
    fn settings(&self) -> Result<&DcbSettings, DcbPlan> {
        let is_wanted = self.wanted.is_some_and(|wanted| *wanted != WantedDcb::default());
        let refused = |refusal| DcbPlan { refusal: is_wanted.then_some(refusal), ..DcbPlan::default() };
        match self.reading {
            Some(DcbReading::Settings(settings)) => Ok(settings),
            Some(DcbReading::Unsupported) => Err(refused(PfRefusal::DcbUnsupported(vec!["DCB"]))),
            Some(DcbReading::Failed(error)) => Err(refused(PfRefusal::DcbUnread(error.clone()))),
            Some(DcbReading::NoLink) => {
                let note = "its link is not in this network namespace: its DCB settings are neither compared nor changed";
                Err(DcbPlan { notes: vec![note.into()], ..DcbPlan::default() })
            }
            None => Err(DcbPlan::default()),
        }
    }

    /// Adds a change of the traffic classes to those that they have, if the driver needs it for PFC.
    fn announce_classes(&self, settings: &DcbSettings, changes: &mut Vec<DcbChange>) {
        let has_classes = changes.iter().any(|change| matches!(change, DcbChange::Ets { .. }));
        let pfc = changes.iter().position(|change| matches!(change, DcbChange::Pfc { .. }));
        if let (Some(at), Some(classes), false) = (pfc, &settings.ets, has_classes)
            && self.pf.driver.as_deref() == Some(NEEDS_CLASSES_FOR_PFC)
        {
            let mut classes = Box::new(classes.clone());
            // bnxt reports class 8, which does not exist, after a change that failed.
            classes.priority_class.iter_mut().filter(|class| **class >= 8).for_each(|class| *class = 0);
            changes.insert(at, DcbChange::Ets { from: classes.clone(), to: classes });
        }
    }

    /// Returns the reverts of changes to settings that the node file does not contain any more, the latest first. A setting that
    /// another program has changed since is left as it is, and forgotten.
    fn reverts(&self, settings: &DcbSettings, plan: &mut DcbPlan) -> Vec<DcbChange> {
        let is_unwanted =
            |change: &&DcbChange| !self.wanted.is_some_and(|wanted| wanted.wants_setting_of(change));
        let mut reverts = Vec::new();
        for change in plan.record.made.clone().iter().filter(is_unwanted).rev() {
            if change.is_in_place(settings) {
                reverts.push(change.inverse());
            } else {
                plan.record.made.retain(|made| made != change);
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
    use dcb::{AppPriority, AppSelector, DcbxMode, Ets, Pfc, TransmissionSelection};
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
        let reading = DcbReading::Settings(Box::new(settings.clone()));
        let record = DcbRecord { made: made.to_vec(), pending: Vec::new() };
        DcbState { pf, reading: Some(&reading), wanted, record }.plan(false)
    }

    /// The changes that silkrail has made after a plan was executed.
    fn made(plan: &DcbPlan) -> Vec<DcbChange> {
        let mut made = plan.record.made.clone();
        plan.changes.iter().cloned().for_each(|change| change.record(&mut made));
        made
    }

    #[test]
    fn a_setting_that_the_file_does_not_contain_any_more_is_reverted() {
        let pf = pf(0);
        let first = plan(&pf, &settings(&[]), Some(&pfc(&[3])), &[]);
        assert_eq!(
            (&first.changes[..], &made(&first)[..]),
            (&[change(&[], &[3])][..], &[change(&[], &[3])][..])
        );
        let second = plan(&pf, &settings(&[3]), Some(&pfc(&[4])), &made(&first));
        assert_eq!(made(&second), [change(&[], &[4])], "the value before the first change is kept");
        for wanted in [None, Some(&WantedDcb::default())] {
            let removed = plan(&pf, &settings(&[4]), wanted, &made(&second));
            assert_eq!((&removed.changes[..], made(&removed).len()), (&[change(&[4], &[])][..], 0));
        }
    }

    #[test]
    fn what_another_program_has_changed_since_is_not_reverted() {
        let reverted = plan(&pf(0), &settings(&[5]), None, &[change(&[], &[3])]);
        assert!(reverted.changes.is_empty() && reverted.record.is_empty(), "{reverted:?}");
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
        let second = plan(&pf(0), &is, Some(&wanted(48)), &made(&first));
        let expected =
            [DcbChange::RemoveApp(app(26, 3)), DcbChange::AddApp(app(26, 1)), DcbChange::AddApp(app(48, 3))];
        assert_eq!((&second.changes[..], &made(&second)[..]), (&expected[..], &expected[2..]));
    }

    #[test]
    fn a_change_that_would_harm_is_refused() {
        let by_firmware =
            DcbSettings { dcbx: Some(DcbxMode { ieee: true, ..DcbxMode::default() }), ..settings(&[]) };
        let refused = plan(&pf(0), &by_firmware, Some(&pfc(&[3])), &[]);
        assert!(refused.changes.is_empty() && refused.record.is_empty());
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
        let mut open = pf(0);
        open.users.push(VfUser::Process { device: "mlx5_0".into(), process: "train.py (pid 7)".into() });
        let refused = plan(&open, &settings(&[]), Some(&pfc(&[3])), &[]).refusal.unwrap();
        assert!(matches!(&refused, PfRefusal::DcbInUse(users) if users[0].0 == "the PF"), "{refused}");
        let mut with_vlan = pf(0);
        let (link, upper) = ("ens6f0np0".parse().unwrap(), "ens6f0np0.7".parse().unwrap());
        with_vlan.users.push(VfUser::Upper { link, upper });
        let (link, address) = ("ens6f0np0".parse().unwrap(), "10.0.0.1/24".parse().unwrap());
        with_vlan.users.push(VfUser::Address { link, address });
        assert!(plan(&with_vlan, &settings(&[]), Some(&pfc(&[3])), &[]).refusal.is_none());

        let route = ProtectionReason::DefaultRoute { link: "ens6f0np0".parse().unwrap() };
        let own = Pf { protections: vec![route], ..pf(0) };
        let reading = DcbReading::Settings(Box::new(settings(&[])));
        let record = DcbRecord::default();
        let state = DcbState { pf: &own, reading: Some(&reading), wanted: Some(&pfc(&[3])), record };
        assert!(matches!(state.plan(false).refusal, Some(PfRefusal::Protected(_))));
        assert_eq!(state.plan(true).changes.len(), 1);
    }

    #[test]
    fn a_driver_without_dcb_is_refused_only_if_dcb_is_wanted() {
        let (pf, nothing, lossless) = (pf(0), WantedDcb::default(), pfc(&[3]));
        let without = |wanted| unread(&pf, &DcbReading::Unsupported, wanted, &[]).refusal;
        assert_eq!(without(None), None);
        assert_eq!(without(Some(&nothing)), None);
        let refused = without(Some(&lossless)).unwrap();
        assert!(refused.is_unsupported() && refused.to_string().contains("DCB"), "{refused}");
        let no_pfc = DcbSettings { pfc: None, ..settings(&[]) };
        assert!(plan(&pf, &no_pfc, Some(&lossless), &[]).refusal.unwrap().is_unsupported());
        let reading = DcbReading::Settings(Box::new(no_pfc));
        let wanted = Some(&lossless);
        let state = DcbState { pf: &pf, reading: Some(&reading), wanted, record: DcbRecord::default() };
        assert!(state.external().refusal.unwrap().is_unsupported());
    }

    fn unread(pf: &Pf, reading: &DcbReading, wanted: Option<&WantedDcb>, pending: &[DcbChange]) -> DcbPlan {
        let record = DcbRecord { made: vec![change(&[], &[3])], pending: pending.to_vec() };
        DcbState { pf, reading: Some(reading), wanted, record }.plan(false)
    }

    #[test]
    fn the_record_of_settings_that_cannot_be_read_is_kept() {
        let (pf, lossless, pending) = (pf(0), pfc(&[3]), [change(&[3], &[])]);
        let failed = DcbReading::Failed("no reply within 5s".into());
        for reading in [DcbReading::Unsupported, DcbReading::NoLink, failed.clone()] {
            let plan = unread(&pf, &reading, Some(&lossless), &pending);
            let expected = DcbRecord { made: vec![change(&[], &[3])], pending: pending.to_vec() };
            assert_eq!(plan.record, expected, "{reading:?}");
            assert!(plan.changes.is_empty());
        }
        let refusal = unread(&pf, &failed, Some(&lossless), &[]).refusal.unwrap().to_string();
        assert!(refusal.contains("no reply within 5s"), "{refusal}");
        let no_link = unread(&pf, &DcbReading::NoLink, Some(&lossless), &[]);
        assert!(no_link.refusal.is_none() && no_link.notes[0].contains("namespace"), "{no_link:?}");
    }

    /// What bnxt reports before something is set.
    fn unset_classes() -> Ets {
        Ets {
            willing: false,
            max_classes: 8,
            credit_based_shaper: false,
            priority_class: [0; 8],
            transmit_bandwidth: [0; 8],
            receive_bandwidth: [0; 8],
            algorithm: [TransmissionSelection::Strict; 8],
            recommended_bandwidth: [0; 8],
            recommended_algorithm: [TransmissionSelection::Strict; 8],
            recommended_priority_class: [0; 8],
        }
    }

    #[test]
    fn bnxt_is_told_its_traffic_classes_before_pfc() {
        let with_classes = DcbSettings { ets: Some(unset_classes()), ..settings(&[]) };
        let bnxt = Pf { driver: Some("bnxt_en".into()), ..pf(0) };
        let planned = plan(&bnxt, &with_classes, Some(&pfc(&[3])), &[]);
        assert!(
            matches!(&planned.changes[..], [DcbChange::Ets { from, to }, DcbChange::Pfc { .. }] if from == to)
        );
        assert_eq!(made(&planned), [change(&[], &[3])], "it is no change to revert");
        let after_failure = Ets { priority_class: [1, 7, 8, 0, 0, 0, 0, 9], ..unset_classes() };
        let after_failure = DcbSettings { ets: Some(after_failure), ..settings(&[]) };
        let planned = plan(&bnxt, &after_failure, Some(&pfc(&[3])), &[]);
        let DcbChange::Ets { to, .. } = &planned.changes[0] else { panic!("{planned:?}") };
        assert_eq!(to.priority_class, [1, 7, 0, 0, 0, 0, 0, 0], "class 8 does not exist");
        assert_eq!(plan(&pf(0), &with_classes, Some(&pfc(&[3])), &[]).changes, [change(&[], &[3])]);
    }
}
