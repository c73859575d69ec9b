//! Reads one port in each collection.

use std::{sync::Arc, time::Instant};

use identifiers::LinkName;
use rdma::Device;
use sysfs::GidTable;

use super::bond;
use crate::{
    CollectError, Collector, ErrorReason, RawCounters, counter_files::CounterFiles,
    device_reading::CounterNames, netns_sockets::NetnsSockets, netns_target::SysfsView,
};

/// The state of a port between collections.
#[derive(Debug, Default)]
pub(super) struct PortReader {
    hw_names: CounterNames,
    /// The same names as one text, for comparison.
    all_hw_names: String,
    pub(super) files: CounterFiles,
    /// Its link, and the names of its statistics as raw bytes and as text.
    link: Option<(LinkName, ethtool::StatNames, CounterNames)>,
    /// The time of reading, and the GID table.
    pub(super) gids: Option<(Instant, Arc<GidTable>)>,
}

impl PortReader {
    /// Creates the state of a new port with these open files.
    pub(super) fn of(files: CounterFiles) -> Self {
        Self { files, ..Self::default() }
    }

    /// Reads the hardware counters, in the driver's order.
    pub(super) fn hw_counters(
        &mut self,
        session: &mut NetnsSockets,
        device: &Device,
        port: u32,
        errors: &mut Vec<CollectError>,
    ) -> RawCounters {
        let table = match session.rdma.hw_counter_table(device, port) {
            Ok(table) => table,
            Err(rdma::Error::NoSuchDevice { .. }) => return RawCounters::default(),
            Err(error) => {
                errors.push(CollectError::new(Collector::HwCounters, &error));
                return RawCounters::default();
            }
        };
        if table.values.is_empty() && !self.hw_names.is_empty() {
            // The kernel returns an empty list both if the driver has no counters and if a firmware command failed.
            let what =
                format!("counters of RDMA device {}, port {port}: expected counters, got none", device.name);
            errors.push(CollectError {
                collector: Collector::HwCounters,
                reason: ErrorReason::Refused,
                what,
            });
            return RawCounters::default();
        }
        if table.all_names() != self.all_hw_names {
            self.all_hw_names = table.all_names().to_owned();
            self.hw_names = table.names().map(str::to_owned).collect();
        }
        RawCounters { names: self.hw_names.clone(), values: table.values }
    }

    /// Reads speed and statistics of the port's link.
    pub(super) fn link(
        &mut self,
        session: &mut NetnsSockets,
        link: Option<&str>,
        view: &SysfsView,
        errors: &mut Vec<CollectError>,
    ) -> (Option<u32>, RawCounters) {
        let Some(link) = link.and_then(|link| link.parse().ok()) else {
            return (None, RawCounters::default());
        };
        let Some(socket) = session.ethtool() else { return (None, RawCounters::default()) };
        let speed = socket.speed(&link).unwrap_or_else(|error| none_if_gone(error, errors));
        let mut statistics =
            self.statistics(socket, &link).unwrap_or_else(|error| none_if_gone(error, errors));
        if statistics.is_empty() {
            statistics = bond::statistics(socket, view.sysfs(), &link)
                .unwrap_or_else(|error| none_if_gone(error, errors));
        }
        (speed, statistics)
    }

    /// Reads the statistics. The names are cached: reading them takes as long as the values, and they rarely change.
    fn statistics(
        &mut self,
        socket: &ethtool::EthtoolSocket,
        link: &LinkName,
    ) -> Result<RawCounters, ethtool::Error> {
        if let Some((_, names, ours)) = self.link.as_ref().filter(|(kept, ..)| kept == link)
            && let Some(values) = socket.values(link, names)?
        {
            return Ok(RawCounters { names: ours.clone(), values });
        }
        let names = socket.names(link)?;
        let values = socket.values(link, &names)?;
        let ours: CounterNames = names.as_slice().into();
        self.link = Some((link.clone(), names, ours.clone()));
        Ok(values.map(|values| RawCounters { names: ours, values }).unwrap_or_default())
    }

    /// Returns the port's GID table; reads it again if the last reading was before `before`.
    pub(super) fn gids(
        &mut self,
        view: &SysfsView,
        device: &str,
        port: u32,
        before: Instant,
        errors: &mut Vec<CollectError>,
    ) -> Option<Arc<GidTable>> {
        if self.gids.as_ref().is_none_or(|(read, _)| *read < before) {
            match view.sysfs().gid_table(device, port) {
                Ok(table) => self.gids = Some((Instant::now(), Arc::new(table))),
                Err(error) if error.is_not_found() => self.gids = None,
                Err(error) => errors.push(CollectError::new(Collector::Gids, &error)),
            }
        }
        self.gids.as_ref().map(|(_, table)| table.clone())
    }
}

/// Adds the error unless the link is gone or its driver does not support the request. Returns the default value.
fn none_if_gone<T: Default>(error: ethtool::Error, errors: &mut Vec<CollectError>) -> T {
    let gone = matches!(error, ethtool::Error::NoSuchLink { .. });
    if !gone && !error.is_unsupported() {
        let what = error.to_string();
        errors.push(CollectError { collector: Collector::Ethtool, reason: ErrorReason::Refused, what });
    }
    T::default()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, time::Duration};

    use sysfs::Sysfs;

    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join("class/infiniband/d0/ports/1").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_gid_table_is_read_again_when_it_is_old_and_is_kept_if_that_fails() {
        let root = tempfile::tempdir().unwrap();
        let view = SysfsView::Node(Sysfs::at(root.path()));
        let (mut reader, mut errors) = (PortReader::default(), Vec::new());
        let mut gids = |before| {
            let table = reader.gids(&view, "d0", 1, before, &mut errors);
            let gids = table
                .map(|table| table.entries.iter().map(|entry| entry.gid.to_string()).collect::<Vec<_>>());
            (gids, errors.len())
        };
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        assert_eq!(gids(ago(60)), (None, 0), "the port is gone");
        write(root.path(), "link_layer", "Ethernet\n");
        for (file, text) in
            [("gids/0", "fe80::1"), ("gid_attrs/types/0", "RoCE v2"), ("gid_attrs/ndevs/0", "eth0")]
        {
            write(root.path(), file, text);
        }
        let of = |gid: &str| Some(vec![gid.to_owned()]);
        assert_eq!(gids(ago(60)), (of("fe80::1"), 0));
        write(root.path(), "gids/0", "fe80::2");
        assert_eq!(gids(ago(60)), (of("fe80::1"), 0), "it is recent");
        assert_eq!(gids(Instant::now()), (of("fe80::2"), 0));
        write(root.path(), "gids/0", "nonsense");
        assert_eq!(gids(Instant::now()), (of("fe80::2"), 1));
        fs::remove_dir_all(root.path().join("class")).unwrap();
        assert_eq!(gids(Instant::now()), (None, 1));
    }
}
