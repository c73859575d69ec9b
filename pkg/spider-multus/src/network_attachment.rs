//! The NetworkAttachmentDefinition of a `SpiderMultusConfig`.

use std::collections::BTreeMap;

use identifiers::is_unprintable;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{SpiderMultusConfig, Target, chain::Plugin, config::Network};

/// The annotation by which Multus passes a device of a resource.
const RESOURCE: &str = "k8s.v1.cni.cncf.io/resourceName";

/// A NetworkAttachmentDefinition.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkAttachment {
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The network configuration, as JSON in several lines; `None` if there is none.
    pub config: Option<String>,
    /// What is otherwise than on a node with Spiderpool, or needs it nevertheless.
    pub remarks: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NetworkConfiguration<'a> {
    cni_version: &'a str,
    name: &'a str,
    plugins: Vec<Plugin>,
}

impl NetworkAttachment {
    /// Returns that of an object.
    pub fn of(config: &SpiderMultusConfig, target: Target) -> Self {
        let mut annotations = config.annotations.all.clone();
        let (text, remarks) = match &config.network {
            Network::Custom(text) => {
                let remarks = text.iter().filter_map(|text| foreign_plugin(text, target));
                (text.clone(), remarks.collect())
            }
            Network::Chain(chain) => {
                annotations.extend(chain.resource.clone().map(|resource| (RESOURCE.to_owned(), resource)));
                let configuration = NetworkConfiguration {
                    cni_version: &config.annotations.cni_version,
                    name: &config.annotations.config_name,
                    plugins: chain.plugins(target),
                };
                (serde_json::to_string_pretty(&configuration).ok(), chain.remarks(target))
            }
        };
        Self {
            namespace: config.namespace.clone(),
            name: config.annotations.name.clone(),
            annotations,
            config: text,
            remarks,
        }
    }

    /// Returns the object of the Kubernetes API.
    pub fn object(&self) -> Value {
        let mut metadata = json!({"name": self.name});
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = json!(namespace);
        }
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        let spec = self.config.as_ref().map_or_else(|| json!({}), |config| json!({"config": config}));
        json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": metadata, "spec": spec,
        })
    }

    /// Returns the object as YAML.
    pub fn yaml(&self) -> String {
        let mut yaml =
            "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n".to_owned();
        yaml += &format!("  name: {}\n", scalar(&self.name));
        if let Some(namespace) = &self.namespace {
            yaml += &format!("  namespace: {}\n", scalar(namespace));
        }
        if !self.annotations.is_empty() {
            yaml += "  annotations:\n";
        }
        for (key, value) in &self.annotations {
            yaml += &format!("    {}: {}\n", scalar(key), scalar(value));
        }
        match &self.config {
            None => yaml += "spec: {}\n",
            Some(config) if is_block(config) => {
                yaml += "spec:\n  config: |-\n";
                config.lines().for_each(|line| yaml += &format!("    {line}\n"));
            }
            Some(config) => yaml += &format!("spec:\n  config: {}\n", scalar(config)),
        }
        yaml
    }
}

/// Returns a text as a JSON string, which is a YAML scalar. Characters that some parsers take for the end of a line are escaped.
fn scalar(text: &str) -> String {
    let mut quoted = String::new();
    for c in Value::from(text).to_string().chars() {
        match c {
            c if is_unprintable(c) => {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().for_each(|unit| quoted += &format!("\\u{unit:04x}"));
            }
            c => quoted.push(c),
        }
    }
    quoted
}

/// Whether a text is the same as a literal block of YAML, for every parser.
fn is_block(text: &str) -> bool {
    let is_usual = |c: char| c == '\n' || !is_unprintable(c) && c != '\u{feff}';
    !text.starts_with([' ', '\n']) && !text.ends_with('\n') && text.chars().all(is_usual)
}

/// Returns a remark if a configuration that is used as it is calls a program of Spiderpool.
fn foreign_plugin(text: &str, target: Target) -> Option<String> {
    let names = ["\"spiderpool\"", "\"coordinator\""];
    let name = names.into_iter().find(|name| !target.has_spiderpool() && text.contains(name))?;
    Some(format!("customCNI is used as it is, and contains {name}"))
}
