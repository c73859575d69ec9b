//! Packets of each pod, from the packet sequence numbers (PSN) of its queue pairs.
//!
//! A connected queue pair numbers its packets, and most drivers report the number of the next one. The numbers have only 24
//! bits, so they are sampled at a fixed interval, independently of scrapes.

mod packet_meter;
mod sampler;

use std::{path::PathBuf, sync::Arc};

use kubepods::Processes;
use rdma::{Device, Handle, resource::QueuePair};
use sysfs::Sysfs;

use crate::{
    CollectError, Collector, DeviceResources, ErrorReason, ExporterOptions, NameFilter, RawCounters,
    ResourceHolder,
    counter_layout::CounterLayouts,
    counter_values::CounterValues,
    pods::PodDirectory,
    resource_usage::{ContextOwners, HolderResolver},
};

pub(crate) use packet_meter::PacketCounts;
use packet_meter::PsnMeter;
use sampler::{PsnSample, SampleSource};
pub(crate) use sampler::{Sampler, SamplerOutput};

/// Drivers that report both current numbers. irdma reports the initial numbers that the application set; efa and siw have
/// none.
const SUPPORTED_DRIVERS: [&str; 7] = ["mlx5", "mlx4", "mthca", "hns", "rxe", "hfi1", "qib"];

/// Starts sampling the devices of the node in the background.
pub(crate) fn start(settings: &ExporterOptions) -> Sampler {
    let node = PsnContext {
        sysfs: Sysfs::at(settings.root.join("sys")),
        processes: Processes::at(&settings.root),
        root: settings.root.clone(),
        state_dir: settings.state_dir.clone(),
        devices: settings.devices.clone(),
        drivers: SUPPORTED_DRIVERS
            .into_iter()
            .map(str::to_owned)
            .chain(settings.psn_drivers.iter().cloned())
            .collect(),
    };
    Sampler::start(Arc::new(node), settings.psn_interval, settings.device_timeout)
}

/// The parts of the node and of the options that sampling needs.
#[derive(Debug, Clone)]
struct PsnContext {
    sysfs: Sysfs,
    processes: Processes,
    root: PathBuf,
    state_dir: PathBuf,
    devices: NameFilter,
    drivers: Vec<String>,
}

impl SampleSource for PsnContext {
    /// Returns the devices that a process has opened, with a single netlink dump that does not access the hardware.
    fn devices(&self) -> Result<Vec<(u32, String)>, CollectError> {
        let failed = |error: &(dyn std::error::Error + 'static)| CollectError::new(Collector::Psn, error);
        if !self.processes.sees_every_process().map_err(|error| failed(&error))? {
            let what = "the processes of pods are not visible: run silkraild in the node's PID namespace \
                        (hostPID: true)";
            let (collector, reason) = (Collector::Psn, ErrorReason::Permission);
            return Err(CollectError { collector, reason, what: what.to_owned() });
        }
        let counts = match rdma::Handle::open(&self.sysfs) {
            Ok(rdma) => rdma.resource_counts().map_err(|error| failed(&error))?,
            Err(rdma::Error::NoRdma) => Vec::new(),
            Err(error) => return Err(failed(&error)),
        };
        let used = counts.into_iter().filter(|counts| counts.ctx != Some(0));
        let used = used.map(|counts| (counts.device, counts.device_name));
        Ok(used.filter(|(_, name)| self.devices.has(name)).collect())
    }

    fn sampled(&self, device: u32) -> Box<dyn FnMut() -> PsnSample + Send> {
        let mut sampled = SampledDevice {
            index: device,
            pods: PodDirectory::at(&self.root, &self.state_dir),
            node: self.clone(),
            device: None,
            meter: PsnMeter::default(),
            context_owners: ContextOwners::default(),
        };
        Box::new(move || sampled.sample())
    }
}

/// A device that is sampled repeatedly.
#[derive(Debug)]
struct SampledDevice {
    node: PsnContext,
    index: u32,
    /// The device, and an error if its driver is not supported.
    device: Option<(Device, Option<CollectError>)>,
    /// Contains no names. They are resolved when the packets are exposed.
    pods: PodDirectory,
    meter: PsnMeter,
    context_owners: ContextOwners,
}

impl SampledDevice {
    fn sample(&mut self) -> PsnSample {
        let mut sample = PsnSample::default();
        match self.read(&mut sample) {
            Ok(()) | Err(rdma::Error::NoSuchDevice { .. }) => {}
            Err(error) => sample.errors.push(CollectError::new(Collector::Psn, &error)),
        }
        sample
    }

    fn read(&mut self, sample: &mut PsnSample) -> Result<(), rdma::Error> {
        let rdma = rdma::Handle::open(&self.node.sysfs)?;
        let Some((device, unsupported)) = self.device(&rdma)? else { return Ok(()) };
        if let Some(error) = unsupported {
            sample.errors.push(error);
            return Ok(());
        }
        let mut pairs = rdma.queue_pairs(&device)?.unwrap_or_default();
        pairs.retain(packet_meter::is_countable);
        self.meter.sample(&pairs);
        if self.meter.has_unassigned() {
            self.resolve_owners(&rdma, &device, pairs, sample)?;
        }
        let only_port = (device.ports == 1).then_some(1);
        sample.packets = self.meter.packets(only_port);
        Ok(())
    }

    /// Returns the device, and an error if its driver is not supported. Both are read once.
    fn device(&mut self, rdma: &Handle) -> Result<Option<(Device, Option<CollectError>)>, rdma::Error> {
        if self.device.is_none()
            && let Some(device) = rdma.find_device_by_index(self.index)?
        {
            let driver = rdma.driver(&device)?;
            let is_live = driver.is_some_and(|driver| self.node.drivers.iter().any(|live| live == driver));
            let unsupported = (!is_live).then(|| unsupported_driver(&device.name, driver));
            self.device = Some((device, unsupported));
        }
        Ok(self.device.clone())
    }

    /// Finds the owners of new queue pairs.
    fn resolve_owners(
        &mut self,
        rdma: &Handle,
        device: &Device,
        pairs: Vec<QueuePair>,
        sample: &mut PsnSample,
    ) -> Result<(), rdma::Error> {
        let objects = DeviceResources {
            queue_pairs: pairs,
            protection_domains: rdma.protection_domains(device)?.unwrap_or_default(),
            contexts: rdma.contexts(device)?.unwrap_or_default(),
            ..DeviceResources::default()
        };
        let mut errors = Vec::new();
        let mut resolver =
            HolderResolver::new(&self.node.processes, &self.pods, &mut self.context_owners, &mut errors);
        let holders = resolver.of_queue_pairs(device.index, &objects);
        self.meter.assign_owners(|number| match holders.get(&number) {
            Some(ResourceHolder::Pod(pod)) => Some(Some(pod.clone())),
            Some(ResourceHolder::Node) => Some(None),
            Some(ResourceHolder::Unknown) | None => None,
        });
        sample.errors.extend(errors.into_iter().map(|t| CollectError { collector: Collector::Psn, ..t }));
        Ok(())
    }
}

fn unsupported_driver(device: &str, driver: Option<&str>) -> CollectError {
    let driver = driver.unwrap_or("out-of-tree");
    let what = format!(
        "packet numbers of RDMA device {device}: not counted, because its driver ({driver}) is not known to report \
         current numbers; if it does, enable it with --psn-driver"
    );
    CollectError { collector: Collector::Psn, reason: ErrorReason::Unsupported, what }
}

impl PacketCounts {
    /// Converts the counts into standard counters.
    pub(crate) fn counter_values(self, layouts: &mut CounterLayouts) -> CounterValues {
        let counters: RawCounters =
            [("port_xmit_packets", self.sent), ("port_rcv_packets", self.received)].into_iter().collect();
        CounterValues::of([&RawCounters::default(), &counters, &RawCounters::default()], layouts, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_contains_the_driver_and_the_option_to_enable_it() {
        for (driver, name) in [(Some("irdma"), "irdma"), (None, "out-of-tree")] {
            let error = unsupported_driver("rocep1s0", driver);
            assert!(error.what.contains(name) && error.what.contains("--psn-driver"), "{error:?}");
            assert!(!error.reason.counts_as_failure());
        }
    }
}
