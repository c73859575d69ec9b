//! The pages of the plugins, `plugins/*/*/README.md`: every key that a plugin reads is there, and a value that a page names as
//! refused is.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{ProtocolFixture, valid};

/// A plugin's page, and the sources that read its configuration.
struct PluginPage {
    plugin: &'static str,
    directory: &'static str,
    /// Further sources besides those of the plugin.
    sources: &'static [&'static str],
    /// Keys without which a value of another key would not be examined.
    base: fn() -> Value,
}

const PAGES: [PluginPage; 8] = [
    PluginPage {
        plugin: "macvlan",
        directory: "main/macvlan",
        sources: &["child-link/src/conf.rs"],
        base: shared,
    },
    PluginPage {
        plugin: "ipvlan",
        directory: "main/ipvlan",
        sources: &["child-link/src/conf.rs"],
        base: shared,
    },
    PluginPage {
        plugin: "ipoib",
        directory: "main/ipoib",
        sources: &["child-link/src/conf.rs"],
        base: shared,
    },
    PluginPage {
        plugin: "sriov",
        directory: "main/sriov",
        sources: &["vf/src/conf.rs", "vf/src/device_info.rs", "exclusive-rdma/src/requirement.rs"],
        base: || json!({"deviceID": "0000:00:00.0", "vlan": 100, "rdmaIsolation": true, "rdma": {"require": true}}),
    },
    PluginPage {
        plugin: "ib-sriov",
        directory: "main/ib-sriov",
        sources: &["vf/src/conf.rs", "vf/src/device_info.rs", "exclusive-rdma/src/requirement.rs"],
        base: || json!({"deviceID": "0000:00:00.0", "rdmaIsolation": true, "rdma": {"require": true}}),
    },
    PluginPage {
        plugin: "rdma",
        directory: "meta/rdma",
        sources: &["exclusive-rdma/src/requirement.rs"],
        base: || {
            let prev = json!({"cniVersion": "1.0.0", "interfaces": [{"name": "net1", "sandbox": "/nonexistent/netns"}]});
            json!({"deviceID": "0000:00:00.0", "rdma": {"require": true}, "prevResult": prev})
        },
    },
    PluginPage {
        plugin: "ifacer",
        directory: "meta/ifacer",
        sources: &[],
        base: || json!({"interfaces": ["lo", "eth0"], "bond": {"name": "bond0"}}),
    },
    PluginPage { plugin: "silkrail-ipam", directory: "ipam/silkrail-ipam", sources: &[], base: || json!({}) },
];

fn shared() -> Value {
    let ipam = json!({"type": "silkrail-ipam", "pools": [{"name": "a", "subnet": "10.7.0.0/24", "ips": ["10.7.0.5"]}]});
    json!({"master": "lo", "rdma": {"require": true}, "ipam": ipam})
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

impl PluginPage {
    fn text(&self) -> String {
        fs::read_to_string(root().join("plugins").join(self.directory).join("README.md")).unwrap()
    }

    /// Returns the keys of the page and the values that it names as refused, with their codes.
    fn refused(&self) -> Vec<(String, Value, u64)> {
        let text = self.text();
        let rows =
            text.lines().filter(|line| line.starts_with("| `")).map(|line| line.trim_end_matches(" |"));
        let refused = rows.filter_map(|row| row.rsplit_once("`: code "));
        let parse = |(row, code): (&str, &str)| {
            let key = row[3..].split('`').next().unwrap().to_owned();
            let value = row.rsplit_once('`').unwrap().1;
            (key, serde_json::from_str(value).unwrap(), code.parse().unwrap())
        };
        refused.map(parse).collect()
    }

    /// Returns the configuration with a key set, given by its path such as `rdma.require`.
    fn conf(&self, path: &str, value: &Value) -> Value {
        let mut conf = valid(self.plugin);
        conf.as_object_mut().unwrap().extend((self.base)().as_object().unwrap().clone());
        let mut place = if self.plugin == "silkrail-ipam" { &mut conf["ipam"] } else { &mut conf };
        let (parents, key) = path.rsplit_once('.').unwrap_or(("", path));
        for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
            place = &mut place[parent];
        }
        place[key] = value.clone();
        conf
    }

    /// Returns the keys that the sources read.
    fn keys_of_the_sources(&self) -> BTreeSet<String> {
        let own = root().join("plugins").join(self.directory).join("src");
        let own = fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path());
        let others = self.sources.iter().map(|source| root().join("pkg").join(source));
        let is_read = |path: &PathBuf| path.is_file() && !path.ends_with("go_plugin.rs");
        own.chain(others).filter(is_read).flat_map(|path| keys_read_by(&path)).collect()
    }
}

/// Returns the texts in calls such as `fields.text("mtu")`.
fn keys_read_by(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    let readers = [".text(\"", ".integer(\"", ".flag(\"", ".object(\"", ".texts(\"", ".list(\"", ".value(\""];
    let of = |reader: &str| -> Vec<String> {
        code.split(reader).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    readers.iter().flat_map(|reader| of(reader)).collect()
}

#[test]
fn every_key_that_a_plugin_reads_is_on_its_page() {
    let common = fs::read_to_string(root().join("conf/README.md")).unwrap();
    for page in &PAGES {
        let text = page.text();
        let keys = page.keys_of_the_sources();
        assert!(!keys.is_empty(), "{}", page.plugin);
        for key in keys {
            let is_there = |text: &str| {
                text.split('`').any(|part| part.split(['.', '[']).any(|it| it.trim_matches('"') == key))
            };
            assert!(is_there(&text) || is_there(&common), "{}: {key} is not on a page", page.plugin);
        }
    }
}

#[test]
fn a_value_that_a_page_names_as_refused_is_refused_with_its_code() {
    let fixture = ProtocolFixture::new();
    for page in &PAGES {
        let refused = page.refused();
        assert!(refused.len() >= 2, "{}: {refused:?}", page.plugin);
        for (key, value, code) in refused {
            let refusal = fixture.call(page.plugin).conf(&page.conf(&key, &value)).add().refusal();
            assert_eq!(refusal.code, code, "{}: {key}: {value}: {refusal:?}", page.plugin);
        }
    }
    assert!(fixture.is_untouched());
}

/// So `silkrail doctor`, which calls STATUS, names the key before the first pod does.
#[test]
fn a_value_that_a_page_names_as_refused_is_refused_by_status() {
    let fixture = ProtocolFixture::new();
    for page in &PAGES {
        // It requires an argument that ib-kubernetes adds for each pod.
        for (key, value, code) in page.refused().into_iter().filter(|(key, ..)| key != "ibKubernetesEnabled")
        {
            let mut conf = page.conf(&key, &value);
            conf["cniVersion"] = json!("1.1.0");
            let call = fixture.call(page.plugin).conf(&conf);
            let (add, status) = (call.add().refusal(), call.status().refusal());
            assert!([code, 50].contains(&status.code), "{}: {key}: {value}: {status:?}", page.plugin);
            assert_eq!(status.msg, add.msg, "{}: {key}: {value}", page.plugin);
        }
    }
    assert!(fixture.is_untouched());
}
