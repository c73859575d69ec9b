//! What an exporter reads, and how.

use std::{path::PathBuf, time::Duration};

use crate::{CollectorSet, DeviceFilter};

/// What an exporter reads, and how.
#[derive(Debug, Clone)]
pub struct ExporterOptions {
    /// What the node is called.
    pub node: String,
    /// The node's root directory.
    pub root: PathBuf,
    /// Where the plugins keep their state.
    pub state_dir: PathBuf,
    /// What is read.
    pub collectors: CollectorSet,
    /// Of which devices.
    pub devices: DeviceFilter,
    /// How long one device may take before the others go on without it.
    pub patience: Duration,
    /// How many counter files may be kept open; the others are opened for each reading.
    pub kept_files: usize,
    /// Also the names and labels of Spiderpool's dashboards.
    pub spiderpool: bool,
    /// How often packet numbers are read.
    pub psn_interval: Duration,
    /// Drivers whose packet numbers count, besides those that are known to tell them as they are.
    pub psn_drivers: Vec<String>,
}
