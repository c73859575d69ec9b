//! The network configuration: what every plugin reads of it.

use serde_json::{Map, Value};

use crate::{AddResult, ConfObject, Error, ErrorCode, Version, result};

/// A network configuration that has a valid name and a version we speak.
#[derive(Debug, Clone)]
pub struct NetConf {
    /// The network's name.
    pub name: String,
    /// The version the result must have.
    pub version: Version,
    object: Map<String, Value>,
}

impl NetConf {
    /// Reads a whole configuration.
    ///
    /// # Errors
    /// If it is no JSON object, has no valid name, or a version we do not speak.
    pub fn parse(stdin: &[u8]) -> Result<Self, Error> {
        let object = Self::object(stdin)?;
        let name = Self::name_of(&object)?;
        let version =
            Version::from_conf(ConfObject::new(&object, "").text("cniVersion")?.unwrap_or_default())?;
        Ok(Self { name, version, object })
    }

    /// Reads the JSON object of the standard input, without a look at its version.
    pub(crate) fn object(stdin: &[u8]) -> Result<Map<String, Value>, Error> {
        let decode =
            |why: String| Error::new(ErrorCode::DECODE, format!("error unmarshall network config: {why}"));
        match serde_json::from_slice(stdin) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(decode("expected a JSON object".into())),
            Err(e) => Err(decode(e.to_string())),
        }
    }

    /// The network's name out of the configuration, checked: it becomes part of file names.
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

    /// The configuration's fields.
    pub fn fields(&self) -> ConfObject<'_> {
        ConfObject::new(&self.object, "")
    }

    /// The fields of `runtimeConfig`, if there are any.
    ///
    /// # Errors
    /// If it is no object.
    pub fn runtime(&self) -> Result<Option<ConfObject<'_>>, Error> {
        self.fields().object("runtimeConfig")
    }

    /// The IPAM delegate's type; `None` if there is no IPAM (absent, `{}`, or an empty type).
    ///
    /// # Errors
    /// If `ipam` is no object or its `type` no text.
    pub fn ipam_type(&self) -> Result<Option<&str>, Error> {
        self.fields().object("ipam")?.map_or(Ok(None), |ipam| ipam.text("type"))
    }

    /// The result of the chain so far.
    ///
    /// # Errors
    /// If it does not have the shape that its version, or else the configuration's, demands.
    pub fn prev_result(&self) -> Result<Option<AddResult>, Error> {
        let Some(value) = self.fields().value("prevResult") else { return Ok(None) };
        result::prev_result(value, self.version).map(Some)
    }

    /// The resolver settings of the configuration itself.
    ///
    /// # Errors
    /// If `dns` does not have the shape of the specification.
    pub fn dns(&self) -> Result<crate::Dns, Error> {
        self.fields().object("dns")?.map_or_else(|| Ok(crate::Dns::default()), |dns| result::dns(&dns))
    }
}
