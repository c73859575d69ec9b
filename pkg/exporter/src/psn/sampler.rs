//! Samples at a fixed step, each device on a thread of its own: firmware that hangs stops whoever asks it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use super::{PacketCounts, packet_meter::PodPackets};
use crate::{CollectError, Collector, PodInfo};

/// On a node that nobody asks, pods come and go for ever. No more of them are remembered, by device and port.
const MAX_UNREAD_PODS: usize = 10_000;

/// What can be sampled.
pub(super) trait SampleSource: Send + Sync + 'static {
    /// The numbers and names of the devices that are in use.
    fn devices(&self) -> Result<Vec<(u32, String)>, CollectError>;

    /// Takes a sample of a device each time it is called.
    fn sampled(&self, device: u32) -> Box<dyn FnMut() -> PsnSample + Send>;
}

/// What happened on a device since the last sample.
#[derive(Debug, Default)]
pub(super) struct PsnSample {
    pub(super) packets: Vec<PodPackets>,
    pub(super) troubles: Vec<CollectError>,
}

/// Samples in the background, for as long as this value lives.
pub(crate) struct Sampler {
    found: Arc<Mutex<SamplerState>>,
    patience: Duration,
    _alive: Sender<()>,
}

/// What was found since the last time somebody asked.
#[derive(Debug, Default)]
pub(crate) struct SamplerOutput {
    /// The packets of pods, by device and port.
    pub(crate) packets: BTreeMap<(Arc<PodInfo>, String, u32), PacketCounts>,
    /// The pods that had a connection in the last samples.
    pub(crate) pods: BTreeSet<Arc<PodInfo>>,
    /// What could not be read in the last samples.
    pub(crate) troubles: Vec<CollectError>,
    /// How long was sampled, all devices added up.
    pub(crate) spent: Duration,
}

#[derive(Debug, Default)]
struct SamplerState {
    packets: BTreeMap<(Arc<PodInfo>, String, u32), PacketCounts>,
    spent: Duration,
    /// What was wrong when the devices were last listed.
    trouble: Option<CollectError>,
    listing: Option<Instant>,
    devices: BTreeMap<u32, LastSample>,
}

/// A device, as of its last sample.
#[derive(Debug, Default)]
struct LastSample {
    name: String,
    /// Since when a sample has been under way.
    asked: Option<Instant>,
    pods: BTreeSet<Arc<PodInfo>>,
    troubles: Vec<CollectError>,
}

impl Sampler {
    /// Takes a sample of each device once in each interval.
    pub(super) fn start(samples: Arc<dyn SampleSource>, interval: Duration, patience: Duration) -> Self {
        let found = Arc::<Mutex<SamplerState>>::default();
        let (alive, ended) = channel();
        let clock = SampleTimer { samples, found: found.clone(), orders: HashMap::new() };
        let spawned = thread::Builder::new().name("psn".into()).spawn(move || clock.run(interval, &ended));
        if let Err(error) = spawned {
            lock(&found).trouble = Some(CollectError::new(Collector::Psn, &error));
        }
        Self { found, patience, _alive: alive }
    }

    /// What was found since the last call. Does not wait for anything.
    pub(crate) fn take(&self) -> SamplerOutput {
        let mut found = lock(&self.found);
        let mut troubles: Vec<CollectError> = found.trouble.iter().cloned().collect();
        troubles.extend(self.timed_out(found.listing, "the devices in use"));
        for watch in found.devices.values() {
            troubles.extend(watch.troubles.iter().cloned());
            let of = format!("queue pairs of RDMA device {}", watch.name);
            troubles.extend(self.timed_out(watch.asked, &of));
        }
        SamplerOutput {
            pods: found.devices.values().flat_map(|watch| watch.pods.iter().cloned()).collect(),
            packets: std::mem::take(&mut found.packets),
            spent: std::mem::take(&mut found.spent),
            troubles,
        }
    }

    fn timed_out(&self, asked: Option<Instant>, of: &str) -> Option<CollectError> {
        let silence = asked.map(|asked| asked.elapsed()).filter(|silence| *silence > self.patience);
        silence.map(|silence| CollectError::still_timed_out(Collector::Psn, of, silence))
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").finish_non_exhaustive()
    }
}

/// Tells each device's thread when to take a sample.
struct SampleTimer {
    samples: Arc<dyn SampleSource>,
    found: Arc<Mutex<SamplerState>>,
    orders: HashMap<u32, SyncSender<String>>,
}

impl SampleTimer {
    fn run(mut self, interval: Duration, ended: &Receiver<()>) {
        loop {
            let next = Instant::now() + interval;
            self.tick();
            let wait = next.saturating_duration_since(Instant::now());
            if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn tick(&mut self) {
        lock(&self.found).listing = Some(Instant::now());
        let devices = self.samples.devices();
        {
            let mut found = lock(&self.found);
            found.listing = None;
            found.trouble = devices.as_ref().err().cloned();
        }
        let Ok(devices) = devices else { return };
        self.stop_unused(&devices);
        for (device, name) in devices {
            self.request_sample(device, name);
        }
    }

    /// Ends the threads of devices that are not in use any more. One that hangs stays: it would get a second.
    fn stop_unused(&mut self, devices: &[(u32, String)]) {
        let mut found = lock(&self.found);
        let watches = &mut found.devices;
        self.orders.retain(|device, _| {
            let is_busy = watches.get(device).is_some_and(|watch| watch.asked.is_some());
            is_busy || devices.iter().any(|(other, _)| other == device)
        });
        watches.retain(|device, _| self.orders.contains_key(device));
    }

    fn request_sample(&mut self, device: u32, name: String) {
        let orders = match self.orders.entry(device) {
            std::collections::hash_map::Entry::Occupied(kept) => kept.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let (orders, received) = sync_channel(1);
                let (sampled, found) = (self.samples.sampled(device), self.found.clone());
                lock(&found).devices.insert(device, LastSample::default());
                let thread = thread::Builder::new().name(format!("psn {name}"));
                // Without a thread now, the next strike tries again.
                if thread.spawn(move || work(device, sampled, &received, &found)).is_err() {
                    return;
                }
                place.insert(orders)
            }
        };
        // Full: its last sample is not done yet.
        let _ = orders.try_send(name);
    }
}

fn work(
    device: u32,
    mut sampled: Box<dyn FnMut() -> PsnSample + Send>,
    orders: &Receiver<String>,
    found: &Mutex<SamplerState>,
) {
    for name in orders {
        let began = Instant::now();
        if let Some(watch) = lock(found).devices.get_mut(&device) {
            watch.asked = Some(began);
            watch.name.clone_from(&name);
        }
        let sample = sampled();
        lock(found).take(device, &name, sample, began.elapsed());
    }
}

impl SamplerState {
    fn take(&mut self, device: u32, name: &str, sample: PsnSample, spent: Duration) {
        self.spent += spent;
        if let Some(watch) = self.devices.get_mut(&device) {
            watch.asked = None;
            watch.pods = sample.packets.iter().map(|((pod, _), _)| pod.clone()).collect();
            watch.troubles = sample.troubles;
        }
        for ((pod, port), packets) in sample.packets {
            let key = (pod, name.to_owned(), port);
            if self.packets.len() < MAX_UNREAD_PODS || self.packets.contains_key(&key) {
                *self.packets.entry(key).or_default() += packets;
            }
        }
    }
}

fn lock(found: &Mutex<SamplerState>) -> MutexGuard<'_, SamplerState> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Condvar,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };

    use super::*;
    use crate::ErrorReason;

    /// Two devices: the first hangs for as long as the gate is shut.
    #[derive(Default)]
    struct SamplerTest {
        open: Mutex<bool>,
        changed: Condvar,
        gone: Mutex<bool>,
        refuses: Mutex<bool>,
        threads: AtomicUsize,
    }

    impl SamplerTest {
        fn set(&self, which: &Mutex<bool>, to: bool) {
            *which.lock().unwrap() = to;
            self.changed.notify_all();
        }
    }

    struct Shared(Arc<SamplerTest>);

    impl SampleSource for Shared {
        fn devices(&self) -> Result<Vec<(u32, String)>, CollectError> {
            if *self.0.refuses.lock().unwrap() {
                let what = "refused".into();
                return Err(CollectError { collector: Collector::Psn, reason: ErrorReason::Refused, what });
            }
            let gone = *self.0.gone.lock().unwrap();
            Ok(if gone { vec![] } else { vec![(1, "hung".into()), (2, "well".into())] })
        }

        fn sampled(&self, device: u32) -> Box<dyn FnMut() -> PsnSample + Send> {
            let test = self.0.clone();
            test.threads.fetch_add(1, SeqCst);
            Box::new(move || {
                let open = test.open.lock().unwrap();
                drop(test.changed.wait_while(open, |open| device == 1 && !*open).unwrap());
                let packets = PacketCounts { sent: 1, received: 2 };
                PsnSample { packets: vec![((pod(), 1), packets)], troubles: Vec::new() }
            })
        }
    }

    fn pod() -> Arc<PodInfo> {
        Arc::new(PodInfo { namespace: "ml".into(), name: "a".into(), uid: None })
    }

    fn start() -> (Arc<SamplerTest>, Sampler) {
        let test = Arc::<SamplerTest>::default();
        let step = Duration::from_millis(1);
        (test.clone(), Sampler::start(Arc::new(Shared(test)), step, step))
    }

    /// Takes until something is so.
    fn until(sampler: &Sampler, what: &str, so: impl Fn(&SamplerOutput) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !so(&sampler.take()) {
            assert!(Instant::now() < deadline, "never: {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn key(device: &str) -> (Arc<PodInfo>, String, u32) {
        (pod(), device.to_owned(), 1)
    }

    #[test]
    fn a_device_that_hangs_costs_its_own_samples_and_is_told_of() {
        let (test, sampler) = start();
        let tells_of_hung = |harvest: &SamplerOutput| {
            harvest
                .troubles
                .iter()
                .any(|t| t.reason == ErrorReason::Timeout && t.what.contains("RDMA device hung"))
        };
        until(&sampler, "the other is sampled", |h| h.packets.contains_key(&key("well")) && tells_of_hung(h));
        until(&sampler, "and again", |h| {
            h.packets.contains_key(&key("well")) && !h.packets.contains_key(&key("hung"))
        });
        test.set(&test.open, true);
        until(&sampler, "it is well again", |h| h.packets.contains_key(&key("hung")));
        until(&sampler, "nobody speaks of it any more", |h| !tells_of_hung(h));
        assert_eq!(test.threads.load(SeqCst), 2, "nobody else was sent after it");
    }

    #[test]
    fn packets_add_up_until_they_are_taken() {
        let (test, sampler) = start();
        test.set(&test.open, true);
        until(&sampler, "more than one sample", |harvest| {
            harvest.packets.get(&key("well")).is_some_and(|p| p.sent > 1 && p.received == 2 * p.sent)
        });
    }

    #[test]
    fn a_device_out_of_use_is_let_go_and_its_pods_with_it() {
        let (test, sampler) = start();
        test.set(&test.open, true);
        until(&sampler, "a pod is connected", |harvest| harvest.pods.contains(&pod()));
        test.set(&test.gone, true);
        until(&sampler, "no pod is", |harvest| harvest.pods.is_empty());
        test.set(&test.gone, false);
        until(&sampler, "it is again", |harvest| harvest.pods.contains(&pod()));
        assert!(test.threads.load(SeqCst) > 2);
    }

    #[test]
    fn one_that_hangs_is_left_to_its_fate_though_nobody_uses_it_any_more() {
        let (test, sampler) = start();
        let speaks_of =
            |harvest: &SamplerOutput, name: &str| harvest.troubles.iter().any(|t| t.what.contains(name));
        until(&sampler, "it hangs and the other does not", |harvest| {
            speaks_of(harvest, "device hung") && harvest.pods.contains(&pod())
        });
        test.set(&test.gone, true);
        until(&sampler, "the other is let go", |harvest| harvest.pods.is_empty());
        test.set(&test.gone, false);
        until(&sampler, "the other is in use again", |harvest| harvest.pods.contains(&pod()));
        let threads = test.threads.load(SeqCst);
        assert_eq!(threads, 3, "two for the other, and one for what hangs");
        test.set(&test.open, true);
        until(&sampler, "it is well again", |harvest| harvest.packets.contains_key(&key("hung")));
    }

    #[test]
    fn what_keeps_the_devices_from_being_listed_is_told_until_it_ends() {
        let (test, sampler) = start();
        test.set(&test.refuses, true);
        let refused =
            |harvest: &SamplerOutput| harvest.troubles.iter().any(|t| t.reason == ErrorReason::Refused);
        until(&sampler, "it is told", refused);
        test.set(&test.refuses, false);
        until(&sampler, "it is over", |harvest| !refused(harvest));
    }

    #[test]
    fn while_nobody_asks_only_so_many_pods_are_remembered() {
        let mut found = SamplerState::default();
        let sample = |numbers: std::ops::Range<usize>| {
            let of = |number: usize| Arc::new(PodInfo { name: number.to_string(), ..(*pod()).clone() });
            let packets =
                numbers.map(|number| ((of(number), 1), PacketCounts { sent: 1, received: 2 })).collect();
            PsnSample { packets, troubles: Vec::new() }
        };
        found.take(2, "well", sample(0..MAX_UNREAD_PODS), Duration::ZERO);
        found.take(2, "well", sample(MAX_UNREAD_PODS - 1..MAX_UNREAD_PODS + 1), Duration::ZERO);
        assert_eq!(found.packets.len(), MAX_UNREAD_PODS);
        assert_eq!(found.packets.values().map(|packets| packets.sent).max(), Some(2), "known ones go on");
    }

    #[test]
    fn it_ends_with_its_value() {
        let (test, sampler) = start();
        test.set(&test.open, true);
        drop(sampler);
        let deadline = Instant::now() + Duration::from_secs(60);
        while Arc::strong_count(&test) > 1 {
            assert!(Instant::now() < deadline, "threads are left");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
