//! The JSON of `/api/v1/node`: the latest snapshot.
//!
//! Names are in camelCase. They are stable, but names can be added. Unknown values are absent, never 0 or null. Counters start
//! when the driver is loaded and are integers below 2⁶⁴: JavaScript rounds values above 2⁵³, an error of one part in 10¹⁶.

mod collector;
mod counters;
mod device;
mod doctor;
mod pod;
mod unix_time;

use exporter::NodeSnapshot;
use serde::Serialize;

use self::{
    collector::CollectorView, device::DeviceView, doctor::DoctorView, pod::PodView, unix_time::seconds,
};

/// The top-level object of `/api/v1/node`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeView {
    /// The name of the node, as in the label `node` of the metrics.
    node: String,
    /// The version of silkraild, like `1.2.0`.
    version: &'static str,
    /// When the collection began, in seconds since 1970, by the clock of the node.
    time: f64,
    /// Whether the kernel supports RDMA.
    has_rdma: bool,
    /// The RDMA mode: `shared` (devices are visible in all network namespaces) or `exclusive` (each in one).
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// The last examination of `silkrail doctor --record`; absent if there was none since the boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    doctor: Option<DoctorView>,
    /// The status of each enabled collector.
    collectors: Vec<CollectorView>,
    /// The RDMA devices, those of the host namespace first.
    devices: Vec<DeviceView>,
    /// The pods with attachments, RDMA objects or traffic, sorted by namespace and name.
    pods: Vec<PodView>,
}

impl From<&NodeSnapshot> for NodeView {
    fn from(report: &NodeSnapshot) -> Self {
        Self {
            node: report.node.clone(),
            version: env!("CARGO_PKG_VERSION"),
            time: seconds(report.taken),
            has_rdma: report.has_rdma,
            mode: report.mode.map(|mode| mode.to_string()),
            doctor: report.doctor.as_ref().map(DoctorView::from),
            collectors: collector::all(report),
            devices: report.devices.iter().map(|device| DeviceView::of(device, report)).collect(),
            pods: pod::all(report),
        }
    }
}

#[cfg(test)]
mod tests;
