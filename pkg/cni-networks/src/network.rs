//! A network: its name, its version, and its chain of plugins.

use serde_json::{Map, Value};

use crate::InvalidNetwork;

/// A network that a runtime or Multus would use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// `name`.
    pub name: String,
    /// `cniVersion`, empty if the network has none.
    pub cni_version: String,
    /// The plugins in the order in which an ADD calls them; at least one.
    pub plugins: Vec<NetworkPlugin>,
}

/// A plugin of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPlugin {
    /// `type`: the name of the executable.
    pub kind: String,
    /// `ipam.type`: the executable of the IPAM plugin.
    pub ipam: Option<String>,
    /// The configuration as the plugin receives it, except for `runtimeConfig` and `prevResult`.
    pub config: Map<String, Value>,
}

/// Returns whether a runtime reads a file of its configuration directory.
pub fn is_network_file(name: &str) -> bool {
    [".conf", ".conflist", ".json"]
        .iter()
        .any(|extension| name.len() > extension.len() && name.ends_with(extension))
}

impl Network {
    /// Parses a file of a configuration directory: a list of plugins in a `.conflist`, else the configuration of one plugin.
    ///
    /// # Errors
    /// If a runtime would refuse the file.
    pub fn from_file(file_name: &str, text: &str) -> Result<Self, InvalidNetwork> {
        let object = object(text)?;
        if file_name.ends_with(".conflist") {
            return Self::of_list(&object);
        }
        Self::of_plugin(object)
    }

    /// Parses the text of `spec.config` of a NetworkAttachmentDefinition, which Multus uses for a network without a `name`, too.
    ///
    /// # Errors
    /// If Multus would refuse it.
    pub fn from_definition(name: &str, config: &str) -> Result<Self, InvalidNetwork> {
        let mut object = object(config)?;
        object.entry("name").or_insert_with(|| name.into());
        if object.contains_key("plugins") { Self::of_list(&object) } else { Self::of_plugin(object) }
    }

    fn of_list(object: &Map<String, Value>) -> Result<Self, InvalidNetwork> {
        let (name, cni_version) = (required_text(object, "name", "name")?, version(object)?);
        let plugins = match object.get("plugins") {
            Some(Value::Array(plugins)) => plugins,
            Some(other) => return Err(wrong_type("plugins", "a list", other)),
            None => return Err(InvalidNetwork::Missing("plugins".into())),
        };
        if plugins.is_empty() {
            return Err(InvalidNetwork::NoPlugins);
        }
        let plugin = |(number, value): (usize, &Value)| {
            let path = format!("plugins[{number}]");
            let Value::Object(plugin) = value else { return Err(wrong_type(&path, "an object", value)) };
            // A runtime sets these two keys in the configuration of each plugin.
            let mut config = plugin.clone();
            config.insert("name".into(), name.clone().into());
            config.insert("cniVersion".into(), cni_version.clone().into());
            NetworkPlugin::of(config, &format!("{path}."))
        };
        let plugins = plugins.iter().enumerate().map(plugin).collect::<Result<_, _>>()?;
        Ok(Self { name, cni_version, plugins })
    }

    fn of_plugin(object: Map<String, Value>) -> Result<Self, InvalidNetwork> {
        let (name, cni_version) = (required_text(&object, "name", "name")?, version(&object)?);
        Ok(Self { name, cni_version, plugins: vec![NetworkPlugin::of(object, "")?] })
    }
}

impl NetworkPlugin {
    fn of(config: Map<String, Value>, path: &str) -> Result<Self, InvalidNetwork> {
        let kind = required_text(&config, "type", &format!("{path}type"))?;
        let ipam = match value(&config, "ipam") {
            // A plugin refuses an `ipam` that is not an object; the runtime does not read it.
            Some(Value::Object(ipam)) => value(ipam, "type").and_then(Value::as_str),
            _ => None,
        };
        let ipam = ipam.filter(|kind| !kind.is_empty()).map(str::to_owned);
        Ok(Self { kind, ipam, config })
    }

    /// Returns the value of a top-level key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        value(&self.config, key)
    }

    /// Returns the text of a top-level key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns the value of a key of `ipam`.
    pub fn ipam_value(&self, key: &str) -> Option<&Value> {
        value(self.value("ipam")?.as_object()?, key)
    }

    /// Returns the text of a key of `ipam`.
    pub fn ipam_text(&self, key: &str) -> Option<&str> {
        self.ipam_value(key)?.as_str()
    }

    /// Returns whether a top-level key is `true`.
    pub fn is_set(&self, key: &str) -> bool {
        self.value(key) == Some(&Value::Bool(true))
    }
}

/// Returns the value that a plugin finds under a key: plugins of Go and of Silkrail match keys in any case.
fn value<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let in_any_case =
        || object.iter().rev().find(|(other, _)| other.eq_ignore_ascii_case(key)).map(|(_, value)| value);
    object.get(key).or_else(in_any_case)
}

fn object(text: &str) -> Result<Map<String, Value>, InvalidNetwork> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(InvalidNetwork::NotAnObject(noun(&other))),
        Err(error) => Err(InvalidNetwork::Json(error.to_string())),
    }
}

fn required_text(object: &Map<String, Value>, key: &str, path: &str) -> Result<String, InvalidNetwork> {
    match object.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        None | Some(Value::String(_)) => Err(InvalidNetwork::Missing(path.to_owned())),
        Some(other) => Err(wrong_type(path, "a text", other)),
    }
}

fn version(object: &Map<String, Value>) -> Result<String, InvalidNetwork> {
    match object.get("cniVersion") {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(wrong_type("cniVersion", "a text", other)),
    }
}

fn wrong_type(key: &str, expected: &'static str, found: &Value) -> InvalidNetwork {
    InvalidNetwork::Type { key: key.to_owned(), expected, found: noun(found).to_owned() }
}

fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_passes_its_name_and_version_to_each_plugin() {
        let text = r#"{"cniVersion": "1.0.0", "name": "rail0", "plugins": [
            {"type": "sriov", "name": "other", "ipam": {"type": "silkrail-ipam"}}, {"type": "rdma"}]}"#;
        let network = Network::from_file("10-rail0.conflist", text).unwrap();
        assert_eq!((network.name.as_str(), network.cni_version.as_str()), ("rail0", "1.0.0"));
        let kinds: Vec<_> =
            network.plugins.iter().map(|plugin| (plugin.kind.as_str(), plugin.ipam.as_deref())).collect();
        assert_eq!(kinds, [("sriov", Some("silkrail-ipam")), ("rdma", None)]);
        for plugin in &network.plugins {
            assert_eq!((plugin.text("name"), plugin.text("cniVersion")), (Some("rail0"), Some("1.0.0")));
        }
    }

    #[test]
    fn a_configuration_of_one_plugin_is_a_network() {
        let network = Network::from_file(
            "a.conf",
            r#"{"name": "a", "type": "macvlan", "ipam": {}, "on": true, "off": false}"#,
        )
        .unwrap();
        assert_eq!(["on", "off", "none"].map(|key| network.plugins[0].is_set(key)), [true, false, false]);
        assert_eq!((network.plugins.len(), network.plugins[0].ipam.as_deref()), (1, None));
        assert_eq!(network.cni_version, "");
        let plugin = |more: &str| {
            let text = format!(r#"{{"name": "a", "type": "macvlan", {more}}}"#);
            Network::from_file("a.json", &text).unwrap().plugins.remove(0)
        };
        for none in [r#""ipam": {"type": ""}"#, r#""ipam": 7"#, r#""ipam": {"type": 7}"#] {
            assert_eq!(plugin(none).ipam, None, "{none}");
        }
        let both =
            plugin(r#""master": "", "mode": "bridge", "ipam": {"type": "host-local", "dataDir": "/d"}"#);
        assert_eq!((both.text("master"), both.text("mode"), both.text("ipam")), (None, Some("bridge"), None));
        let other_case =
            plugin(r#""MASTER": "a", "IPAM": {"Type": "dhcp", "STORE": "cluster"}, "LinkInContainer": true"#);
        assert_eq!((other_case.text("master"), other_case.ipam.as_deref()), (Some("a"), Some("dhcp")));
        assert_eq!(other_case.ipam_text("store"), Some("cluster"));
        assert!(other_case.is_set("linkInContainer"));
        assert_eq!((both.ipam_text("dataDir"), both.ipam_text("mode")), (Some("/d"), None));
    }

    #[test]
    fn a_definition_without_a_name_has_that_of_its_object() {
        let network = Network::from_definition("rail0", r#"{"type": "macvlan"}"#).unwrap();
        assert_eq!((network.name.as_str(), network.plugins[0].text("name")), ("rail0", Some("rail0")));
        let list = r#"{"name": "other", "plugins": [{"type": "ipvlan"}]}"#;
        assert_eq!(Network::from_definition("rail0", list).unwrap().name, "other");
        let list =
            Network::from_definition("rail0", r#"{"plugins": [{"type": "a"}, {"type": "b"}]}"#).unwrap();
        assert_eq!((list.plugins.len(), list.plugins[1].text("name")), (2, Some("rail0")));
        assert!(Network::from_definition("rail0", r#"{"name": "", "type": "macvlan"}"#).is_err());
    }

    #[test]
    fn what_a_runtime_refuses_is_invalid() {
        let list = |text: &str| Network::from_file("a.conflist", text).unwrap_err().to_string();
        assert!(list("{").starts_with("it is not valid JSON: "));
        assert_eq!(list("[]"), "expected a JSON object, found a list");
        assert_eq!(list(r#"{"plugins": []}"#), "name: missing");
        assert_eq!(
            list(r#"{"name": "a", "plugins": []}"#),
            "plugins: expected at least one plugin, found none"
        );
        assert_eq!(list(r#"{"name": "a", "type": "macvlan"}"#), "plugins: missing");
        assert_eq!(list(r#"{"name": "a", "plugins": [{}]}"#), "plugins[0].type: missing");
        assert_eq!(
            list(r#"{"name": "a", "plugins": [1]}"#),
            "plugins[0]: expected an object, found a number"
        );
        assert_eq!(list(r#"{"name": 1, "plugins": [{}]}"#), "name: expected a text, found a number");
        assert_eq!(list(r#"{"name": "a", "cniVersion": 1}"#), "cniVersion: expected a text, found a number");
        let one = Network::from_file("a.conf", r#"{"name": "a", "plugins": []}"#).unwrap_err();
        assert_eq!(one.to_string(), "type: missing");
    }

    #[test]
    fn a_runtime_reads_files_with_three_extensions() {
        for name in ["10-a.conf", "10-a.conflist", "a.json", ".hidden.conf"] {
            assert!(is_network_file(name), "{name}");
        }
        for name in ["a.yaml", "10-a.conflist.bak", "conf", ".conf", "multus.d"] {
            assert!(!is_network_file(name), "{name}");
        }
    }
}
