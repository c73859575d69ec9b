//! Packets of each pod, by the packet sequence numbers of its queue pairs.
//!
//! A queue pair of a connection numbers its packets, and most cards tell the number of the next one. The numbers have 24
//! bits, so they are read at a step of their own, and not when somebody scrapes.

mod packet_meter;
mod sampler;

use std::{path::PathBuf, sync::Arc};

use kubepods::Processes;
use rdma::{Device, Handle, resource::QueuePair};
use sysfs::Sysfs;

use crate::{
    CollectError, Collector, DeviceFilter, DeviceResources, ErrorReason, ExporterOptions, RawCounters,
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

/// Drivers that read both numbers from the card, or are the card. Those of irdma are copies of what the program once set;
/// efa and siw have none.
const SUPPORTED_DRIVERS: [&str; 7] = ["mlx5", "mlx4", "mthca", "hns", "rxe", "hfi1", "qib"];

/// Starts to sample the node's devices.
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
    Sampler::start(Arc::new(node), settings.psn_interval, settings.patience)
}

/// The node, as far as it is sampled.
#[derive(Debug, Clone)]
struct PsnContext {
    sysfs: Sysfs,
    processes: Processes,
    root: PathBuf,
    state_dir: PathBuf,
    devices: DeviceFilter,
    drivers: Vec<String>,
}

impl SampleSource for PsnContext {
    /// The devices that somebody has opened. One message for all of them; no card is asked.
    fn devices(&self) -> Result<Vec<(u32, String)>, CollectError> {
        let failed = |error: &(dyn std::error::Error + 'static)| CollectError::new(Collector::Psn, error);
        if !self.processes.sees_every_process().map_err(|error| failed(&error))? {
            let what =
                "the processes of pods are not seen: run it in the node's PID namespace (hostPID: true)";
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
            memory: ContextOwners::default(),
        };
        Box::new(move || sampled.sample())
    }
}

/// A device that is sampled again and again.
#[derive(Debug)]
struct SampledDevice {
    node: PsnContext,
    index: u32,
    /// The device, and whether its numbers mean something.
    device: Option<(Device, Option<CollectError>)>,
    /// None has a name here: that is found when packets are told.
    pods: PodDirectory,
    meter: PsnMeter,
    memory: ContextOwners,
}

impl SampledDevice {
    fn sample(&mut self) -> PsnSample {
        let mut sample = PsnSample::default();
        match self.read(&mut sample) {
            Ok(()) | Err(rdma::Error::NoSuchDevice { .. }) => {}
            Err(error) => sample.troubles.push(CollectError::new(Collector::Psn, &error)),
        }
        sample
    }

    fn read(&mut self, sample: &mut PsnSample) -> Result<(), rdma::Error> {
        let rdma = rdma::Handle::open(&self.node.sysfs)?;
        let Some((device, strange)) = self.device(&rdma)? else { return Ok(()) };
        if let Some(trouble) = strange {
            sample.troubles.push(trouble);
            return Ok(());
        }
        let mut pairs = rdma.queue_pairs(&device)?.unwrap_or_default();
        pairs.retain(packet_meter::is_countable);
        self.meter.turn(&pairs);
        if self.meter.has_unassigned() {
            self.resolve_owners(&rdma, &device, pairs, sample)?;
        }
        let only_port = (device.ports == 1).then_some(1);
        sample.packets = self.meter.packets(only_port);
        Ok(())
    }

    /// The device, and why its numbers mean nothing, if so. Both are asked once.
    fn device(&mut self, rdma: &Handle) -> Result<Option<(Device, Option<CollectError>)>, rdma::Error> {
        if self.device.is_none()
            && let Some(device) = rdma.devices()?.into_iter().find(|device| device.index == self.index)
        {
            let driver = rdma.driver(&device)?;
            let is_live = driver.is_some_and(|driver| self.node.drivers.iter().any(|live| live == driver));
            let strange = (!is_live).then(|| unsupported_driver(&device.name, driver));
            self.device = Some((device, strange));
        }
        Ok(self.device.clone())
    }

    /// Finds out whose the queue pairs are that are new.
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
        let mut troubles = Vec::new();
        let mut whose =
            HolderResolver::new(&self.node.processes, &self.pods, &mut self.memory, &mut troubles);
        let holders = whose.of_queue_pairs(device.index, &objects);
        self.meter.assign_owners(|number| match holders.get(&number) {
            Some(ResourceHolder::Pod(pod)) => Some(Some(pod.clone())),
            Some(ResourceHolder::Node) => Some(None),
            Some(ResourceHolder::Unknown) | None => None,
        });
        sample.troubles.extend(troubles.into_iter().map(|t| CollectError { collector: Collector::Psn, ..t }));
        Ok(())
    }
}

fn unsupported_driver(device: &str, driver: Option<&str>) -> CollectError {
    let driver = driver.unwrap_or("one outside the kernel's tree");
    let what = format!(
        "packet numbers of RDMA device {device}: not counted, for its driver is {driver}, of which it is not known that \
         it tells them as they are; if it does, count them with --psn-driver"
    );
    CollectError { collector: Collector::Psn, reason: ErrorReason::Unsupported, what }
}

impl PacketCounts {
    /// As counters that every port has.
    pub(crate) fn sheet(self, layouts: &mut CounterLayouts) -> CounterValues {
        let counters: RawCounters =
            [("port_xmit_packets", self.sent), ("port_rcv_packets", self.received)].into_iter().collect();
        CounterValues::of([&RawCounters::default(), &counters, &RawCounters::default()], layouts, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_not_known_to_tell_is_named_and_how_to_trust_it() {
        for (driver, name) in [(Some("irdma"), "irdma"), (None, "outside")] {
            let trouble = unsupported_driver("rocep1s0", driver);
            assert!(trouble.what.contains(name) && trouble.what.contains("--psn-driver"), "{trouble:?}");
            assert!(!trouble.reason.counts_as_failure());
        }
    }
}
