//! Documents of a file.

use serde_json::Value;

use crate::{InvalidDocument, SpiderMultusConfig};

/// The `SpiderMultusConfig` objects of a file.
#[derive(Debug, Default)]
pub struct SpiderMultusConfigs {
    /// The objects, in the order of the file.
    pub configs: Vec<SpiderMultusConfig>,
    /// The other objects.
    pub ignored: Vec<IgnoredDocument>,
}

/// An object that is not rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredDocument {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

const KIND: &str = "SpiderMultusConfig";
const GROUP: &str = "spiderpool.spidernet.io/";

impl SpiderMultusConfigs {
    /// Parses YAML or JSON with any number of documents and lists.
    ///
    /// # Errors
    /// [`InvalidDocument`] for the first object that cannot be rendered.
    pub fn parse(text: &str) -> Result<Self, InvalidDocument> {
        let mut found = Self::default();
        for document in yaml::documents(text)? {
            found.add(&document)?;
        }
        Ok(found)
    }

    fn add(&mut self, object: &Value) -> Result<(), InvalidDocument> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&object["kind"]);
        let version = text(&object["apiVersion"]);
        if kind == KIND && (version.is_empty() || version.starts_with(GROUP)) {
            self.configs.push(SpiderMultusConfig::read(object)?);
        } else if kind.ends_with("List") {
            // Lists do not contain lists.
            let is_list = |item: &&Value| text(&item["kind"]).ends_with("List");
            let items = object["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            for item in items.iter().filter(|item| !is_list(item)) {
                self.add(item)?;
            }
        } else {
            self.ignored.push(IgnoredDocument { kind, name: text(&object["metadata"]["name"]) });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_are_read_and_other_kinds_are_ignored() {
        let config = "kind: SpiderMultusConfig\nmetadata: {name: NAME}\nspec: {cniType: custom}\n";
        let named = |name: &str| config.replace("NAME", name);
        let list = "kind: List\nitems:\n- {kind: SpiderMultusConfig, metadata: {name: c}, spec: {cniType: custom}}\n- {kind: ListList}\n";
        let pool = "kind: SpiderIPPool\nmetadata: {name: v4-81}\nspec: {}\n";
        let text = [&named("a"), pool, &named("b"), list].join("---\n");
        let found = SpiderMultusConfigs::parse(&text).unwrap();
        let names: Vec<_> = found.configs.iter().map(SpiderMultusConfig::name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(found.ignored, [IgnoredDocument { kind: "SpiderIPPool".into(), name: "v4-81".into() }]);
        assert!(matches!(SpiderMultusConfigs::parse("a: ["), Err(InvalidDocument::Yaml(_))));
    }
}
