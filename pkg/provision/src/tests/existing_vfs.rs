//! VFs that exist already: what is changed of them, and what is left as it is.

use super::*;

fn plan_of(pf: Pf, file: &NodeFile) -> PfPlan {
    let dir = tempfile::tempdir().unwrap();
    planned(&FakeCard::of(pf), file, dir.path(), ApplyPermissions::default()).pfs.remove(0)
}

const KEEP: &str = "mac: keep, guid: keep";

#[test]
fn only_a_new_address_needs_the_driver_to_be_bound_again() {
    let steps = plan_of(pf(1), &file(1, &format!("    vf: {{trust: true, {KEEP}}}\n"))).steps;
    assert_eq!(steps, [PfStep::Configure { vf: VfIndex(0), change: VfSetting::Trust(true) }]);
}

#[test]
fn a_setting_that_the_driver_does_not_report_is_not_compared() {
    let all = format!("    vf: {{trust: true, spoofCheck: false, linkState: disable, {KEEP}}}\n");
    let settings = |shown| Vf { settings: Some(shown), ..pf(1).vfs.remove(0) };
    let changes = |shown| -> Vec<_> {
        let steps = plan_of(Pf { vfs: vec![settings(shown)], ..pf(1) }, &file(1, &all)).steps;
        let change = |step| match step {
            PfStep::Configure { change, .. } => change,
            other => panic!("unexpected step {other:?}"),
        };
        steps.into_iter().map(change).collect()
    };
    let none = VfSettings::default();
    assert_eq!(changes(VfSettings { trust: Some(false), ..none.clone() }), [VfSetting::Trust(true)]);
    assert_eq!(changes(VfSettings { spoofchk: Some(true), ..none.clone() }), [VfSetting::SpoofCheck(false)]);
    assert_eq!(changes(VfSettings { link_state: Some(0), ..none.clone() }), [VfSetting::LinkState(2)]);
    assert_eq!(changes(none), []);
}

#[test]
fn the_mtu_of_a_free_vf_is_set_and_that_of_a_vf_in_use_is_a_note() {
    let mut pf = pf(3);
    pf.vfs[0].mtu = Some(1400);
    pf.vfs[1].users.push(VfUser::LinkElsewhere { driver: "mlx5_core".into() });
    let plan = plan_of(pf, &file(3, &format!("    vf: {{mtu: 1400, {KEEP}}}\n")));
    assert_eq!(plan.steps, [PfStep::VfMtu { vf: VfIndex(2), to: 1400 }]);
    assert_eq!(plan.notes, ["VF 1 is in use and is left unchanged; not set: MTU to 1400"]);
    assert_eq!(plan.refusal, None);
}

#[test]
fn a_summary_lists_vfs_that_are_not_adjacent() {
    let mut pf = pf(4);
    pf.vfs[1].users.push(VfUser::LinkElsewhere { driver: "mlx5_core".into() });
    let plan = plan_of(pf, &file(4, &format!("    vf: {{trust: true, {KEEP}}}\n")));
    assert_eq!(plan.summary(), ["VFs 0, 2-3: set trust on"]);
}

/// They have no `sriov_drivers_autoprobe`, and bind VFs on request.
#[test]
fn kernels_before_4_12_bind_vfs_without_a_switch() {
    let old = |vfs: &[bool]| Pf {
        autoprobe: None,
        num_vfs: u32::try_from(vfs.len()).unwrap(),
        vfs: (0..).zip(vfs).map(|(index, bound)| self::card::vf(index, *bound)).collect(),
        ..pf(0)
    };
    let wanted = file(1, &format!("    vf: {{{KEEP}}}\n"));
    let bind = PfStep::Bind { vf: VfIndex(0) };
    assert_eq!(plan_of(old(&[]), &wanted).steps, [PfStep::CreateVfs { count: 1 }, bind.clone()]);
    assert_eq!(plan_of(old(&[false]), &wanted).steps, [bind]);
}

/// The record of a complete run has the former value only for the next run that is killed.
#[test]
fn automatic_binding_that_an_operator_disabled_after_a_run_stays_disabled() {
    let (card, dir) = (FakeCard::of(pf(0)), tempfile::tempdir().unwrap());
    apply(&card, &file(2, ""), dir.path(), ApplyPermissions::default());
    card.pf.lock().unwrap().autoprobe = Some(false);
    assert!(planned(&card, &file(2, ""), dir.path(), ApplyPermissions::default()).is_empty());
    apply(&card, &file(4, ""), dir.path(), RECREATE);
    assert_eq!(card.pf.lock().unwrap().autoprobe, Some(false));
}

#[test]
fn vfs_of_a_killed_run_are_removed_and_automatic_binding_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let boot_id = journal::boot_id().unwrap().to_owned();
    let killed = PfRecord { boot_id, autoprobe: true, vfs: 2, dcb: DcbRecord::default(), complete: false };
    killed.write(dir.path(), pci(PF)).unwrap();
    let card = FakeCard::of(Pf { autoprobe: Some(false), ..pf(2) });
    let (written, _) = apply(&card, &file(0, ""), dir.path(), ApplyPermissions::default());
    assert_eq!(written, ["numvfs 0", "autoprobe 1"]);
}

#[test]
fn the_mtu_of_a_pf_is_raised_and_lowered() {
    let with = |mtu| {
        let mut pf = pf(0);
        pf.link.as_mut().unwrap().mtu = mtu;
        plan_of(pf, &file(0, "    mtu: 4000\n")).steps
    };
    assert_eq!(with(1500), [PfStep::PfMtu { from: 1500, to: 4000 }]);
    assert_eq!(with(9000), [PfStep::PfMtu { from: 9000, to: 4000 }]);
    assert_eq!(with(4000), []);
}

#[test]
fn vfs_that_another_program_created_since_are_not_removed() {
    let (card, dir) = (FakeCard::of(pf(0)), tempfile::tempdir().unwrap());
    apply(&card, &file(4, ""), dir.path(), ApplyPermissions::default());
    *card.pf.lock().unwrap() = pf(3);
    let plan = planned(&card, &file(0, ""), dir.path(), ApplyPermissions::default());
    assert_eq!(plan.pfs[0].refusal, Some(PfRefusal::NotOurs { have: 3 }));
}

#[test]
fn every_user_of_every_vf_is_listed() {
    let mut used = pf(4);
    let user = |uverbs: &str| VfUser::RdmaElsewhere { uverbs: uverbs.into() };
    used.vfs[1].users = vec![user("uverbs6"), user("uverbs7")];
    used.vfs[3].users = vec![user("uverbs8")];
    let Some(PfRefusal::InUse(users)) = plan_of(used, &file(6, "")).refusal else { panic!("not refused") };
    let names: Vec<_> = users.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["VF 1 (0000:af:00.2)", "VF 1 (0000:af:00.2)", "VF 3 (0000:af:00.4)"]);
}

#[test]
fn an_infiniband_vf_keeps_the_guid_that_its_pf_assigned() {
    let guid = stable_guid("0c42a10300651234", VfIndex(0));
    let with = |vf_guid: Option<u64>| {
        let settings = VfSettings {
            node_guid: vf_guid,
            port_guid: vf_guid,
            link_state: Some(0),
            ..VfSettings::default()
        };
        let made = Pf { num_vfs: 1, ..infiniband() };
        Pf {
            vfs: vec![Vf {
                settings: Some(settings),
                node_guid: Some("0002:c903:0000:0001".into()),
                ..pf(1).vfs.remove(0)
            }],
            ..made
        }
    };
    assert_eq!(plan_of(with(Some(guid)), &file(1, "")).steps, []);
    let steps = plan_of(with(Some(0)), &file(1, "")).steps;
    let set = |change| PfStep::Configure { vf: VfIndex(0), change };
    assert_eq!(
        steps[..3],
        [PfStep::Unbind { vf: VfIndex(0) }, set(VfSetting::NodeGuid(guid)), set(VfSetting::PortGuid(guid))]
    );
    assert!(steps.contains(&PfStep::Bind { vf: VfIndex(0) }), "{steps:?}");
    assert_eq!(plan_of(with(Some(0)), &file(1, &format!("    vf: {{{KEEP}}}\n"))).steps, []);
    // A driver that does not report GUIDs: they cannot be compared, and would be set at each run.
    let mut hidden = with(None);
    assert_eq!(plan_of(hidden.clone(), &file(1, "")).steps, []);
    // Its link is away, and its RDMA device has the former GUID.
    hidden.vfs[0].link = None;
    hidden.vfs[0].settings.as_mut().unwrap().node_guid = Some(0);
    let steps = plan_of(hidden, &file(1, "")).steps;
    assert!(steps.contains(&PfStep::Unbind { vf: VfIndex(0) }), "{steps:?}");
    // An address of the PF is there to be read, although the file does not choose it.
    let mut unread = with(Some(guid));
    unread.vfs[0].node_guid = Some("0000:0000:0000:0000".into());
    let steps = plan_of(unread, &file(1, &format!("    vf: {{{KEEP}}}\n"))).steps;
    assert!(steps.contains(&PfStep::Unbind { vf: VfIndex(0) }), "{steps:?}");
}

/// Their ports would stay down.
#[test]
fn new_infiniband_vfs_follow_the_state_of_the_port() {
    let auto = PfStep::Configure { vf: VfIndex(0), change: VfSetting::LinkState(0) };
    assert!(plan_of(infiniband(), &file(1, "")).steps.contains(&auto));
    assert!(!plan_of(pf(0), &file(1, "")).steps.contains(&auto));
    let chosen = plan_of(infiniband(), &file(1, "    vf: {linkState: enable}\n")).steps;
    assert!(chosen.contains(&PfStep::Configure { vf: VfIndex(0), change: VfSetting::LinkState(1) }));
}

/// Such VFs never get a GUID, so binding them again does not help.
#[test]
fn vfs_that_keep_their_addresses_are_not_bound_again_for_a_guid() {
    let card = FakeCard::of(pf(2));
    assert!(card.reading().inventory.pfs[0].vfs.iter().all(Vf::lacks_guid));
    let dir = tempfile::tempdir().unwrap();
    let plan = planned(&card, &file(2, "    vf: {mac: keep}\n"), dir.path(), ApplyPermissions::default());
    assert!(plan.is_empty(), "{plan:?}");
}

/// study case V2: a setting that the driver does not report is made even if a killed run did not.
#[test]
fn a_vf_without_a_driver_gets_the_settings_that_its_pf_does_not_show() {
    let wanted = file(1, "    vf: {trust: true, mac: keep}\n");
    let trust = PfStep::Configure { vf: VfIndex(0), change: VfSetting::Trust(true) };
    for hidden in [None, Some(VfSettings::default())] {
        for (bound, expected) in [(false, true), (true, false)] {
            let mut pf = pf(1);
            pf.vfs = vec![Vf { settings: hidden.clone(), ..self::card::vf(0, bound) }];
            let dir = tempfile::tempdir().unwrap();
            let plan = planned(&FakeCard::of(pf), &wanted, dir.path(), ApplyPermissions::default());
            assert_eq!(plan.pfs[0].steps.contains(&trust), expected, "{hidden:?}, bound: {bound}");
        }
    }
    // They are set through the PF's link.
    let without_link =
        Pf { link: None, vfs: vec![Vf { settings: None, ..self::card::vf(0, false) }], ..pf(1) };
    assert_eq!(plan_of(without_link, &wanted).steps, [PfStep::Bind { vf: VfIndex(0) }]);
}

/// `drivers_probe` may bind another driver than the VF's user-space driver.
#[test]
fn a_vf_for_user_space_gets_its_address_and_keeps_its_driver() {
    let mut pf = pf(1);
    pf.vfs = vec![Vf { driver: Some("vfio-pci".into()), ..self::card::vf(0, false) }];
    let dir = tempfile::tempdir().unwrap();
    let steps =
        planned(&FakeCard::of(pf), &file(1, ""), dir.path(), ApplyPermissions::default()).pfs.remove(0).steps;
    assert!(
        matches!(steps[..], [PfStep::Configure { vf: VfIndex(0), change: VfSetting::Mac(_) }]),
        "{steps:?}"
    );
}
