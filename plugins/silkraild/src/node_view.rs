//! What `/api/v1/node` tells: the latest report as JSON.
//!
//! Names are in camelCase and stay; further ones may come. What is not known is absent, never 0 or null. Counters count
//! from the driver's start, as whole numbers below 2⁶⁴: JavaScript rounds those above 2⁵³, which is one part in 10¹⁶.

mod collector;
mod counters;
mod device;
mod pod;

use exporter::NodeSnapshot;
use serde::Serialize;

use self::{collector::CollectorView, device::DeviceView, pod::PodView};

/// The node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeView {
    /// What the node is called.
    node: String,
    /// silkraild's version.
    version: &'static str,
    /// When the reading began, in seconds since 1970, by the node's clock.
    time: f64,
    /// Whether the kernel has RDMA at all.
    has_rdma: bool,
    /// Who sees an RDMA device: `shared`, every pod, or `exclusive`, one.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// How the collectors did their work: those that ran.
    collectors: Vec<CollectorView>,
    /// The devices, the node's own first.
    devices: Vec<DeviceView>,
    /// The pods that have something, by namespace and name.
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
            collectors: collector::all(report),
            devices: report.devices.iter().map(|device| DeviceView::of(device, report)).collect(),
            pods: pod::all(report),
        }
    }
}

/// Seconds since 1970.
fn seconds(time: std::time::SystemTime) -> f64 {
    time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests;
