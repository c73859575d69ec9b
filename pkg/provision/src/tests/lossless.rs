//! DCB settings of a card, over the runs of a node file.

use std::sync::Mutex;

use dcb::{DcbSettings, DcbxMode, Pfc};

use super::*;

/// A card whose host manages its DCB settings.
fn with_dcb(pf: Pf) -> FakeCard {
    let settings = DcbSettings {
        pfc: Some(Pfc::default()),
        dcbx: Some(DcbxMode { host: true, ieee: true, ..DcbxMode::default() }),
        ..DcbSettings::default()
    };
    FakeCard { dcb: Mutex::new(Some(settings)), ..FakeCard::of(pf) }
}

const LOSSLESS: &str = "    dcb: {pfc: [3], trust: dscp, dscpPriorities: {26: 3}}\n";

#[test]
fn dcb_settings_are_changed_before_vfs_are_created_and_reverted_when_the_file_has_none() {
    let (card, dir) = (with_dcb(pf(0)), tempfile::tempdir().unwrap());
    let (written, failures) = apply(&card, &file(1, LOSSLESS), dir.path(), ApplyPermissions::default());
    assert!(failures.is_empty());
    let expected =
        ["add the application priority DSCP 26 to priority 3", "change PFC from no priority to priority 3"];
    assert_eq!((&written[..2], written[2].as_str()), (&expected.map(str::to_owned)[..], "autoprobe 0"));
    assert!(planned(&card, &file(1, LOSSLESS), dir.path(), ApplyPermissions::default()).is_empty());
    let (written, _) = apply(&card, &file(1, ""), dir.path(), ApplyPermissions::default());
    let expected = [
        "change PFC from priority 3 to no priority",
        "remove the application priority DSCP 26 to priority 3",
    ];
    assert_eq!(written, expected);
    assert!(planned(&card, &file(1, ""), dir.path(), ApplyPermissions::default()).is_empty());
    assert!(remembered(dir.path())[&pci(PF)].dcb.is_empty());
}

/// Whatever a killed run has changed is completed, and can be reverted.
#[test]
fn dcb_settings_of_a_run_that_ended_anywhere_are_reverted() {
    for fails_at in 0..2 {
        let (card, dir) = (FakeCard { fails_at, ..with_dcb(pf(1)) }, tempfile::tempdir().unwrap());
        let keep = "    vf: {mac: keep}\n";
        let (_, failures) =
            apply(&card, &file(1, &format!("{LOSSLESS}{keep}")), dir.path(), ApplyPermissions::default());
        assert_eq!(failures.len(), 1);
        let card = FakeCard { fails_at: usize::MAX, ..card };
        let (_, failures) = apply(&card, &file(1, keep), dir.path(), ApplyPermissions::default());
        assert!(failures.is_empty());
        let settings = card.dcb.lock().unwrap().clone().unwrap();
        assert!(
            settings.apps.is_empty() && settings.pfc.unwrap().enabled.is_empty(),
            "after {fails_at} steps"
        );
    }
}

/// A run is killed after each number of its changes: only the record before the first step was written.
#[test]
fn dcb_settings_of_a_killed_run_are_reverted() {
    let (keep, none) = (format!("{LOSSLESS}    vf: {{mac: keep}}\n"), "    vf: {mac: keep}\n");
    for made in 0..=2 {
        let (card, dir) = (with_dcb(pf(1)), tempfile::tempdir().unwrap());
        let plan = planned(&card, &file(1, &keep), dir.path(), ApplyPermissions::default());
        execute(&plan, &with_dcb(pf(1)), dir.path(), &|_, _| ());
        let after = remembered(dir.path())[&pci(PF)].clone();
        let dcb = plan.pfs[0].dcb.clone();
        PfRecord { dcb, complete: false, ..after }.write(dir.path(), pci(PF)).unwrap();
        for step in plan.pfs[0].steps.iter().take(made) {
            let PfStep::Dcb(change) = step else { panic!("unexpected step {step:?}") };
            card.change_dcb(pci(PF), change).unwrap();
        }
        let (_, failures) = apply(&card, &file(1, none), dir.path(), ApplyPermissions::default());
        assert!(failures.is_empty());
        let settings = card.dcb.lock().unwrap().clone().unwrap();
        assert!(settings.apps.is_empty() && settings.pfc.unwrap().enabled.is_empty(), "after {made} steps");
        assert!(remembered(dir.path())[&pci(PF)].dcb.is_empty(), "after {made} steps");
    }
}

#[test]
fn a_change_that_another_program_has_overwritten_is_forgotten() {
    let (card, dir) = (with_dcb(pf(0)), tempfile::tempdir().unwrap());
    apply(&card, &file(0, "    dcb: {pfc: [3]}\n"), dir.path(), ApplyPermissions::default());
    card.dcb.lock().unwrap().as_mut().unwrap().pfc.as_mut().unwrap().enabled = vec![5];
    let (written, failures) = apply(&card, &file(0, ""), dir.path(), ApplyPermissions::default());
    assert!(written.is_empty() && failures.is_empty());
    assert!(remembered(dir.path())[&pci(PF)].dcb.is_empty());
}

#[test]
fn a_dcb_change_that_fails_does_not_keep_a_pf_from_its_vfs() {
    let (card, dir) = (FakeCard { refuses_dcb: true, ..with_dcb(pf(0)) }, tempfile::tempdir().unwrap());
    let (written, failures) = apply(&card, &file(1, LOSSLESS), dir.path(), ApplyPermissions::default());
    assert!(matches!(&failures[..], [PfFailure { step: Some(PfStep::Dcb(_)), .. }]), "{failures:?}");
    assert!(written.contains(&"bind 0".to_owned()), "{written:?}");
    let record = remembered(dir.path())[&pci(PF)].clone();
    assert!(record.complete && record.vfs == 1 && record.dcb.made.is_empty(), "{record:?}");
}

/// The kernel made a change, and its reply was lost.
#[test]
fn a_dcb_change_that_was_made_although_it_failed_is_reverted() {
    let (card, dir) = (FakeCard { refuses_dcb: true, ..with_dcb(pf(0)) }, tempfile::tempdir().unwrap());
    let lossless = file(0, "    dcb: {pfc: [3]}\n");
    let (_, failures) = apply(&card, &lossless, dir.path(), ApplyPermissions::default());
    assert_eq!(failures.len(), 1);
    let card = FakeCard { refuses_dcb: false, ..card };
    card.dcb.lock().unwrap().as_mut().unwrap().pfc.as_mut().unwrap().enabled = vec![3];
    let (written, failures) = apply(&card, &file(0, ""), dir.path(), ApplyPermissions::default());
    assert!(failures.is_empty());
    assert_eq!(written, ["change PFC from priority 3 to no priority"]);
    assert!(remembered(dir.path())[&pci(PF)].dcb.is_empty());
}

#[test]
fn refused_dcb_settings_do_not_keep_a_pf_from_its_vfs() {
    let (card, dir) = (with_dcb(pf(0)), tempfile::tempdir().unwrap());
    card.dcb.lock().unwrap().as_mut().unwrap().dcbx = Some(DcbxMode::default());
    let plan = planned(&card, &file(2, LOSSLESS), dir.path(), ApplyPermissions::default());
    assert!(plan.pfs[0].steps.contains(&PfStep::CreateVfs { count: 2 }), "{plan:?}");
    assert!(matches!(plan.refusals().next(), Some(PfRefusal::DcbByFirmware { .. })), "{plan:?}");
    assert!(!plan.pfs[0].steps.iter().any(|step| matches!(step, PfStep::Dcb(_))), "{plan:?}");
    assert!(!plan.is_empty());
}

#[test]
fn dcb_settings_of_a_pf_that_others_manage_are_only_compared() {
    let external = format!("    externallyManaged: true\n{LOSSLESS}");
    let (card, dir) = (with_dcb(pf(1)), tempfile::tempdir().unwrap());
    let plan = planned(&card, &file(1, &external), dir.path(), ApplyPermissions::default());
    let refusal = plan.refusals().next().unwrap().to_string();
    assert!(
        refusal.contains("externally managed") && refusal.contains("change PFC from no priority"),
        "{refusal}"
    );
}
