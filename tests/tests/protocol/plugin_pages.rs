//! The pages of the plugins, `plugins/*/*/README.md`: a value that a page names as refused is.

use std::{fs, path::Path};

use serde_json::{Value, json};

use silkrail_tests::conf;

use crate::{ProtocolFixture, valid};

/// A plugin's page.
struct PluginPage {
    plugin: &'static str,
    directory: &'static str,
    /// Keys without which a value of another key would not be examined.
    base: fn() -> Value,
}

const PAGES: [PluginPage; 8] = [
    PluginPage { plugin: "macvlan", directory: "main/macvlan", base: shared },
    PluginPage { plugin: "ipvlan", directory: "main/ipvlan", base: shared },
    PluginPage { plugin: "ipoib", directory: "main/ipoib", base: shared },
    PluginPage {
        plugin: "sriov",
        directory: "main/sriov",
        base: || json!({"deviceID": "0000:00:00.0", "vlan": 100, "rdmaIsolation": true, "rdma": {"require": true}}),
    },
    PluginPage {
        plugin: "ib-sriov",
        directory: "main/ib-sriov",
        base: || json!({"deviceID": "0000:00:00.0", "rdmaIsolation": true, "rdma": {"require": true}}),
    },
    PluginPage {
        plugin: "rdma",
        directory: "meta/rdma",
        base: || {
            let prev = json!({"cniVersion": "1.0.0", "interfaces": [{"name": "net1", "sandbox": "/nonexistent/netns"}]});
            json!({"deviceID": "0000:00:00.0", "rdma": {"require": true}, "prevResult": prev})
        },
    },
    PluginPage {
        plugin: "ifacer",
        directory: "meta/ifacer",
        base: || json!({"interfaces": ["lo", "eth0"], "vlanID": 7, "bond": {"name": "bond0"}}),
    },
    PluginPage { plugin: "silkrail-ipam", directory: "ipam/silkrail-ipam", base: || json!({}) },
];

fn shared() -> Value {
    let ipam = json!({"type": "silkrail-ipam", "pools": [{"name": "a", "subnet": "10.7.0.0/24", "ips": ["10.7.0.5"]}]});
    json!({"master": "lo", "rdma": {"require": true}, "ipam": ipam})
}

impl PluginPage {
    fn text(&self) -> String {
        let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
        fs::read_to_string(plugins.join(self.directory).join("README.md")).unwrap()
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

    /// Returns the keys of the page and of every plugin, with their types.
    fn keys(&self) -> Vec<(String, String)> {
        let common = conf::path("README.md");
        let common = fs::read_to_string(common).unwrap();
        let (_, common) = common.split_once("## Keys of every plugin").unwrap();
        let text = self.text() + common.split("\n## ").next().unwrap();
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let parse = |row: &str| {
            let (keys, rest) = row.split_once(" | ").unwrap();
            let kind = rest.split(" | ").next().unwrap().to_owned();
            keys.split('`').skip(1).step_by(2).map(|key| (key.to_owned(), kind.clone())).collect::<Vec<_>>()
        };
        rows.flat_map(parse).collect()
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

/// The author of a network may know neither the names of files nor their content, and sees the errors of pods.
#[test]
fn a_path_is_only_where_its_key_belongs_and_no_key_tells_the_names_of_files() {
    let (fixture, dir) = (ProtocolFixture::new(), tempfile::tempdir().unwrap());
    let (tenants, secret) = (dir.path().to_str().unwrap(), "name-of-a-tenant");
    fs::write(dir.path().join(format!("{secret}.yaml")), format!("{secret}: [")).unwrap();
    let values =
        [tenants.to_owned(), format!("/run/silkrail/pools/../../..{tenants}"), "/proc/1/root".into()];
    let mut paths = 0;
    for page in &PAGES {
        let others = ["type", "name", "cniVersion"];
        for (key, kind) in page.keys().into_iter().filter(|(key, _)| !others.contains(&key.as_str())) {
            // Any other log file is not written.
            let is_path = kind.contains("path") && key != "logFile";
            for path in &values[..if is_path { values.len() } else { 1 }] {
                let mut conf = page.conf(&key, &json!(path));
                // Keys of every plugin are beside `ipam`, and files are read only without other pools.
                if !key.contains('.') {
                    conf[&key] = json!(path);
                }
                if key.starts_with("pools") {
                    conf["ipam"] = json!({"type": "silkrail-ipam", &key: path});
                }
                let call = fixture.call(page.plugin).conf(&conf);
                for answer in [call.add(), call.status()] {
                    let text = format!("{answer:?}");
                    assert!(!text.contains(secret), "{}: {key}: {path}: {text}", page.plugin);
                    let says =
                        |name: &str| answer.stdout.contains(name) && answer.stdout.contains("\"code\"");
                    assert!(
                        !is_path || says(key.rsplit('.').next().unwrap()),
                        "{}: {key}: {path}: {text}",
                        page.plugin
                    );
                    paths += usize::from(is_path);
                }
                drop(call.del());
            }
        }
    }
    assert!(paths > 60, "{paths}");
}
