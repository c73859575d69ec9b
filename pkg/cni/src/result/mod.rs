//! The result of ADD: one type for all versions, which is converted to and from each version's format.

mod add_result;
mod read;
mod write;

use serde_json::Value;

pub use add_result::{AddResult, Dns, IpConfig, ResultInterface, ResultRoute};
pub(crate) use read::{dns, prev_result};

use crate::{Error, Version, json::pretty};

impl AddResult {
    /// Parses the result of a delegate. Without `cniVersion` it has the configuration's version; `null` is an empty result.
    ///
    /// # Errors
    /// [`crate::ErrorCode::DECODE`] if it does not have the format of its version.
    pub fn from_delegate(stdout: &[u8], conf: Version) -> Result<Self, Error> {
        read::delegate_result(stdout, conf)
    }

    /// Returns the result as JSON text in the format of `version`.
    ///
    /// # Errors
    /// If the result has no addresses and `version` is 0.1.0 or 0.2.0, which cannot express that.
    pub fn to_json(&self, version: Version) -> Result<String, Error> {
        write::result(self, version).map(|object| pretty(&object))
    }

    /// Returns the result as a JSON value in the format of `version`.
    ///
    /// # Errors
    /// As [`AddResult::to_json`].
    pub fn to_value(&self, version: Version) -> Result<Value, Error> {
        write::result(self, version)
    }
}
