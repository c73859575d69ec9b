//! The network configuration: the keys that all plugins read.

use serde_json::{Map, Value};

use crate::{AddResult, ConfObject, Error, ErrorCode, Version, result};

/// A network configuration with a valid name and a supported version.
#[derive(Debug, Clone)]
pub struct NetConf {
    /// The network's name: letters, digits, `_`, `.` and `-`.
    pub name: String,
    /// `cniVersion`, which is also the version of the result.
    pub version: Version,
    object: Map<String, Value>,
}

impl NetConf {
    /// Parses a configuration.
    ///
    /// # Errors
    /// If it is not a JSON object, or if its name is invalid or its version unsupported.
    pub fn parse(stdin: &[u8]) -> Result<Self, Error> {
        let object = Self::object(stdin)?;
        let name = Self::name_of(&object)?;
        let version =
            Version::from_conf(ConfObject::new(&object, "").text("cniVersion")?.unwrap_or_default())?;
        Ok(Self { name, version, object })
    }

    /// Parses the JSON object on standard input without checking its version.
    pub(crate) fn object(stdin: &[u8]) -> Result<Map<String, Value>, Error> {
        let decode =
            |why: String| Error::new(ErrorCode::DECODE, format!("error unmarshall network config: {why}"));
        match serde_json::from_slice(stdin) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(decode("expected a JSON object".into())),
            Err(e) => Err(decode(e.to_string())),
        }
    }

    /// Returns the network's name, checked with the rules of the specification: plugins use it in file names.
    pub(crate) fn name_of(object: &Map<String, Value>) -> Result<String, Error> {
        let Some(name) = ConfObject::new(object, "").text("name")? else {
            return Err(Error::config("missing network name"));
        };
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if !name.bytes().all(allowed) || !name.as_bytes()[0].is_ascii_alphanumeric() {
            let error = Error::config("invalid characters found in network name");
            return Err(error.with_details(name));
        }
        Ok(name.to_owned())
    }

    pub(crate) fn new(object: Map<String, Value>, name: String, version: Version) -> Self {
        Self { name, version, object }
    }

    /// Returns the top-level keys of the configuration.
    pub fn fields(&self) -> ConfObject<'_> {
        ConfObject::new(&self.object, "")
    }

    /// Returns `runtimeConfig`, the values of the capabilities that the runtime sets.
    ///
    /// # Errors
    /// If it is not an object.
    pub fn runtime(&self) -> Result<Option<ConfObject<'_>>, Error> {
        self.fields().object("runtimeConfig")
    }

    /// Returns the type of the IPAM delegate; `None` without IPAM (`ipam` is absent or `{}`, or its type is empty).
    ///
    /// # Errors
    /// If `ipam` is not an object or its `type` is not a string.
    pub fn ipam_type(&self) -> Result<Option<&str>, Error> {
        self.fields().object("ipam")?.map_or(Ok(None), |ipam| ipam.text("type"))
    }

    /// Checks that a result of this version can be without addresses, before anything is changed: 0.1.0 and 0.2.0 cannot
    /// express that.
    ///
    /// # Errors
    /// The error with which such a result could not be printed.
    pub fn require_results_without_addresses(&self) -> Result<(), Error> {
        AddResult::default().to_value(self.version).map(drop)
    }

    /// Returns `prevResult`, the result of the preceding plugin of the chain.
    ///
    /// # Errors
    /// If it does not have the format of its `cniVersion`, or of the configuration's if it has none.
    pub fn prev_result(&self) -> Result<Option<AddResult>, Error> {
        let Some(value) = self.fields().value("prevResult") else { return Ok(None) };
        result::prev_result(value, self.version).map(Some)
    }

    /// Returns `dns`, the resolver settings of the configuration.
    ///
    /// # Errors
    /// If `dns` does not have the format of the specification.
    pub fn dns(&self) -> Result<crate::Dns, Error> {
        self.fields().object("dns")?.map_or_else(|| Ok(crate::Dns::default()), |dns| result::dns(&dns))
    }
}
