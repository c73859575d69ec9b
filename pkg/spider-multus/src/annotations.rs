//! The annotations of a `SpiderMultusConfig`.

use std::collections::BTreeMap;

use crate::{InvalidDocument, fields::Fields};

const NAME: &str = "multus.spidernet.io/cr-name";
const CNI_VERSION: &str = "multus.spidernet.io/cni-version";
const CONFIG_NAME: &str = "cni.spidernet.io/cniconfig-name";

/// An annotation of `kubectl apply`, which belongs to the object that it is on.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const CNI_VERSIONS: [&str; 4] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"];
const DEFAULT_CNI_VERSION: &str = "0.3.1";

/// The longest name of an object.
const MAX_NAME: usize = 253;

/// The annotations, and what they set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Annotations {
    /// Those that the NetworkAttachmentDefinition gets.
    pub(crate) all: BTreeMap<String, String>,
    /// The name of the NetworkAttachmentDefinition.
    pub(crate) name: String,
    /// The version of the network configuration.
    pub(crate) cni_version: String,
    /// The name in the network configuration.
    pub(crate) config_name: String,
}

impl Annotations {
    /// Reads the annotations of an object with this name.
    pub(crate) fn read(metadata: &mut Fields<'_>, name: &str) -> Result<Self, InvalidDocument> {
        let annotations = match metadata.value("annotations").map(|value| (value.as_object(), value)) {
            None => None,
            Some((Some(annotations), _)) => Some(annotations),
            Some((None, value)) => {
                return Err(metadata.invalid("annotations", format!("expected a mapping, found {value}")));
            }
        };
        let mut all = BTreeMap::new();
        for (key, value) in annotations.into_iter().flatten() {
            let text = value.as_str().ok_or_else(|| {
                metadata.invalid("annotations", format!("{key}: expected a string, found {value}"))
            })?;
            all.insert(key.clone(), text.to_owned());
        }
        all.remove(LAST_APPLIED);
        let name = all.get(NAME).cloned().unwrap_or_else(|| name.to_owned());
        if name.is_empty() || name.len() > MAX_NAME {
            let what = format!("{NAME}: expected a name of at most {MAX_NAME} characters, found {name:?}");
            return Err(metadata.invalid("annotations", what));
        }
        let cni_version = all.get(CNI_VERSION).map_or(DEFAULT_CNI_VERSION, String::as_str).to_owned();
        if !CNI_VERSIONS.contains(&cni_version.as_str()) {
            let expected = CNI_VERSIONS.join(", ");
            let what = format!("{CNI_VERSION}: expected one of {expected}, found {cni_version:?}");
            return Err(metadata.invalid("annotations", what));
        }
        let config_name = all.get(CONFIG_NAME).filter(|name| !name.is_empty()).unwrap_or(&name).clone();
        Ok(Self { all, name, cni_version, config_name })
    }
}
