//! The configuration of the exporter.

use std::{path::PathBuf, time::Duration};

use crate::{CollectorSet, CounterSink, NameFilter, ResourceHealthStore};

/// The configuration of an [`Exporter`](crate::Exporter).
#[derive(Debug, Clone)]
pub struct ExporterOptions {
    /// The name of the Kubernetes node.
    pub node: String,
    /// The root directory of the host, such as `/host`.
    pub root: PathBuf,
    /// The state directory of the plugins, such as `/run/silkrail`.
    pub state_dir: PathBuf,
    /// The collectors that run.
    pub collectors: CollectorSet,
    /// The devices that are read. Others are never accessed.
    pub devices: NameFilter,
    /// The metrics that are exposed.
    pub metrics: NameFilter,
    /// The timeout for reading one device. A collection continues without a device that exceeds it.
    pub device_timeout: Duration,
    /// The maximum number of counter files to keep open; the others are opened for each reading.
    pub kept_files: usize,
    /// Whether to also expose the names and labels of Spiderpool's dashboards.
    pub spiderpool: bool,
    /// The interval between samples of packet sequence numbers.
    pub psn_interval: Duration,
    /// Additional drivers whose packet sequence numbers are used.
    pub psn_drivers: Vec<String>,
    /// The file that keeps the offsets of 32-bit counters over restarts; `None` to start at 0 again.
    pub counter_file: Option<PathBuf>,
    /// Gets the content of that file, if another process writes it with [`save_counters`](crate::save_counters).
    pub counter_sink: Option<CounterSink>,
    /// The health of the devices that the daemon offers to the kubelet.
    pub resources: ResourceHealthStore,
}
