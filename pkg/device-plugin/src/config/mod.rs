//! The configuration of resources.
//!
//! A file has the form of sriov-network-device-plugin (`resourceList`), of k8s-rdma-shared-dev-plugin (`configList`), or
//! both, in JSON or YAML, is a ConfigMap with such a file, perhaps for each node, or is a node file with the key `devicePlugin`. What is invalid is reported
//! with its line, and the other resources are used.

mod config_map;
mod exclusive;
mod fabric;
mod finding;
#[cfg(test)]
mod forms;
mod resource_spec;
mod shared;
mod table;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use finding::{Finding, InvalidConfig};
pub use resource_spec::{ExclusiveType, ResourceMode, ResourceSpec};

use table::{Findings, Table};

use crate::Fabric;

/// The key of a node file whose value is a configuration.
const SECTION: &str = "devicePlugin";

/// The keys by which a node file is known. The others are for `silkrail apply`.
const NODE_FILE_KEYS: [&str; 3] = [SECTION, "rdmaMode", "pfs"];

/// What a file does not say.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions<'a> {
    /// The name of the node: of a ConfigMap, the key with it is read.
    pub node: &'a str,
    /// The domain of resources without `resourcePrefix` in `resourceList`, which sriov-network-device-plugin has as its option
    /// `--resource-prefix`.
    pub resource_prefix: Option<&'a str>,
}

/// A configuration.
#[derive(Debug, Default)]
pub struct Config {
    /// The resources, in the order of the file: a device belongs to the first that selects it.
    pub resources: Vec<ResourceSpec>,
    /// Where the ports of the nodes are in the fabric.
    pub fabric: Fabric,
    /// What is invalid or has no effect.
    pub findings: Vec<Finding>,
}

impl Config {
    /// Parses the text of a file that is the same for all nodes: a ConfigMap must have one configuration only.
    ///
    /// # Errors
    /// [`InvalidConfig`] if it is not YAML, or not a mapping.
    pub fn parse(text: &str) -> Result<Self, InvalidConfig> {
        Self::with(text, ReadOptions::default())
    }

    /// Parses the text of a file for a node.
    ///
    /// # Errors
    /// [`InvalidConfig`] if it is not YAML, or not a mapping.
    pub fn with(text: &str, options: ReadOptions<'_>) -> Result<Self, InvalidConfig> {
        let mut documents = yaml::documents(text)?;
        let document = match (documents.pop(), documents.len()) {
            (Some(Value::Object(document)), 0) => document,
            (Some(_), 0) => return Err(InvalidConfig::Shape),
            (last, others) => return Err(InvalidConfig::Documents(others + usize::from(last.is_some()))),
        };
        let findings = Findings::new(yaml::lines(text)?);
        if document.get("kind").and_then(Value::as_str) == Some("ConfigMap") {
            return Self::of_config_map(&document, findings, options);
        }
        if NODE_FILE_KEYS.iter().any(|key| document.contains_key(*key)) {
            return Ok(Self::parse_node_file(&document, findings, options));
        }
        Ok(Self::read(Table::new("", &document), findings, options))
    }

    /// Parses the section of a node file; without it, there are no resources.
    fn parse_node_file(
        document: &Map<String, Value>,
        mut findings: Findings,
        options: ReadOptions<'_>,
    ) -> Self {
        let mut table = Table::new("", document);
        for key in ["resourceList", "configList"] {
            if table.has(key) {
                findings.ignored(key, format!("expected below {SECTION}, as the file is a node file"));
            }
        }
        match table.object(SECTION, &mut findings) {
            Some(section) => Self::read(Table::new(SECTION, section), findings, options),
            None => Self { findings: findings.into_list(), ..Self::default() },
        }
    }

    /// Whether it neither has resources nor should have.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.findings.is_empty()
    }

    fn of_config_map(
        document: &Map<String, Value>,
        mut findings: Findings,
        options: ReadOptions<'_>,
    ) -> Result<Self, InvalidConfig> {
        let chosen = config_map::choose(document, &mut findings, options.node)?;
        let findings = findings.into_list();
        let Some((key, text)) = chosen else { return Ok(Self { findings, ..Self::default() }) };
        let resource_prefix = options.resource_prefix.or_else(|| config_map::resource_prefix(document));
        let options = ReadOptions { resource_prefix, ..options };
        let config = Self::with(text, options).map_err(|error| error.of_data(key))?;
        let inside = config.findings.into_iter().map(|finding| finding.below(&format!("data[{key:?}]")));
        Ok(Self { findings: findings.into_iter().chain(inside).collect(), ..config })
    }

    fn read(mut table: Table<'_>, mut findings: Findings, options: ReadOptions<'_>) -> Self {
        let mut resources = Vec::new();
        for resource in table.tables("resourceList", &mut findings) {
            resources.extend(exclusive::read(resource, options.resource_prefix, &mut findings));
        }
        for resource in table.tables("configList", &mut findings) {
            resources.extend(shared::read(resource, &mut findings));
        }
        let fabric = fabric::read(&mut table, &mut findings);
        // Devices are found by events of the kernel, not by an interval.
        table.ignore("periodicUpdateInterval");
        table.end(&mut findings);
        refuse_duplicates(&mut resources, &mut findings);
        Self { resources, fabric, findings: findings.into_list() }
    }
}

/// Removes resources whose name another one has.
fn refuse_duplicates(resources: &mut Vec<ResourceSpec>, findings: &mut Findings) {
    let mut names = BTreeMap::new();
    resources.retain(|resource| match names.get(&resource.name) {
        Some(first) => {
            let what = format!("the resource {} is already at {first}: choose another name", resource.name);
            findings.refused(&format!("{}.resourceName", resource.path), what);
            false
        }
        None => {
            names.insert(resource.name.clone(), resource.path.clone());
            true
        }
    });
}
