//! The keys `rails` and `trafficClass`.

use std::fmt::Display;

use identifiers::PciAddress;
use serde_json::Value;

use super::table::{Findings, Table};
use crate::Fabric;

/// Reads the keys. What is invalid is reported, and left out.
pub(super) fn read(table: &mut Table<'_>, findings: &mut Findings) -> Fabric {
    let mut fabric = Fabric::default();
    if let Some((path, value)) = table.take("rails") {
        match value.as_object() {
            Some(rails) => {
                for (pf, rail) in rails {
                    let rail = number(&format!("{path}.{pf}"), rail, u32::MAX, findings);
                    fabric.rails.extend(rail.map(|rail| (canonical(pf), rail)));
                }
            }
            None => findings
                .ignored(&path, format!("expected a mapping from PFs to numbers of rails, found {value}")),
        }
    }
    if let Some((path, value)) = table.take("trafficClass") {
        fabric.traffic_class = number(&path, value, u8::MAX, findings);
    }
    fabric
}

fn number<T: TryFrom<u64> + Display>(
    path: &str,
    value: &Value,
    largest: T,
    findings: &mut Findings,
) -> Option<T> {
    let number = value.as_u64().and_then(|number| T::try_from(number).ok());
    if number.is_none() {
        findings.ignored(path, format!("expected a number from 0 to {largest}, found {value}"));
    }
    number
}

/// Returns a PCI address as sysfs has it.
fn canonical(pf: &str) -> String {
    pf.parse().map_or_else(|_| pf.to_owned(), |pci: PciAddress| pci.to_string())
}
