//! Packets of each pod, by the packet sequence numbers of its queue pairs.
//!
//! A queue pair of a connection numbers its packets, and most cards tell the number of the next one. The numbers have 24
//! bits, so they are read at a step of their own, and not when somebody scrapes.

mod meter;
mod sampler;

use std::{path::PathBuf, sync::Arc};

use kubepods::Processes;
use rdma::{
    Device, Socket,
    resource::{self, QueuePair},
};
use sysfs::Sysfs;

use crate::{
    Collector, Counters, DeviceFilter, Holder, Objects, Reason, Settings, Trouble,
    layout::Layouts,
    pods::Pods,
    sheet::Sheet,
    usage::{Memory, Whose},
};

use meter::Meter;
pub(crate) use meter::Packets;
pub(crate) use sampler::{Harvest, Sampler};
use sampler::{Sample, Samples};

/// Drivers that read both numbers from the card, or are the card. Those of irdma are copies of what the program once set;
/// efa and siw have none.
const LIVE: [&str; 7] = ["mlx5", "mlx4", "mthca", "hns", "rxe", "hfi1", "qib"];

/// Starts to sample the node's devices.
pub(crate) fn start(settings: &Settings) -> Sampler {
    let node = Node {
        sysfs: Sysfs::at(settings.root.join("sys")),
        processes: Processes::at(&settings.root),
        root: settings.root.clone(),
        state_dir: settings.state_dir.clone(),
        devices: settings.devices.clone(),
        drivers: LIVE.into_iter().map(str::to_owned).chain(settings.psn_drivers.iter().cloned()).collect(),
    };
    Sampler::start(Arc::new(node), settings.psn_interval, settings.patience)
}

/// The node, as far as it is sampled.
#[derive(Debug, Clone)]
struct Node {
    sysfs: Sysfs,
    processes: Processes,
    root: PathBuf,
    state_dir: PathBuf,
    devices: DeviceFilter,
    drivers: Vec<String>,
}

impl Samples for Node {
    /// The devices that somebody has opened. One message for all of them; no card is asked.
    fn devices(&self) -> Result<Vec<(u32, String)>, Trouble> {
        let failed = |error: &(dyn std::error::Error + 'static)| Trouble::new(Collector::Psn, error);
        if !self.processes.sees_every_process().map_err(|error| failed(&error))? {
            let what =
                "the processes of pods are not seen: run it in the node's PID namespace (hostPID: true)";
            let (collector, reason) = (Collector::Psn, Reason::Permission);
            return Err(Trouble { collector, reason, what: what.to_owned() });
        }
        let counts = match rdma::open(&self.sysfs) {
            Ok(mut socket) => resource::resource_counts(&mut socket).map_err(|error| failed(&error))?,
            Err(rdma::Error::NoRdma) => Vec::new(),
            Err(error) => return Err(failed(&error)),
        };
        let used = counts.into_iter().filter(|counts| counts.ctx != Some(0));
        let used = used.map(|counts| (counts.device, counts.device_name));
        Ok(used.filter(|(_, name)| self.devices.has(name)).collect())
    }

    fn sampled(&self, device: u32) -> Box<dyn FnMut() -> Sample + Send> {
        let mut sampled = Sampled {
            index: device,
            pods: Pods::at(&self.root, &self.state_dir),
            node: self.clone(),
            device: None,
            meter: Meter::default(),
            memory: Memory::default(),
        };
        Box::new(move || sampled.sample())
    }
}

/// A device that is sampled again and again.
#[derive(Debug)]
struct Sampled {
    node: Node,
    index: u32,
    /// The device, and whether its numbers mean something.
    device: Option<(Device, Option<Trouble>)>,
    /// None has a name here: that is found when packets are told.
    pods: Pods,
    meter: Meter,
    memory: Memory,
}

impl Sampled {
    fn sample(&mut self) -> Sample {
        let mut sample = Sample::default();
        match self.read(&mut sample) {
            Ok(()) | Err(rdma::Error::NoSuchDevice { .. }) => {}
            Err(error) => sample.troubles.push(Trouble::new(Collector::Psn, &error)),
        }
        sample
    }

    fn read(&mut self, sample: &mut Sample) -> Result<(), rdma::Error> {
        let mut socket = rdma::open(&self.node.sysfs)?;
        let Some((device, strange)) = self.device(&mut socket)? else { return Ok(()) };
        if let Some(trouble) = strange {
            sample.troubles.push(trouble);
            return Ok(());
        }
        let mut pairs = resource::queue_pairs(&mut socket, &device)?.unwrap_or_default();
        pairs.retain(meter::counts);
        self.meter.turn(&pairs);
        if self.meter.has_strangers() {
            self.meet(&mut socket, &device, pairs, sample)?;
        }
        let only_port = (device.ports == 1).then_some(1);
        sample.packets = self.meter.packets(only_port);
        Ok(())
    }

    /// The device, and why its numbers mean nothing, if so. Both are asked once.
    fn device(&mut self, socket: &mut Socket) -> Result<Option<(Device, Option<Trouble>)>, rdma::Error> {
        if self.device.is_none()
            && let Some(device) = rdma::devices(socket)?.into_iter().find(|device| device.index == self.index)
        {
            let driver = rdma::driver(socket, &device)?;
            let is_live = driver.is_some_and(|driver| self.node.drivers.iter().any(|live| live == driver));
            let strange = (!is_live).then(|| means_nothing(&device.name, driver));
            self.device = Some((device, strange));
        }
        Ok(self.device.clone())
    }

    /// Finds out whose the queue pairs are that are new.
    fn meet(
        &mut self,
        socket: &mut Socket,
        device: &Device,
        pairs: Vec<QueuePair>,
        sample: &mut Sample,
    ) -> Result<(), rdma::Error> {
        let objects = Objects {
            queue_pairs: pairs,
            protection_domains: resource::protection_domains(socket, device)?.unwrap_or_default(),
            contexts: resource::contexts(socket, device)?.unwrap_or_default(),
            ..Objects::default()
        };
        let mut troubles = Vec::new();
        let mut whose = Whose::new(&self.node.processes, &self.pods, &mut self.memory, &mut troubles);
        let holders = whose.of_queue_pairs(device.index, &objects);
        self.meter.meet(|number| match holders.get(&number) {
            Some(Holder::Pod(pod)) => Some(Some(pod.clone())),
            Some(Holder::Node) => Some(None),
            Some(Holder::Unknown) | None => None,
        });
        sample.troubles.extend(troubles.into_iter().map(|t| Trouble { collector: Collector::Psn, ..t }));
        Ok(())
    }
}

fn means_nothing(device: &str, driver: Option<&str>) -> Trouble {
    let driver = driver.unwrap_or("one outside the kernel's tree");
    let what = format!(
        "packet numbers of RDMA device {device}: not counted, for its driver is {driver}, of which it is not known that \
         it tells them as they are; if it does, count them with --psn-driver"
    );
    Trouble { collector: Collector::Psn, reason: Reason::Unsupported, what }
}

impl Packets {
    /// As counters that every port has.
    pub(crate) fn sheet(self, layouts: &mut Layouts) -> Sheet {
        let counters: Counters =
            [("port_xmit_packets", self.sent), ("port_rcv_packets", self.received)].into_iter().collect();
        Sheet::of([&Counters::default(), &counters, &Counters::default()], layouts, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_not_known_to_tell_is_named_and_how_to_trust_it() {
        for (driver, name) in [(Some("irdma"), "irdma"), (None, "outside")] {
            let trouble = means_nothing("rocep1s0", driver);
            assert!(trouble.what.contains(name) && trouble.what.contains("--psn-driver"), "{trouble:?}");
            assert!(!trouble.reason.is_failure());
        }
    }
}
