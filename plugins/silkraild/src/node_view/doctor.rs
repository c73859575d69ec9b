//! The last examination of `silkrail doctor --record`.

use doctor_record::{DoctorRecord, NodeInventory, RecordedFinding};
use serde::Serialize;

/// The last examination.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DoctorView {
    /// When it ended, in seconds since 1970.
    time: u64,
    /// The findings, errors first; at most 256.
    findings: Vec<RecordedFinding>,
    /// The kernel, and the PCIe links of cards and GPUs.
    inventory: NodeInventory,
}

impl From<&DoctorRecord> for DoctorView {
    fn from(record: &DoctorRecord) -> Self {
        Self { time: record.time, findings: record.findings.clone(), inventory: record.inventory.clone() }
    }
}
