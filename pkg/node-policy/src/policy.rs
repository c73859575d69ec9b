//! The policy of a node.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{PolicyError, ResourceUses, rule};

/// The content of a policy file.
#[derive(Debug)]
pub struct NodePolicy {
    path: PathBuf,
    text: String,
    document: Value,
}

impl NodePolicy {
    /// The path below the root directory. Nothing in a network's configuration changes it.
    pub const PATH: &'static str = "etc/silkrail/policy.yaml";

    /// Reads the policy of the node with this root directory; `None` if there is none.
    ///
    /// # Errors
    /// [`PolicyError::File`], also if another user than root can write the file or a directory above it; [`PolicyError::Invalid`].
    pub fn read(root: &Path) -> Result<Option<Self>, PolicyError> {
        let path = root.join(Self::PATH);
        let Some(bytes) = statefile::read(&path)? else { return Ok(None) };
        let directories = Path::new(Self::PATH).ancestors().skip(1);
        directories.map(|dir| root.join(dir)).try_for_each(|dir| statefile::require_own_directory(&dir))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Self::parse(path, text).map(Some)
    }

    fn parse(path: PathBuf, text: String) -> Result<Self, PolicyError> {
        let mut documents = yaml::documents(&text).map_err(|error| PolicyError::Invalid {
            place: path.display().to_string(),
            what: error.to_string(),
        })?;
        let document = if documents.len() == 1 { documents.remove(0) } else { Value::Null };
        let policy = Self { path, text, document };
        match rule::rules(&policy.document) {
            Ok(_) => Ok(policy),
            Err((part, expected)) => {
                let what = if part.is_empty() { expected } else { format!("{part}: {expected}") };
                Err(PolicyError::Invalid { place: policy.place(&part), what })
            }
        }
    }

    /// Checks that pods of a namespace may use these resources: by the first rule for the namespace. `None` is a container without
    /// a namespace of Kubernetes, for which only rules without `namespaces` are.
    ///
    /// # Errors
    /// [`PolicyError::Refused`] for the first use that is not allowed.
    pub fn require(&self, namespace: Option<&str>, uses: &ResourceUses) -> Result<(), PolicyError> {
        let rules = self.document["rules"].as_array().map_or(&[][..], Vec::as_slice);
        let pods = namespace.map_or_else(
            || "containers without a namespace of Kubernetes".to_owned(),
            |namespace| format!("pods of the namespace {namespace:?}"),
        );
        let refused = |part: String, what| Err(PolicyError::Refused { what, place: self.place(&part) });
        let Some(number) = rules.iter().position(|rule| rule::is_for(rule, namespace)) else {
            return refused(String::new(), format!("no rule of the node's policy is for {pods}"));
        };
        let rule = &rules[number];
        let name = &rule["name"];
        if let Some(reason) = rule["deny"].as_str() {
            let what = format!("the rule {name} of the node's policy denies {pods} this network: {reason}");
            return refused(format!("rules[{number}].deny"), what);
        }
        let lists = &rule["allow"];
        for used in &uses.0 {
            let key = used.resource.key();
            if lists == rule::ALL || rule::allows(&lists[key], used) {
                continue;
            }
            let (part, allowed) = match &lists[key] {
                Value::Null => (format!("rules[{number}]"), format!("has no {key}")),
                list => (format!("rules[{number}].allow.{key}"), format!("has the {key} {list}")),
            };
            let value = used.names.first().map_or("", String::as_str);
            let what = format!(
                "{key}: {value} is not allowed for {pods}: the rule {name} of the node's policy {allowed}"
            );
            return refused(part, what);
        }
        Ok(())
    }

    /// Returns the file, with the line of a part; if that is missing, of what it is missing in.
    fn place(&self, part: &str) -> String {
        let line = |part: &str| yaml::line_of(&self.text, part);
        match line(part).or_else(|| line(part.rsplit_once('.')?.0)) {
            Some(line) => format!("{}, line {line}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
