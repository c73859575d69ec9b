//! Plans, and their execution on a simulated card: the behaviour of firmware cannot be tested here. The real kernel is
//! tested in the lab.

use std::{collections::BTreeMap, path::Path};

use identifiers::{PciAddress, VfIndex};
use inventory::{Pf, ProtectionReason, Vf, VfUser};
use rtnl::{VfSetting, VfSettings};

use super::*;

mod card;
mod existing_vfs;
mod lossless;
pub(crate) mod node;
mod several_pfs;

use self::card::{FakeCard, PF, pci};
pub(crate) use self::card::{pf, vf};

/// A node with one PF.
pub(crate) fn one_pf(pf: Pf) -> NodeReading {
    FakeCard::of(pf).reading()
}

fn file(vfs: u32, more: &str) -> NodeFile {
    NodeFile::parse(&format!("pfs:\n  - match: {{pci: {PF}}}\n    vfs: {vfs}\n{more}")).unwrap()
}

fn remembered(dir: &Path) -> BTreeMap<PciAddress, PfRecord> {
    PfRecord::read(dir, pci(PF)).unwrap().map(|memory| (pci(PF), memory)).into_iter().collect()
}

fn planned(card: &FakeCard, file: &NodeFile, dir: &Path, consent: ApplyPermissions) -> ProvisionPlan {
    let node = NodeReading { records: remembered(dir), ..card.reading() };
    plan(file, &node, consent).unwrap()
}

/// Plans and executes; returns the operations on the card, and the failures.
fn apply(
    card: &FakeCard,
    file: &NodeFile,
    dir: &Path,
    consent: ApplyPermissions,
) -> (Vec<String>, Vec<PfFailure>) {
    let before = card.log().len();
    let plan = planned(card, file, dir, consent);
    assert!(plan.refusals().next().is_none(), "{plan:?}");
    let failures = execute(&plan, card, dir, &|_, _| ());
    (card.log().split_off(before), failures)
}

fn refusal(pf: Pf, file: &NodeFile, consent: ApplyPermissions) -> PfRefusal {
    let dir = tempfile::tempdir().unwrap();
    let card = FakeCard::of(pf);
    let plan = planned(&card, file, dir.path(), consent);
    assert!(plan.pfs[0].steps.is_empty(), "what is refused has no step: {plan:?}");
    plan.pfs[0].refusal.clone().expect("it is refused")
}

const RECREATE: ApplyPermissions = ApplyPermissions { recreate: true, force: false };

/// study cases V1 and V13.
#[test]
fn vfs_are_made_configured_and_then_bound_once() {
    let (card, dir) = (FakeCard::of(pf(0)), tempfile::tempdir().unwrap());
    let (written, failures) =
        apply(&card, &file(2, "    vf: {trust: true, mtu: 1400}\n"), dir.path(), ApplyPermissions::default());
    assert!(failures.is_empty());
    let mac =
        |vf| format!("vf {vf} the MAC address to {}", stable_mac("08:c0:eb:01:02:03", VfIndex(vf)).unwrap());
    assert_eq!(
        written,
        [
            "autoprobe 0".into(),
            "numvfs 2".into(),
            "vf 0 trust on".into(),
            mac(0),
            "vf 1 trust on".into(),
            mac(1),
            "autoprobe 1".into(),
            "bind 0".into(),
            "bind 1".into(),
            "mtu Some(0) 1400".into(),
            "mtu Some(1) 1400".into(),
        ] as [String; 11]
    );
    assert_eq!(remembered(dir.path())[&pci(PF)].vfs, 2);
}

/// study cases V2, V14: a run may be killed at any step: the next one completes it, and one more has nothing to do.
#[test]
fn a_run_that_ended_anywhere_is_finished_by_the_next() {
    let wanted =
        file(3, "    mtu: 9000\n    vf: {trust: true, spoofCheck: false, linkState: enable, mtu: 9000}\n");
    for former in [true, false] {
        let all = {
            let (card, dir) =
                (FakeCard::of(Pf { autoprobe: Some(former), ..pf(0) }), tempfile::tempdir().unwrap());
            apply(&card, &wanted, dir.path(), RECREATE).0.len()
        };
        for fails_at in 0..all {
            let dir = tempfile::tempdir().unwrap();
            let card = FakeCard { fails_at, ..FakeCard::of(Pf { autoprobe: Some(former), ..pf(0) }) };
            let (_, failures) = apply(&card, &wanted, dir.path(), RECREATE);
            assert_eq!(failures.len(), 1);
            let card = FakeCard { fails_at: usize::MAX, ..card };
            let (_, failures) = apply(&card, &wanted, dir.path(), RECREATE);
            assert!(failures.is_empty(), "after {fails_at} steps: {failures:?}");
            let pf = card.pf.lock().unwrap().clone();
            assert_eq!((pf.num_vfs, pf.autoprobe), (3, Some(former)), "after {fails_at} steps");
            assert!(pf.vfs.iter().all(|vf| vf.driver.is_some() && !vf.lacks_guid() && vf.mtu == Some(9000)));
            let (written, _) = apply(&card, &wanted, dir.path(), ApplyPermissions::default());
            assert!(written.is_empty(), "after {fails_at} steps, steps were left: {written:?}");
        }
    }
}

/// study cases V3 and V4.
#[test]
fn another_number_of_vfs_needs_consent() {
    let refused = refusal(pf(4), &file(6, ""), ApplyPermissions::default());
    assert_eq!(refused, PfRefusal::NeedsRecreate { have: 4, wanted: 6 });
    let (card, dir) = (FakeCard::of(pf(4)), tempfile::tempdir().unwrap());
    let (written, _) = apply(&card, &file(6, ""), dir.path(), RECREATE);
    assert_eq!(written[..3], ["numvfs 0", "autoprobe 0", "numvfs 6"]);
    assert!(planned(&card, &file(6, ""), dir.path(), ApplyPermissions::default()).is_empty());
}

/// study cases V5 to V9: the inventory collects the evidence, which is used here.
#[test]
fn vfs_in_use_are_never_removed() {
    let mut used = pf(4);
    let user = VfUser::RdmaElsewhere { uverbs: "uverbs7".into() };
    used.vfs[2].users.push(user.clone());
    for wanted in [0, 6] {
        let refused =
            refusal(used.clone(), &file(wanted, ""), ApplyPermissions { recreate: true, force: true });
        assert_eq!(refused, PfRefusal::InUse(vec![("VF 2 (0000:af:00.3)".into(), user.clone())]));
    }
}

/// study cases V10 and V21.
#[test]
fn an_unsupported_request_is_refused_before_any_step() {
    let refused = refusal(pf(0), &file(9, ""), ApplyPermissions::default());
    assert_eq!(refused, PfRefusal::TooMany { wanted: 9, most: 8 });
    assert!(refused.is_wrong() && refused.to_string().contains("NUM_OF_VFS=9"), "{refused}");
    let all = planned(&FakeCard::of(pf(0)), &file(8, ""), Path::new("/none"), ApplyPermissions::default());
    assert!(all.pfs[0].steps.contains(&PfStep::CreateVfs { count: 8 }), "{all:?}");
    let mlx4 = Pf { total_vfs: 0, driver: Some("mlx4_core".into()), ..pf(0) };
    let refused = refusal(mlx4, &file(4, ""), ApplyPermissions::default());
    assert!(
        refused.is_unsupported() && refused.to_string().contains("options mlx4_core num_vfs"),
        "{refused}"
    );
}

/// study cases V15 and V16.
#[test]
fn vfs_that_silkrail_did_not_create_are_not_removed() {
    let (card, dir) = (FakeCard::of(pf(4)), tempfile::tempdir().unwrap());
    let no_pfs = NodeFile::parse("pfs: []\n").unwrap();
    assert!(planned(&card, &no_pfs, dir.path(), RECREATE).pfs.is_empty());
    assert_eq!(refusal(pf(4), &file(0, ""), ApplyPermissions::default()), PfRefusal::NotOurs { have: 4 });
    // VFs that silkrail created are removed.
    let card = FakeCard::of(pf(0));
    apply(&card, &file(4, ""), dir.path(), ApplyPermissions::default());
    let (written, _) = apply(&card, &file(0, ""), dir.path(), ApplyPermissions::default());
    assert_eq!(written, ["numvfs 0"]);
    // After that none is ours: another program created these.
    assert_eq!(remembered(dir.path())[&pci(PF)].vfs, 0);
    *card.pf.lock().unwrap() = pf(4);
    let plan = planned(&card, &file(0, ""), dir.path(), ApplyPermissions::default());
    assert_eq!(plan.pfs[0].refusal, Some(PfRefusal::NotOurs { have: 4 }));
}

/// VFs that silkrail only repaired do not count as its own.
#[test]
fn repaired_vfs_do_not_count_as_ours() {
    let (card, dir) = (FakeCard::of(pf(2)), tempfile::tempdir().unwrap());
    let (written, _) =
        apply(&card, &file(2, "    vf: {trust: true, mac: keep}\n"), dir.path(), ApplyPermissions::default());
    assert!(!written.is_empty());
    let plan = planned(&card, &file(0, ""), dir.path(), ApplyPermissions::default());
    assert_eq!(plan.pfs[0].refusal, Some(PfRefusal::NotOurs { have: 2 }));
}

/// study case V17.
#[test]
fn a_pf_that_others_manage_is_only_compared() {
    let external = |vfs, more: &str| file(vfs, &format!("    externallyManaged: true\n{more}"));
    let enough = FakeCard::of(pf(4));
    let dir = tempfile::tempdir().unwrap();
    for met in [external(3, ""), external(4, "    mtu: 1500\n"), external(4, "    mtu: 1400\n")] {
        assert!(planned(&enough, &met, dir.path(), RECREATE).is_empty());
    }
    for (wanted, what) in
        [(external(5, ""), "has 4 VFs"), (external(4, "    mtu: 9000\n"), "has the MTU 1500")]
    {
        assert!(refusal(pf(4), &wanted, RECREATE).to_string().contains(what));
    }
}

/// study case V18.
#[test]
fn a_pf_that_the_node_depends_on_is_protected() {
    let why = ProtectionReason::DefaultRoute { link: "ens6f0np0".parse().unwrap() };
    let protected = || Pf { protections: vec![why.clone()], ..pf(0) };
    assert_eq!(
        refusal(protected(), &file(2, ""), ApplyPermissions::default()),
        PfRefusal::Protected(vec![why.clone()])
    );
    let dir = tempfile::tempdir().unwrap();
    for (file, force) in [(file(2, ""), true), (file(2, "    force: true\n"), false)] {
        let consent = ApplyPermissions { recreate: false, force };
        assert!(planned(&FakeCard::of(protected()), &file, dir.path(), consent).pfs[0].refusal.is_none());
    }
    let mtu = file(2, "    mtu: 9000\n");
    let with_vfs = Pf { protections: vec![why.clone()], ..pf(2) };
    assert_eq!(refusal(with_vfs, &mtu, ApplyPermissions::default()), PfRefusal::Protected(vec![why.clone()]));
    let recreated = Pf { protections: vec![why.clone()], ..pf(2) };
    assert_eq!(refusal(recreated, &file(4, ""), RECREATE), PfRefusal::Protected(vec![why.clone()]));
    let both = ApplyPermissions { recreate: true, force: true };
    let recreated = FakeCard::of(Pf { protections: vec![why.clone()], ..pf(2) });
    assert!(planned(&recreated, &file(4, ""), dir.path(), both).pfs[0].refusal.is_none());
    // If the number of VFs is correct, the PF is not reset.
    let there = Pf { protections: vec![why.clone()], ..pf(2) };
    assert!(
        planned(&FakeCard::of(there), &file(2, ""), dir.path(), ApplyPermissions::default()).pfs[0]
            .refusal
            .is_none()
    );
}

/// study cases V19 and V20.
#[test]
fn two_entries_for_one_pf_and_an_entry_for_none_are_errors() {
    let node = FakeCard::of(pf(0)).reading();
    let error = |text: &str| {
        let file = NodeFile::parse(text).unwrap();
        plan(&file, &node, ApplyPermissions::default()).unwrap_err().to_string()
    };
    let twice = "pfs:\n  - {match: {link: ens6f0np0}, vfs: 1}\n  - {match: {vendor: 15b3}, vfs: 2}\n";
    assert_eq!(error(twice), "pfs[1].match: PF 0000:af:00.0 is also matched by pfs[0]");
    // The other PFs are still configured.
    let text = format!("pfs:\n  - {{match: {{link: eth9}}, vfs: 1}}\n  - {{match: {{pci: {PF}}}, vfs: 1}}\n");
    let some = plan(&NodeFile::parse(&text).unwrap(), &node, ApplyPermissions::default()).unwrap();
    let expected = "pfs[0].match: {link: eth9} matches no PF; available: ens6f0np0 (0000:af:00.0)";
    assert_eq!((&some.missing[..], some.pfs[0].steps.is_empty()), (&[expected.to_owned()][..], false));
    assert!(!ProvisionPlan { pfs: Vec::new(), ..some }.is_empty(), "the node is not as described");
    let optional = NodeFile::parse("pfs:\n  - {match: {link: eth9}, vfs: 1, optional: true}\n").unwrap();
    assert!(plan(&optional, &node, ApplyPermissions::default()).unwrap().is_empty());
}

/// study cases V25 and V27.
#[test]
fn vfs_without_a_driver_or_a_guid_are_repaired_and_those_in_use_are_not_changed() {
    let mut broken = pf(4);
    (broken.vfs[0], broken.vfs[2]) = (vf(0, false), vf(2, false));
    broken.vfs[3].users.push(VfUser::LinkElsewhere { driver: "mlx5_core".into() });
    let (card, dir) = (FakeCard::of(broken), tempfile::tempdir().unwrap());
    let plan = planned(&card, &file(4, ""), dir.path(), ApplyPermissions::default());
    assert!(plan.pfs[0].notes[0].starts_with("VF 3 is in use and is left unchanged"), "{plan:?}");
    let (written, failures) = apply(&card, &file(4, ""), dir.path(), ApplyPermissions::default());
    assert!(failures.is_empty());
    let address =
        |vf| format!("vf {vf} the MAC address to {}", stable_mac("08:c0:eb:01:02:03", VfIndex(vf)).unwrap());
    // Only VF 1 has a driver that must read its address again.
    let expected = [
        address(0),
        "unbind 1".into(),
        address(1),
        address(2),
        "bind 0".into(),
        "bind 1".into(),
        "bind 2".into(),
    ];
    assert_eq!(written, expected);
    assert!(card.pf.lock().unwrap().vfs[..3].iter().all(|vf| !vf.lacks_guid()));
}

fn infiniband() -> Pf {
    let mut pf = pf(0);
    let link = pf.link.as_mut().unwrap();
    (link.infiniband, link.mac, link.permanent_mac) = (true, None, None);
    pf
}

#[test]
fn infiniband_vfs_get_guids_instead_of_mac_addresses() {
    let (card, dir) = (FakeCard::of(infiniband()), tempfile::tempdir().unwrap());
    let (written, _) =
        apply(&card, &file(1, "    vf: {linkState: auto}\n"), dir.path(), ApplyPermissions::default());
    let guid = stable_guid("0c42a10300651234", VfIndex(0));
    let expected =
        [format!("vf 0 the node GUID to {guid:016x}"), format!("vf 0 the port GUID to {guid:016x}")];
    assert_eq!(written[2..4], expected, "{written:?}");
}

/// study case V24.
#[test]
fn a_file_with_too_few_guids_is_refused_before_any_step() {
    let guids = r#"[{"pciAddress": "0000:af:00.0", "guids": ["0200000000000001", "0200000000000002"]}]"#;
    let wanted = |vfs| {
        let text =
            format!("guidFile: /guids\npfs:\n  - {{match: {{pci: {PF}}}, vfs: {vfs}, vf: {{guid: file}}}}\n");
        NodeFile { guids: GuidFile::parse(guids).unwrap(), ..NodeFile::parse(&text).unwrap() }
    };
    let node = FakeCard::of(infiniband()).reading();
    let planned = |vfs| plan(&wanted(vfs), &node, ApplyPermissions::default());
    let error = planned(3).unwrap_err().to_string();
    assert!(error.starts_with("pfs[0].vf.guid: the GUID file has 2 GUIDs"), "{error}");
    let steps = planned(2).unwrap().pfs.remove(0).steps;
    let second = VfSetting::NodeGuid(0x0200_0000_0000_0002);
    assert!(steps.contains(&PfStep::Configure { vf: VfIndex(1), change: second }), "{steps:?}");
    let without = format!("pfs:\n  - {{match: {{pci: {PF}}}, vfs: 1, vf: {{guid: file}}}}\n");
    assert!(NodeFile::parse(&without).unwrap_err().to_string().starts_with("guidFile: is missing"));
}

#[test]
fn a_pf_that_is_down_is_set_up_and_a_failure_does_not_affect_others() {
    let mut down = pf(0);
    down.link.as_mut().unwrap().up = false;
    let (card, dir) = (FakeCard { fails_at: 2, ..FakeCard::of(down) }, tempfile::tempdir().unwrap());
    let (written, failures) = apply(&card, &file(2, ""), dir.path(), ApplyPermissions::default());
    assert_eq!(written, ["up", "autoprobe 0"]);
    assert_eq!(failures[0].step, Some(PfStep::CreateVfs { count: 2 }));
    assert!(!remembered(dir.path())[&pci(PF)].complete);
    // A PF without VFs stays down.
    card.pf.lock().unwrap().link.as_mut().unwrap().up = false;
    let plan = planned(&card, &file(0, ""), Path::new("/none"), ApplyPermissions::default());
    assert_eq!(plan.pfs[0].steps, []);
}

#[test]
fn a_plan_combines_equal_steps_of_vfs() {
    let (card, dir) = (FakeCard::of(pf(0)), tempfile::tempdir().unwrap());
    let plan = planned(&card, &file(3, "    vf: {trust: true}\n"), dir.path(), ApplyPermissions::default());
    let expected = [
        "disable automatic binding of VFs to their driver",
        "create 3 VFs",
        "VFs 0-2: set trust on",
        "VFs 0-2: set the MAC address",
        "enable automatic binding of VFs to their driver",
        "VFs 0-2: bind to the driver",
    ];
    assert_eq!(plan.pfs[0].summary(), expected);
}

/// Members of a bond have the same MAC address; VFs of two PFs must not.
#[test]
fn addresses_come_from_the_card_s_own_address_also_in_a_bond() {
    let mut member = pf(0);
    member.link.as_mut().unwrap().mac = "02:00:00:00:00:07".parse().ok();
    let dir = tempfile::tempdir().unwrap();
    let plan = planned(&FakeCard::of(member), &file(1, ""), dir.path(), ApplyPermissions::default());
    let mac = stable_mac("08:c0:eb:01:02:03", VfIndex(0)).unwrap();
    let expected = PfStep::Configure { vf: VfIndex(0), change: VfSetting::Mac(mac) };
    assert!(plan.pfs[0].steps.contains(&expected), "{plan:?}");
}

#[test]
fn vfs_of_a_pf_that_the_node_depends_on_are_not_removed_without_consent() {
    let (card, dir) = (FakeCard::of(pf(0)), tempfile::tempdir().unwrap());
    apply(&card, &file(2, ""), dir.path(), ApplyPermissions::default());
    let why = ProtectionReason::DefaultRoute { link: "ens6f0np0".parse().unwrap() };
    card.pf.lock().unwrap().protections = vec![why.clone()];
    let plan = planned(&card, &file(0, ""), dir.path(), ApplyPermissions::default());
    assert_eq!(plan.pfs[0].refusal, Some(PfRefusal::Protected(vec![why])));
    let forced = ApplyPermissions { recreate: false, force: true };
    assert!(planned(&card, &file(0, ""), dir.path(), forced).pfs[0].refusal.is_none());
}

#[test]
fn a_card_that_creates_no_vfs_has_its_former_autoprobe() {
    let (card, dir) = (FakeCard { makes_none: true, ..FakeCard::of(pf(0)) }, tempfile::tempdir().unwrap());
    let (written, failures) = apply(&card, &file(2, ""), dir.path(), ApplyPermissions::default());
    assert_eq!(written, ["autoprobe 0", "autoprobe 1"], "{failures:?}");
    assert_eq!(failures[0].step, Some(PfStep::CreateVfs { count: 2 }));
    // After a timeout, firmware may still create VFs, which must not be bound without an address.
    for (hangs, autoprobe, expected) in [(true, true, &["autoprobe 0"][..]), (false, false, &[])] {
        let pf = Pf { autoprobe: Some(autoprobe), ..pf(0) };
        let (card, dir) =
            (FakeCard { makes_none: true, hangs, ..FakeCard::of(pf) }, tempfile::tempdir().unwrap());
        assert_eq!(apply(&card, &file(2, ""), dir.path(), ApplyPermissions::default()).0, expected);
    }
}
