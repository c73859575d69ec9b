//! Nodes with several PFs.

use super::*;

const SECOND: &str = "0000:b0:00.0";

/// A node with two PFs, the second of which comes first in the inventory.
fn two(second: Pf, first: Pf) -> NodeReading {
    let mut node = FakeCard::of(first).reading();
    node.inventory.pfs.insert(0, Pf { pci: pci(SECOND), ..second });
    node
}

#[test]
fn each_pf_has_the_permissions_of_its_own_entry() {
    let why = ProtectionReason::DefaultRoute { link: "ens6f0np0".parse().unwrap() };
    let protected = || Pf { protections: vec![why.clone()], ..pf(0) };
    let text = format!(
        "pfs:\n  - {{match: {{pci: {PF}}}, vfs: 1, force: true}}\n  - {{match: {{pci: {SECOND}}}, vfs: 2}}\n"
    );
    let file = NodeFile::parse(&text).unwrap();
    let plan = plan(&file, &two(protected(), protected()), ApplyPermissions::default()).unwrap();
    let facts: Vec<_> = plan.pfs.iter().map(|pf| (pf.pci, pf.vfs, pf.refusal.is_some())).collect();
    assert_eq!(facts, [(pci(PF), 1, false), (pci(SECOND), 2, true)], "in the order of their addresses");
    assert_eq!(plan.refusals().count(), 1);
    assert!(!plan.is_empty());
}

/// A node may have cards in both modes.
#[test]
fn only_infiniband_needs_guids_of_the_file() {
    let text = "guidFile: /guids\npfs:\n  - {match: {driver: mlx5_core}, vfs: 1, vf: {guid: file}}\n";
    let guids =
        GuidFile::parse(r#"[{"pciAddress": "0000:af:00.0", "guids": ["0200000000000001"]}]"#).unwrap();
    let file = NodeFile { guids, ..NodeFile::parse(text).unwrap() };
    let plan = |second, first| plan(&file, &two(second, first), ApplyPermissions::default());
    assert!(plan(pf(0), infiniband()).is_ok());
    let error = plan(infiniband(), pf(0)).unwrap_err().to_string();
    assert!(error.starts_with("pfs[0].vf.guid: the GUID file has no entry for PF 0000:b0:00.0"), "{error}");
}

#[test]
fn a_plan_is_empty_only_if_no_pf_needs_a_step() {
    let file = NodeFile::parse("pfs:\n  - {match: {driver: mlx5_core}, vfs: 2, vf: {mac: keep}}\n").unwrap();
    let is_empty = |second, first| plan(&file, &two(pf(second), pf(first)), RECREATE).unwrap().is_empty();
    assert_eq!((is_empty(2, 2), is_empty(0, 2), is_empty(2, 0)), (true, false, false));
}

#[test]
fn the_failure_of_every_pf_is_reported() {
    let (card, dir) = (FakeCard { makes_none: true, ..FakeCard::of(pf(0)) }, tempfile::tempdir().unwrap());
    let file = NodeFile::parse("pfs:\n  - {match: {driver: mlx5_core}, vfs: 2}\n").unwrap();
    let plan = plan(&file, &two(pf(0), pf(0)), ApplyPermissions::default()).unwrap();
    let failures = execute(&plan, &card, dir.path(), &|_, _| ());
    let failed: Vec<_> = failures.iter().map(|failure| failure.pci).collect();
    assert_eq!(failed, [pci(PF), pci(SECOND)]);
    for pf in failed {
        assert!(!PfRecord::read(dir.path(), pf).unwrap().unwrap().complete);
    }
}

#[test]
fn a_second_entry_for_a_guid_file_needs_one_too() {
    let text = format!(
        "pfs:\n  - {{match: {{pci: {PF}}}, vfs: 1}}\n  - {{match: {{pci: {SECOND}}}, vfs: 1, vf: {{guid: file}}}}\n"
    );
    assert!(NodeFile::parse(&text).unwrap_err().to_string().starts_with("guidFile: is missing"));
}
