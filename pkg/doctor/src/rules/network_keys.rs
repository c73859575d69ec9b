//! Keys of networks that their plugin does not have, and another plugin has. Plugins ignore unknown keys, as the Go plugins do.

use serde_json::Value;

use crate::{Finding, FindingId, NodeFacts};

const IGNORED: FindingId = FindingId::new(
    "network-key-ignored",
    "A network has a key that its plugin ignores, and another plugin has",
);

pub(super) const IDS: &[FindingId] = &[IGNORED];

/// The keys that not all plugins have, with the plugins that have them.
const KEYS: [(&str, &[&str]); 23] = [
    ("bcqueuelen", &["macvlan"]),
    ("bond", &["ifacer"]),
    ("deviceID", &["sriov", "ib-sriov", "rdma"]),
    ("ibKubernetesEnabled", &["ib-sriov"]),
    ("interfaces", &["ifacer"]),
    ("linkInContainer", &["macvlan", "ipvlan", "ipoib"]),
    ("link_state", &["sriov", "ib-sriov"]),
    ("mac", &["macvlan", "sriov"]),
    ("master", &["macvlan", "ipvlan", "ipoib"]),
    ("max_tx_rate", &["sriov"]),
    ("min_tx_rate", &["sriov"]),
    ("mode", &["macvlan", "ipvlan"]),
    ("mtu", &["macvlan", "ipvlan", "ipoib", "sriov"]),
    ("pkey", &["ipoib", "ib-sriov"]),
    ("rdmaIsolation", &["sriov", "ib-sriov"]),
    ("spoofchk", &["sriov"]),
    ("trust", &["sriov"]),
    ("vfioPciMode", &["ib-sriov"]),
    ("vlan", &["sriov"]),
    ("vlanID", &["ifacer"]),
    ("vlanName", &["ifacer"]),
    ("vlanProto", &["sriov"]),
    ("vlanQoS", &["sriov"]),
];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for network in &facts.networks.networks {
        for (kind, plugin) in network.kinds_of_ours().filter_map(|(kind, plugin)| Some((kind?, plugin))) {
            let keys = plugin.conf.config.iter().filter(|(_, value)| has_effect(value));
            found.extend(keys.filter_map(|(key, value)| {
                let (key, owners) = KEYS.iter().find(|(known, _)| known.eq_ignore_ascii_case(key))?;
                let is_ignored = kind != "silkrail-ipam" && !owners.contains(&kind);
                is_ignored.then(|| ignored(&network.object(), kind, key, value, owners))
            }));
        }
    }
}

fn has_effect(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false)) && *value != "" && *value != 0
}

fn ignored(network: &str, kind: &str, key: &str, value: &Value, owners: &[&str]) -> Finding {
    let owners = owners.join(", ");
    let finding = IGNORED.warning(network, format!("{kind} ignores {key}: pods are attached without it"));
    let fix = if key == "vlan" {
        "put ifacer with vlanID before the plugin, and set master to its link, or use sriov; or remove the key".to_owned()
    } else {
        format!("remove the key, or use a plugin that has it: {owners}")
    };
    finding.because(format!("{key} is {value}, a key of {owners}")).fix(fix)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::json;

    use super::{
        super::testing::{network, with},
        *,
    };

    #[test]
    fn a_key_of_another_plugin_is_ignored() {
        let found = |plugins: Value| with(|facts| facts.networks.networks.push(network("rail", &plugins)));
        let ignored = ["warning network-key-ignored network rail (/rail)"];
        let of_macvlan = |key: &str, value: Value| found(json!([{"type": "macvlan", key: value}]));
        assert_eq!(of_macvlan("vlan", json!(4000)), ignored);
        assert_eq!(of_macvlan("VLAN", json!(4000)), ignored, "the letter case does not matter");
        for (key, value) in [("vlan", json!(0)), ("vlan", json!("")), ("mtu", json!(9000)), ("x", json!(1))] {
            assert!(of_macvlan(key, value.clone()).is_empty(), "{key}: {value}");
        }
        assert!(found(json!([{"type": "sriov", "vlan": 4000}])).is_empty());
    }

    #[test]
    fn the_keys_are_those_of_the_pages() {
        let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
        for (plugin, directory) in [
            ("macvlan", "main"),
            ("ipvlan", "main"),
            ("ipoib", "main"),
            ("sriov", "main"),
            ("ib-sriov", "main"),
            ("rdma", "meta"),
            ("ifacer", "meta"),
        ] {
            let page = fs::read_to_string(plugins.join(directory).join(plugin).join("README.md")).unwrap();
            let section = page.split("\n## ").find(|section| section.starts_with("Keys")).unwrap();
            let rows =
                section.split("\n### ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| `"));
            let cells = rows.map(|row| row.split(" |").next().unwrap());
            let of_page: Vec<_> = cells
                .flat_map(|cell| cell.split(", "))
                .map(|key| key.trim_matches('`'))
                .filter(|key| !key.contains('.'))
                .collect();
            let of_table: Vec<_> =
                KEYS.iter().filter(|(_, owners)| owners.contains(&plugin)).map(|(key, _)| *key).collect();
            for key in &of_page {
                assert!(of_table.contains(key), "{plugin}: {key} is not in the table");
            }
            assert_eq!(of_page.len(), of_table.len(), "{plugin}: {of_page:?} {of_table:?}");
        }
    }
}
