//! A ConfigMap as a file: which of its keys is the configuration of this node.

use serde_json::{Map, Value};

use super::{finding::InvalidConfig, table::Findings};

/// The ConfigMap of sriov-network-operator (`ConfigMapName` in pkg/consts/constants.go). Except of old versions, it has a key for
/// each node.
const OPERATOR: &str = "device-plugin-config";
/// The value of its `--resource-prefix` unless a site sets another one (`resourcePrefix` in values.yaml of its chart).
const OPERATOR_PREFIX: &str = "openshift.io";
const OLD_OPERATOR_KEY: &str = "config.json";

/// The keys by which a configuration is known.
const CONFIGURATION_KEYS: [&str; 4] = ["resourceList", "configList", "rails", "devicePlugin"];

/// Returns the key with the name of the node, or else the only one that is a configuration, with its value; `None` if it is that of
/// another node, which is reported.
pub(super) fn choose<'a>(
    document: &'a Map<String, Value>,
    findings: &mut Findings,
    node: &str,
) -> Result<Option<(&'a str, &'a str)>, InvalidConfig> {
    let data = document.get("data").and_then(Value::as_object).ok_or(InvalidConfig::Shape)?;
    let candidates: Vec<_> = match data.get_key_value(node) {
        Some(own) => vec![own],
        None if data.len() == 1 => data.iter().collect(),
        None => data.iter().filter(|(key, value)| is_configuration(key, value, findings)).collect(),
    };
    let of_other_nodes = is_of_operator(document);
    match candidates[..] {
        [(key, value)] if !of_other_nodes || key == node || key == OLD_OPERATOR_KEY => {
            let text = value.as_str().ok_or(InvalidConfig::Shape);
            Ok(Some((key, text.map_err(|error| error.of_data(key))?)))
        }
        [] => Err(InvalidConfig::Shape),
        _ => {
            let what = format!(
                "it has configurations for other nodes and none for {node}: add the key {node}, or keep one configuration"
            );
            findings.refused("data", what);
            Ok(None)
        }
    }
}

/// Returns the domain of resources without `resourcePrefix`, if it is known.
pub(super) fn resource_prefix(document: &Map<String, Value>) -> Option<&'static str> {
    is_of_operator(document).then_some(OPERATOR_PREFIX)
}

fn is_of_operator(document: &Map<String, Value>) -> bool {
    document.get("metadata").is_some_and(|metadata| metadata["name"] == OPERATOR)
}

/// Whether a value has a key of a configuration. Others are reported.
fn is_configuration(key: &str, value: &Value, findings: &mut Findings) -> bool {
    let documents = value.as_str().and_then(|text| yaml::documents(text).ok()).unwrap_or_default();
    let keys = documents.iter().filter_map(Value::as_object).flat_map(Map::keys);
    let is = keys.into_iter().any(|key| CONFIGURATION_KEYS.iter().any(|it| it.eq_ignore_ascii_case(key)));
    if !is {
        let what = format!("it is no configuration: expected {}", CONFIGURATION_KEYS.join(" or "));
        findings.ignored(&format!("data.{key}"), what);
    }
    is
}
