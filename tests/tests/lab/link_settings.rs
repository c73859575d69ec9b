//! `silkrail links` shows what `ethtool` and `dcb` show.

use serde_json::Value;
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
