//! One port, as it is read again and again.

use std::{sync::Arc, time::Instant};

use identifiers::LinkName;
use rdma::Device;

use super::bond;
use crate::{
    CollectError, Collector, ErrorReason, GidTable, RawCounters, counter_files::CounterFiles,
    device_reading::CounterNames, netns_sockets::NetnsSockets, netns_target::SysfsView,
};

/// What is kept of a port from one collection to the next.
#[derive(Debug, Default)]
pub(super) struct PortReader {
    hw_names: CounterNames,
    /// The same as one text, to be compared.
    all_hw_names: String,
    pub(super) files: CounterFiles,
    /// Its link, and the names of its statistics as the kernel writes them and as they are told.
    link: Option<(LinkName, ethtool::StatNames, CounterNames)>,
    /// Its GID table, and when it was read.
    pub(super) gids: Option<(Instant, Arc<GidTable>)>,
}

impl PortReader {
    /// One that read nothing yet but opened these files.
    pub(super) fn of(files: CounterFiles) -> Self {
        Self { files, ..Self::default() }
    }

    /// Hardware counters, in the driver's order.
    pub(super) fn hw_counters(
        &mut self,
        session: &mut NetnsSockets,
        device: &Device,
        port: u32,
        troubles: &mut Vec<CollectError>,
    ) -> RawCounters {
        let table = match session.rdma.hw_counter_table(device, port) {
            Ok(table) => table,
            Err(rdma::Error::NoSuchDevice { .. }) => return RawCounters::default(),
            Err(error) => {
                troubles.push(CollectError::new(Collector::HwCounters, &error));
                return RawCounters::default();
            }
        };
        if table.values.is_empty() && !self.hw_names.is_empty() {
            // The kernel has one answer for a driver without counters and for firmware that failed.
            let what =
                format!("counters of RDMA device {}, port {port}: there were some before", device.name);
            troubles.push(CollectError {
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

    /// Speed and statistics of the port's link.
    pub(super) fn link(
        &mut self,
        session: &mut NetnsSockets,
        link: Option<&str>,
        view: &SysfsView,
        troubles: &mut Vec<CollectError>,
    ) -> (Option<u32>, RawCounters) {
        let Some(link) = link.and_then(|link| link.parse().ok()) else {
            return (None, RawCounters::default());
        };
        let Some(socket) = session.ethtool() else { return (None, RawCounters::default()) };
        let speed = socket.speed(&link).unwrap_or_else(|error| none_if_gone(error, troubles));
        let mut statistics =
            self.statistics(socket, &link).unwrap_or_else(|error| none_if_gone(error, troubles));
        if statistics.is_empty() {
            statistics = bond::statistics(socket, view.sysfs(), &link)
                .unwrap_or_else(|error| none_if_gone(error, troubles));
        }
        (speed, statistics)
    }

    /// The names cost as much as the values, and hardly ever change.
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

    /// The port's GID table, read again if it is old.
    pub(super) fn gids(
        &mut self,
        view: &SysfsView,
        device: &str,
        port: u32,
        before: Instant,
        troubles: &mut Vec<CollectError>,
    ) -> Option<Arc<GidTable>> {
        if self.gids.as_ref().is_none_or(|(read, _)| *read < before) {
            match gid_table(view, device, port) {
                Ok(table) => self.gids = Some((Instant::now(), Arc::new(table))),
                Err(error) if error.is_not_found() => self.gids = None,
                Err(error) => troubles.push(CollectError::new(Collector::Gids, &error)),
            }
        }
        self.gids.as_ref().map(|(_, table)| table.clone())
    }
}

fn gid_table(view: &SysfsView, device: &str, port: u32) -> Result<GidTable, sysfs::Error> {
    Ok(GidTable {
        capacity: view.sysfs().gid_table_len(device, port)?,
        entries: view.sysfs().gids(device, port)?,
    })
}

/// A link that is gone, or has nothing to say, is no trouble.
fn none_if_gone<T: Default>(error: ethtool::Error, troubles: &mut Vec<CollectError>) -> T {
    let gone = matches!(error, ethtool::Error::NoSuchLink { .. });
    if !gone && !error.is_unsupported() {
        let what = error.to_string();
        troubles.push(CollectError { collector: Collector::Ethtool, reason: ErrorReason::Refused, what });
    }
    T::default()
}
