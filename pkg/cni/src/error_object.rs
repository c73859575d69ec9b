//! The JSON object of an error.

use serde::Serialize;

use crate::{Error, ErrorCode, Version, json::pretty};

impl Error {
    /// Returns the error as the JSON object of the specification.
    pub fn to_json(&self, version: Version) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ErrorObject<'a> {
            cni_version: &'static str,
            code: ErrorCode,
            msg: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            details: &'a str,
        }
        let Self { code, msg, details } = self;
        pretty(&ErrorObject { cni_version: version.as_str(), code: *code, msg, details })
    }
}
