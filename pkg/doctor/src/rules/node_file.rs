//! Comparison of the node with the node file, `/etc/silkrail/node.yaml`.

use crate::{DesiredDcb, Finding, FindingId, NodeFacts};

const BROKEN: FindingId =
    FindingId::new("node-file-broken", "The node file is invalid: silkrail apply does nothing");
const NO_PF: FindingId =
    FindingId::new("node-file-no-pf", "The node file refers to a PF that the node does not have");
const FEWER: FindingId =
    FindingId::new("vfs-fewer-than-configured", "A PF has fewer VFs than the node file requests");
const MODE: FindingId =
    FindingId::new("rdma-mode-not-as-configured", "The RDMA mode differs from the one in the node file");

const DCB: FindingId = FindingId::new(
    "dcb-not-as-configured",
    "PFC, priorities or traffic classes of a port differ from those in the node file",
);

pub(super) const IDS: &[FindingId] = &[BROKEN, NO_PF, FEWER, MODE, DCB];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let Some(wanted) = &facts.wanted else { return };
    let file = &wanted.file;
    if let Some(problem) = &wanted.problem {
        let finding = BROKEN.error(file, "the file is invalid: silkrail apply does nothing");
        found.push(
            finding.because(problem).fix("correct the file; silkrail apply --help contains an example"),
        );
    }
    for pf in &wanted.unmatched {
        let finding = NO_PF.error(file, format!("no PF of this node matches {pf}"));
        let fix = "correct the match, or add optional: true; silkrail vf list shows the PFs";
        found.push(finding.because(format!("match: {pf}")).fix(fix));
    }
    for vfs in &wanted.vfs {
        let pf = facts.function(&vfs.pf);
        let Some(&is) = pf.and_then(|pf| pf.num_vfs.get()) else { continue };
        if is < vfs.count {
            let finding = FEWER.error(&vfs.pf, format!("the PF has {is} VFs; expected {}", vfs.count));
            found.push(
                finding
                    .because(format!("{file}: {}", vfs.count))
                    .fix("drain the node, and run: silkrail apply"),
            );
        }
    }
    found.extend(wanted.dcb.iter().filter_map(|dcb| other_dcb(facts, file, dcb)));
    if let (Some(wanted), Some(now)) = (wanted.mode, facts.mode.now)
        && wanted != now
    {
        let finding = MODE.error("rdma-mode", format!("the RDMA mode is {now}; expected {wanted}"));
        let because = finding.because(format!("{file}: rdmaMode: {wanted}"));
        found.push(because.fix("run: silkrail apply; reboot if it says so"));
    }
}

/// Compares the DCB settings of a port. Those of a port without an RDMA device are not read.
fn other_dcb(facts: &NodeFacts, file: &str, wanted: &DesiredDcb) -> Option<Finding> {
    let settings = facts.link_settings.iter().find(|settings| settings.link == wanted.link)?;
    if settings.dcb_unread {
        return None;
    }
    let settings = settings.dcb.clone().unwrap_or_default();
    let mut differences =
        wanted.settings.unsupported(&settings).into_iter().map(|what| format!("no support for {what}"));
    let changes = wanted.settings.changes(&settings);
    let mut changes = changes.iter().map(ToString::to_string).peekable();
    let first = differences.next();
    if first.is_none() && changes.peek().is_none() {
        return None;
    }
    let finding = DCB.error(
        &wanted.link,
        format!("the port does not have the DCB settings of {file}: packets can be lost"),
    );
    let because =
        first.into_iter().chain(differences).chain(changes.map(|change| format!("needed: {change}")));
    Some(finding.because_all(because).fix("drain the node, and run: silkrail apply; it says why it refuses"))
}

#[cfg(test)]
mod tests {
    use dcb::{DcbSettings, Pfc, WantedDcb};
    use link_settings::LinkSettings;

    use super::super::testing::with;
    use crate::{DesiredDcb, DesiredState, DesiredVfs};

    fn wanted(wanted: DesiredState) -> Vec<String> {
        with(move |facts| facts.wanted = Some(DesiredState { file: "/node.yaml".into(), ..wanted }))
    }

    #[test]
    fn a_pf_has_the_requested_number_of_vfs() {
        let vfs = |count| {
            wanted(DesiredState {
                vfs: vec![DesiredVfs { pf: "0000:af:00.0".into(), count }],
                ..DesiredState::default()
            })
        };
        assert_eq!(vfs(2), ["error vfs-fewer-than-configured 0000:af:00.0"]);
        assert!(vfs(1).is_empty() && vfs(0).is_empty());
        let second = wanted(DesiredState {
            vfs: ["0000:ff:00.0", "0000:b0:00.0"].map(|pf| DesiredVfs { pf: pf.into(), count: 2 }).into(),
            ..DesiredState::default()
        });
        assert_eq!(second, ["error vfs-fewer-than-configured 0000:b0:00.0"]);
    }

    #[test]
    fn a_port_has_the_requested_dcb_settings() {
        let found = |enabled: Option<Vec<u8>>, wanted: Vec<u8>| {
            let dcb = enabled.map(|enabled| DcbSettings {
                pfc: Some(Pfc { enabled, ..Pfc::default() }),
                ..DcbSettings::default()
            });
            let settings = WantedDcb { pfc: Some(wanted), ..WantedDcb::default() };
            let mut found = with(move |facts| {
                facts.link_settings =
                    vec![LinkSettings { link: "eth0".into(), dcb, ..LinkSettings::default() }];
                let dcb = vec![DesiredDcb { link: "eth0".into(), settings }];
                facts.wanted =
                    Some(DesiredState { file: "/node.yaml".into(), dcb, ..DesiredState::default() });
            });
            found.retain(|finding| !finding.contains(" lossless"));
            found
        };
        assert!(found(Some(vec![0]), vec![0]).is_empty());
        assert_eq!(found(Some(vec![0]), vec![0, 4]), ["error dcb-not-as-configured eth0"]);
        assert_eq!(found(None, vec![0]), ["error dcb-not-as-configured eth0"]);
        let unread = with(|facts| {
            facts.link_settings =
                vec![LinkSettings { link: "eth0".into(), dcb_unread: true, ..LinkSettings::default() }];
            let settings = WantedDcb { pfc: Some(vec![0]), ..WantedDcb::default() };
            let dcb = vec![DesiredDcb { link: "eth0".into(), settings }];
            facts.wanted = Some(DesiredState { file: "/node.yaml".into(), dcb, ..DesiredState::default() });
        });
        assert!(unread.is_empty(), "{unread:?}");
        // A fabric that is meant to be lossy.
        assert!(found(Some(Vec::new()), Vec::new()).is_empty());
    }

    #[test]
    fn the_file_is_valid_and_its_pfs_exist() {
        let broken = wanted(DesiredState { problem: Some("pfs[0]".into()), ..DesiredState::default() });
        assert_eq!(broken, ["error node-file-broken /node.yaml"]);
        let missing =
            wanted(DesiredState { unmatched: vec!["{link: eth9}".into()], ..DesiredState::default() });
        assert_eq!(missing, ["error node-file-no-pf /node.yaml"]);
    }

    #[test]
    fn the_mode_is_the_requested_one() {
        let mode = |mode| wanted(DesiredState { mode: Some(mode), ..DesiredState::default() });
        assert_eq!(mode(rdma::NetnsMode::Exclusive), ["error rdma-mode-not-as-configured rdma-mode"]);
        assert!(mode(rdma::NetnsMode::Shared).is_empty());
    }
}
