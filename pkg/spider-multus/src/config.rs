//! A `SpiderMultusConfig`.

use serde_json::Value;

use crate::{InvalidDocument, annotations::Annotations, chain::Chain, cni_type::CniType, fields::Fields};

/// A `SpiderMultusConfig`.
#[derive(Debug, Clone, PartialEq)]
pub struct SpiderMultusConfig {
    pub(crate) namespace: Option<String>,
    pub(crate) annotations: Annotations,
    pub(crate) network: Network,
}

/// What the network consists of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Network {
    /// Plugins.
    Chain(Box<Chain>),
    /// A configuration that is used as it is; `None` if there is none.
    Custom(Option<String>),
}

impl SpiderMultusConfig {
    /// Returns the name of the NetworkAttachmentDefinition.
    pub fn name(&self) -> &str {
        &self.annotations.name
    }

    /// Reads an object.
    pub(crate) fn read(object: &Value) -> Result<Self, InvalidDocument> {
        let text = |key: &str| object["metadata"][key].as_str();
        let name = text("name").unwrap_or_default();
        let title = match text("namespace") {
            Some(namespace) => format!("SpiderMultusConfig {namespace}/{name}"),
            None => format!("SpiderMultusConfig {name}"),
        };
        let empty = serde_json::Map::new();
        let mut fields = Fields::new(&title, "", object.as_object().unwrap_or(&empty));
        let mut metadata =
            fields.object("metadata")?.ok_or_else(|| fields.invalid("metadata", "it is missing"))?;
        let (name, namespace) = (metadata.required_text("name")?, metadata.text("namespace")?);
        let annotations = Annotations::read(&mut metadata, name)?;
        let mut spec = fields.object("spec")?.ok_or_else(|| fields.invalid("spec", "it is missing"))?;
        let network = Self::network(&mut spec)?;
        spec.end()?;
        Ok(Self { namespace: namespace.map(str::to_owned), annotations, network })
    }

    fn network(spec: &mut Fields<'_>) -> Result<Network, InvalidDocument> {
        let kind = spec.text("cniType")?.unwrap_or(CniType::Custom.name());
        let kind: CniType = kind.parse().map_err(|error: String| spec.invalid("cniType", error))?;
        for other in CniType::ALL.into_iter().filter(|other| *other != kind) {
            if spec.value(other.key()).is_some_and(|value| value != "") {
                let what = format!("it must be absent, because cniType is {}", kind.name());
                return Err(spec.invalid(other.key(), what));
            }
        }
        if kind == CniType::Custom {
            return Self::custom(spec);
        }
        let settings = spec.object(kind.key())?;
        let settings = settings
            .ok_or_else(|| spec.invalid(kind.key(), format!("it is missing; cniType is {}", kind.name())))?;
        Ok(Network::Chain(Box::new(Chain::read(kind, settings, spec)?)))
    }

    fn custom(spec: &mut Fields<'_>) -> Result<Network, InvalidDocument> {
        // They have no effect on it.
        for key in ["enableCoordinator", "disableIPAM", "ipam", "coordinator", "chainCNIJsonData"] {
            spec.value(key);
        }
        let Some(text) = spec.text(CniType::Custom.key())?.filter(|text| !text.is_empty()) else {
            return Ok(Network::Custom(None));
        };
        match serde_json::from_str::<Value>(text) {
            Ok(_) => Ok(Network::Custom(Some(text.to_owned()))),
            Err(error) => Err(spec.invalid(CniType::Custom.key(), format!("expected JSON: {error}"))),
        }
    }
}
