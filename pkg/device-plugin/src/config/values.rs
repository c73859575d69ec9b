//! Values that both forms of a configuration have.

use std::{convert::Infallible, str::FromStr};

use super::table::{Findings, Table};
use crate::ResourceName;

/// Reads `resourcePrefix` and `resourceName`.
pub(super) fn name(table: &mut Table<'_>, prefix: &str, findings: &mut Findings) -> Option<ResourceName> {
    let prefix = table.text("resourcePrefix", findings).filter(|text| !text.is_empty()).unwrap_or(prefix);
    let key = if table.has("resourceName") {
        format!("{}.resourceName", table.path())
    } else {
        table.path().to_owned()
    };
    let name = table.text("resourceName", findings).unwrap_or_default();
    match format!("{prefix}/{name}").parse() {
        Ok(name) => Some(name),
        Err(error) => {
            table.invalid(&key, format!("resourceName: {error}"), findings);
            None
        }
    }
}

/// Reads `health`: whether devices are healthy although their port is down; `None` if it is invalid, which is reported.
pub(super) fn ignores_port(table: &mut Table<'_>, findings: &mut Findings) -> Option<bool> {
    let path = format!("{}.health", table.path());
    let Some(object) = table.object("health", findings) else { return Some(false) };
    let mut health = Table::new(&path, object);
    let port = health.text("port", findings);
    if let Some(other) = port.filter(|port| *port != "ignore") {
        let what = format!("{other:?} is not supported: expected \"ignore\"");
        health.invalid(&format!("{path}.port"), what, findings);
    }
    health.end(findings).then_some(port.is_some())
}

/// PCI IDs are compared in lower case without prefix, as sysfs and `lspci -n` show them.
pub(super) fn hexadecimal(ids: Vec<PciIdText>) -> Vec<String> {
    ids.into_iter().map(|id| id.0).collect()
}

/// A PCI ID of a file.
pub(super) struct PciIdText(String);

impl FromStr for PciIdText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.to_ascii_lowercase();
        Ok(Self(text.strip_prefix("0x").unwrap_or(&text).to_owned()))
    }
}
