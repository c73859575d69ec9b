//! PFC, priorities and traffic classes: `silkrail apply` sets them, and the doctor compares them. The kernel's DCB netlink and
//! the tool `dcb` of iproute2 are real, the settings of the card are simulated.

use std::{fs, path::PathBuf};

use serde_json::Value;
use silkrail_tests::{
    cli::{self, CommandOutput},
    machine::{LabMachine, PFS, SimulatedSetting},
};
use testkit::Observe;

use crate::healthy_machine::{HealthyMachine, remove, write};

/// A machine whose cards have DCB settings.
struct MachineWithDcb {
    machine: LabMachine,
    _dcb: Vec<SimulatedSetting>,
}

const RECORDS: &str = "/var/lib/silkrail/bootstrap";

impl MachineWithDcb {
    fn new(machine: LabMachine) -> Self {
        let _ = fs::remove_dir_all(RECORDS);
        let dcb = PFS.map(|pf| machine.simulate(&function(pf), "dcb", "1")).into();
        Self { machine, _dcb: dcb }
    }

    fn dcb(&self, args: &str) -> String {
        self.machine.node.run("dcb", &args.split(' ').collect::<Vec<_>>())
    }

    /// Returns the priorities for which `dcb` shows PFC on eth0.
    fn pfc(&self) -> Vec<u8> {
        let shown: Value = serde_json::from_str(&self.dcb("-j pfc show dev eth0")).unwrap();
        (0..8).filter(|priority| shown["prio_pfc"][usize::from(*priority)] == true).collect()
    }

    /// Applies a node file with these settings of eth0.
    fn apply(&self, vfs: u32, settings: &str, options: &str) -> CommandOutput {
        let state = self.machine.node.state_dir();
        let path: PathBuf = state.with_extension("yaml");
        fs::write(&path, format!("pfs:\n  - match: {{link: eth0}}\n    vfs: {vfs}\n{settings}")).unwrap();
        cli::silkrail(&format!("apply {} --state-dir {} {options}", path.display(), state.display()))
    }
}

impl Drop for MachineWithDcb {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(RECORDS);
        for pf in PFS {
            // The kernel keeps the application priorities, also of a card that was reset.
            let flush = ["app", "flush", "dev", pf, "dscp-prio"];
            let _ = self.machine.node.command("dcb").args(flush).status();
        }
    }
}

/// Returns the PCI address of a link.
fn function(link: &str) -> String {
    let path = fs::read_link(format!("/sys/class/net/{link}/device")).unwrap();
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

const LOSSLESS: &str = "    dcb:
      pfc: [3]
      trust: dscp
      dscpPriorities: {26: 3, 48: 6}
      trafficClasses:
        - {priorities: [0, 1, 2, 4, 5, 7], bandwidth: 40}
        - {priorities: [3], bandwidth: 60}
        - {priorities: [6]}
";

#[test]
fn a_node_file_sets_dcb_settings_and_removing_them_reverts_them() {
    let lab = MachineWithDcb::new(LabMachine::bare());
    lab.dcb("app add dev eth0 dscp-prio 26:1 10:2");
    let dry = lab.apply(0, LOSSLESS, "--dry-run").ended(0);
    assert!(dry.stdout.contains("change PFC from no priority to priority 3"), "{dry:?}");
    assert!(lab.pfc().is_empty());

    let done = lab.apply(0, LOSSLESS, "--detailed-exitcode").ended(11);
    assert!(done.stderr.contains("eth0: change PFC from no priority to priority 3"), "{done:?}");
    assert_eq!(lab.pfc(), [3]);
    let apps = || {
        let shown = lab.dcb("-N app show dev eth0 dscp-prio");
        let mut apps: Vec<String> =
            shown.split_ascii_whitespace().filter(|word| word.contains(':')).map(str::to_owned).collect();
        apps.sort_unstable();
        apps
    };
    assert_eq!(apps(), ["10:2", "26:3", "48:6"]);
    let ets: Value = serde_json::from_str(&lab.dcb("-j ets show dev eth0")).unwrap();
    assert_eq!(ets["prio_tc"], serde_json::json!([0, 0, 0, 1, 0, 0, 2, 0]), "{ets}");
    assert_eq!((&ets["tc_bw"][0], &ets["tc_bw"][1]), (&40.into(), &60.into()), "{ets}");
    assert_eq!((&ets["tc_tsa"][1], &ets["tc_tsa"][2]), (&"ets".into(), &"strict".into()), "{ets}");
    lab.apply(0, LOSSLESS, "--detailed-exitcode").ended(0);

    // Another program changes a setting: it is corrected.
    lab.dcb("pfc set dev eth0 prio-pfc 3:off");
    lab.apply(0, LOSSLESS, "--detailed-exitcode").ended(11);
    assert_eq!(lab.pfc(), [3]);

    lab.apply(0, "", "--detailed-exitcode").ended(11);
    assert_eq!((lab.pfc(), apps()), (vec![], vec!["10:2".to_owned(), "26:1".to_owned()]));
    let ets: Value = serde_json::from_str(&lab.dcb("-j ets show dev eth0")).unwrap();
    assert_eq!(ets["prio_tc"], Value::from(vec![0; 8]), "{ets}");
    lab.apply(0, "", "--detailed-exitcode").ended(0);

    // What another program has changed since is not reverted.
    lab.apply(0, LOSSLESS, "").ended(0);
    lab.dcb("pfc set dev eth0 prio-pfc 5:on");
    let removed = lab.apply(0, "", "").ended(0);
    assert!(removed.stdout.contains("not reverted, since another program has changed it"), "{removed:?}");
    assert_eq!((lab.pfc(), apps().len()), (vec![3, 5], 2));
}

#[test]
fn dcb_settings_are_not_changed_while_firmware_manages_them_or_a_pod_uses_the_card() {
    let lab = MachineWithDcb::new(LabMachine::shared());
    let settings = "    dcb: {pfc: [3]}\n    vf: {mac: keep}\n";
    lab.dcb("dcbx set dev eth0 ieee");
    let refused = lab.apply(7, settings, "").ended(3);
    assert!(refused.stdout.contains("dcb dcbx set dev eth0 host ieee"), "{refused:?}");
    lab.dcb("dcbx set dev eth0 host ieee");

    let pod = lab.machine.node.pod("lossless");
    let vf = lab.machine.vf("eth0", 2);
    lab.machine.node.run_ip(&format!("link set {} netns {}", vf.link, pod.path().display()));
    let refused = lab.apply(7, settings, "").ended(3);
    assert!(
        refused.stdout.contains("drain the node first") && refused.stdout.contains("VF 2"),
        "{refused:?}"
    );
    assert!(lab.pfc().is_empty());
    pod.run_ip(&format!("link set {} netns 1", vf.link));
    lab.apply(7, settings, "").ended(0);
    assert_eq!(lab.pfc(), [3]);
    // The file does not contain PFC any more.
    let removed = lab.apply(7, "    dcb: {trust: pcp}\n    vf: {mac: keep}\n", "").ended(0);
    assert!(removed.stderr.contains("change PFC from priority 3 to no priority"), "{removed:?}");
    assert!(lab.pfc().is_empty());
}

#[test]
fn each_fault_of_a_lossless_machine_is_reported() {
    let lab = MachineWithDcb::new(LabMachine::shared());
    let _class = PFS.map(|pf| lab.machine.simulate(&function(pf), "traffic_class", "106"));
    let pause = |pf: &str, on: &str| {
        lab.machine.node.run("ethtool", &["-A", pf, "autoneg", "off", "rx", on, "tx", on]);
    };
    for pf in PFS {
        lab.dcb(&format!("pfc set dev {pf} prio-pfc 3:on"));
        lab.dcb(&format!("app add dev {pf} dscp-prio 26:3"));
        // This card has global pause frames by default.
        pause(pf, "off");
    }
    let healthy = HealthyMachine::new(&lab.machine);
    let severe = healthy.baseline.iter().find(|finding| !finding.starts_with("info"));
    assert_eq!(severe, None, "a lossless machine has neither error nor warning");

    let differs = "warning lossless-differs eth0, eth1";
    let pfc = |setting: &str| lab.dcb(&format!("pfc set dev eth0 prio-pfc {setting}"));
    healthy.has(&[differs, "info pfc-off eth0"], || drop(pfc("3:off")), || drop(pfc("3:on")));
    healthy.has(
        &["warning pfc-other-priority eth0", differs],
        || drop(pfc("3:off 4:on")),
        || drop(pfc("3:on 4:off")),
    );
    healthy.has(&["warning pause-with-pfc eth0"], || pause("eth0", "on"), || pause("eth0", "off"));
    let app = |args: &str| lab.dcb(&format!("app {args}"));
    healthy.has(
        &["warning pfc-other-priority eth0", differs],
        || drop(app("replace dev eth0 dscp-prio 26:5")),
        || drop(app("replace dev eth0 dscp-prio 26:3")),
    );
    healthy.has(
        &["info dcb-by-firmware eth1"],
        || drop(lab.dcb("dcbx set dev eth1 ieee")),
        || drop(lab.dcb("dcbx set dev eth1 host ieee")),
    );
    let file = "/etc/silkrail/node.yaml";
    let wanted = |pfc: &str| {
        write(file, &format!("pfs:\n  - {{match: {{link: eth1}}, vfs: 7, dcb: {{pfc: {pfc}}}}}\n"));
    };
    healthy.has(&["error dcb-not-as-configured eth1"], || wanted("[3, 4]"), || ());
    healthy.has(&[], || wanted("[3]"), || remove(file));
    healthy.is_healthy();
    PFS.iter().for_each(|pf| pause(pf, "on"));
}
