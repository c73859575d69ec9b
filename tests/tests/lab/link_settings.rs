//! `silkrail links` shows what `ethtool` and `dcb` show.

use std::fs;

use dcb::{AppPriority, AppSelector, DcbxMode};
use serde_json::{Value, json};
use silkrail_tests::{cli::silkrail, machine::LabMachine};
use testkit::Observe;

/// Returns the first value of a name in the output of `ethtool`.
fn value<'t>(text: &'t str, name: &str) -> &'t str {
    let values = text.lines().filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    values.map(str::trim).next().unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn the_physical_state_is_that_of_ethtool() {
    let machine = LabMachine::shared();
    let links = silkrail("links --json").ended(0).json();
    let links: Vec<&Value> = links.as_array().unwrap().iter().collect();
    let link = |name: &str| *links.iter().find(|link| link["link"] == name).unwrap();
    for name in ["eth0", "eth1"] {
        let (ours, theirs) = (link(name), machine.node.run("ethtool", &[name]));
        let speed = format!("{}Mb/s", ours["modes"]["speed"]);
        assert_eq!(value(&theirs, "Speed"), speed, "{theirs}");
        let on = if ours["modes"]["autonegotiation"] == true { "on" } else { "off" };
        assert_eq!(value(&theirs, "Auto-negotiation"), on, "{theirs}");
        let up = if ours["state"]["up"] == true { "yes" } else { "no" };
        assert_eq!(value(&theirs, "Link detected"), up, "{theirs}");
        let modes = ours["modes"]["supported"].as_array().unwrap();
        let modes: Vec<_> =
            modes.iter().map(|mode| mode.as_str().unwrap()).filter(|mode| mode.contains("base")).collect();
        assert!(!modes.is_empty() && modes.iter().all(|mode| theirs.contains(mode)), "{modes:?} {theirs}");
        let pause = machine.node.run("ethtool", &["-a", name]);
        let is_on = |way: &str| value(&pause, way) == "on";
        let (rx, tx) = (is_on("RX"), is_on("TX"));
        assert_eq!((ours["pause"]["rx"] == true, ours["pause"]["tx"] == true), (rx, tx), "{pause}");
    }
    // This card has neither DCB nor FEC, and no module.
    for setting in ["dcb", "fec"] {
        assert!(link("eth0")[setting].is_null(), "{}", link("eth0"));
    }
    for args in [["dcb", "pfc", "show", "dev", "eth0"].as_slice(), &["ethtool", "--show-fec", "eth0"]] {
        let output = machine.node.command(args[0]).args(&args[1..]).output().unwrap();
        assert!(!output.status.success(), "{args:?}: {output:?}");
    }
}

/// Returns the priorities for which `dcb` shows PFC.
fn pfc(machine: &LabMachine) -> Vec<u8> {
    let shown = machine.node.run("dcb", &["-j", "pfc", "show", "dev", "eth0"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let on = |priority: &u8| shown["prio_pfc"][usize::from(*priority)] == true;
    assert_eq!(shown["prio_pfc"].as_array().map(Vec::len), Some(8), "{shown}");
    (0..8).filter(on).collect()
}

#[test]
fn dcb_settings_are_those_of_the_dcb_tool() {
    let machine = LabMachine::shared();
    let pf = fs::read_link("/sys/class/net/eth0/device").unwrap();
    let pf = pf.file_name().unwrap().to_str().unwrap();
    let _dcb = machine.simulate(pf, "dcb", "1");
    let dcb = |args: &str| machine.node.run("dcb", &args.split(' ').collect::<Vec<_>>());
    let shown = || silkrail("links eth0 --json").ended(0).json()[0]["dcb"].clone();
    let columns = || {
        let table = silkrail("links eth0").ended(0).stdout;
        let line: Vec<_> =
            table.lines().nth(1).unwrap().split_ascii_whitespace().map(str::to_owned).collect();
        line[line.len() - 2..].join(" ")
    };
    assert_eq!((pfc(&machine), columns().as_str()), (vec![], "off host"));

    dcb("pfc set dev eth0 prio-pfc all:off 3:on 5:on");
    dcb("app add dev eth0 dscp-prio 26:3");
    dcb("ets set dev eth0 tc-tsa all:strict 3:ets tc-bw all:0 3:100 prio-tc all:0 3:3");
    assert_eq!((pfc(&machine), columns().as_str()), (vec![3, 5], "3,5 host"));
    let settings = shown();
    assert_eq!(settings["pfc"]["enabled"], json!([3, 5]));
    assert_eq!(settings["apps"], json!([{"selector": "dscp", "protocol": 26, "priority": 3}]));
    assert_eq!(settings["ets"]["priorityClass"], json!([0, 0, 0, 3, 0, 0, 0, 0]));
    assert_eq!(settings["ets"]["transmitBandwidth"][3], 100);
    dcb("dcbx set dev eth0 ieee");
    assert_eq!(columns(), "3,5 firmware");
    dcb("dcbx set dev eth0 host ieee");
    dcb("app del dev eth0 dscp-prio 26:3");
}

#[test]
fn the_dcb_crate_sets_what_the_dcb_tool_shows() {
    let machine = LabMachine::shared();
    let pf = fs::read_link("/sys/class/net/eth0/device").unwrap();
    let pf = pf.file_name().unwrap().to_str().unwrap();
    let link = "eth0".parse().unwrap();
    let handle = dcb::Handle::open().unwrap();
    assert!(handle.settings(&link).unwrap_err().is_unsupported(), "the driver itself has no DCB");
    let _dcb = machine.simulate(pf, "dcb", "1");
    handle.set_pfc(&link, &[3, 4]).unwrap();
    assert_eq!(pfc(&machine), [3, 4]);
    handle.set_pfc(&link, &[]).unwrap();
    assert!(pfc(&machine).is_empty());
    let app = AppPriority { selector: AppSelector::Dscp, protocol: 26, priority: 3 };
    let apps = || machine.node.run("dcb", &["app", "show", "dev", "eth0", "dscp-prio"]);
    handle.add_app(&link, app).unwrap();
    assert!(apps().contains("26:3") || apps().contains("AF31:3"), "{}", apps());
    handle.del_app(&link, app).unwrap();
    assert!(!apps().contains(":3"), "{}", apps());
    let mut ets = handle.settings(&link).unwrap().ets.unwrap();
    ets.priority_class[3] = 3;
    handle.set_ets(&link, &ets).unwrap();
    let shown = machine.node.run("dcb", &["ets", "show", "dev", "eth0", "prio-tc"]);
    assert!(shown.contains("3:3"), "{shown}");
    // What the firmware manages cannot be set.
    let mode = |host| DcbxMode { host, ieee: true, ..DcbxMode::default() };
    handle.set_dcbx(&link, mode(false)).unwrap();
    let refused = handle.set_pfc(&link, &[3]).unwrap_err().to_string();
    assert!(refused.contains("firmware"), "{refused}");
    handle.set_dcbx(&link, mode(true)).unwrap();
    handle.set_pfc(&link, &[3]).unwrap();
    let trust = handle.set_trust(&link, &[AppSelector::Dscp]).unwrap_err();
    assert!(trust.is_unsupported(), "mlx5 has no trust order either: {trust}");
}
