//! Samples devices at a fixed interval. Each device has its own thread, because hung firmware blocks the calling thread.

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

/// Limits the memory if pods come and go and no scrape takes the counts: at most this many, by pod, device and port.
const MAX_UNREAD_PODS: usize = 10_000;

/// A source of samples.
pub(super) trait SampleSource: Send + Sync + 'static {
    /// Returns the indices and names of the devices in use.
    fn devices(&self) -> Result<Vec<(u32, String)>, CollectError>;

    /// Returns a function that takes a sample of a device.
    fn sampled(&self, device: u32) -> Box<dyn FnMut() -> PsnSample + Send>;
}

/// The packets on a device since its last sample, and errors.
#[derive(Debug, Default)]
pub(super) struct PsnSample {
    pub(super) packets: Vec<PodPackets>,
    pub(super) errors: Vec<CollectError>,
}

/// Samples in background threads until this value is dropped.
pub(crate) struct Sampler {
    found: Arc<Mutex<SamplerState>>,
    timeout: Duration,
    _alive: Sender<()>,
}

/// The results since the last call of [`Sampler::take`].
#[derive(Debug, Default)]
pub(crate) struct SamplerOutput {
    /// The packets of pods, by device and port.
    pub(crate) packets: BTreeMap<(Arc<PodInfo>, String, u32), PacketCounts>,
    /// The pods that had a connection in the last samples.
    pub(crate) pods: BTreeSet<Arc<PodInfo>>,
    /// The errors of the last samples.
    pub(crate) errors: Vec<CollectError>,
    /// The time spent sampling, summed over all devices.
    pub(crate) spent: Duration,
}

#[derive(Debug, Default)]
struct SamplerState {
    packets: BTreeMap<(Arc<PodInfo>, String, u32), PacketCounts>,
    spent: Duration,
    /// The error of the last listing of devices, or of starting the thread.
    error: Option<CollectError>,
    listing: Option<Instant>,
    devices: BTreeMap<u32, LastSample>,
}

/// The last sample of a device.
#[derive(Debug, Default)]
struct LastSample {
    name: String,
    /// The start of the sample in progress.
    started: Option<Instant>,
    pods: BTreeSet<Arc<PodInfo>>,
    errors: Vec<CollectError>,
}

impl Sampler {
    /// Starts sampling each device once per interval.
    pub(super) fn start(samples: Arc<dyn SampleSource>, interval: Duration, timeout: Duration) -> Self {
        let found = Arc::<Mutex<SamplerState>>::default();
        let (alive, ended) = channel();
        let clock = SampleTimer { samples, found: found.clone(), orders: HashMap::new() };
        let spawned = thread::Builder::new().name("psn".into()).spawn(move || clock.run(interval, &ended));
        if let Err(error) = spawned {
            lock(&found).error = Some(CollectError::new(Collector::Psn, &error));
        }
        Self { found, timeout, _alive: alive }
    }

    /// Returns the results since the last call. Does not block.
    pub(crate) fn take(&self) -> SamplerOutput {
        let mut found = lock(&self.found);
        let mut errors: Vec<CollectError> = found.error.iter().cloned().collect();
        errors.extend(self.timed_out(found.listing, "the devices in use"));
        for watch in found.devices.values() {
            errors.extend(watch.errors.iter().cloned());
            let of = format!("queue pairs of RDMA device {}", watch.name);
            errors.extend(self.timed_out(watch.started, &of));
        }
        SamplerOutput {
            pods: found.devices.values().flat_map(|watch| watch.pods.iter().cloned()).collect(),
            packets: std::mem::take(&mut found.packets),
            spent: std::mem::take(&mut found.spent),
            errors,
        }
    }

    fn timed_out(&self, started: Option<Instant>, of: &str) -> Option<CollectError> {
        let elapsed = started.map(|started| started.elapsed()).filter(|elapsed| *elapsed > self.timeout);
        elapsed.map(|elapsed| CollectError::still_timed_out(Collector::Psn, of, elapsed))
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").finish_non_exhaustive()
    }
}

/// Requests a sample from each device's thread once per interval.
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
            found.error = devices.as_ref().err().cloned();
        }
        let Ok(devices) = devices else { return };
        self.stop_unused(&devices);
        for (device, name) in devices {
            self.request_sample(device, name);
        }
    }

    /// Stops the threads of devices that are no longer in use. A thread that hangs is kept, as its device must not get another.
    fn stop_unused(&mut self, devices: &[(u32, String)]) {
        let mut found = lock(&self.found);
        let watches = &mut found.devices;
        self.orders.retain(|device, _| {
            let is_busy = watches.get(device).is_some_and(|watch| watch.started.is_some());
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
                // If the thread cannot be started, the next tick tries again.
                if thread.spawn(move || work(device, sampled, &received, &found)).is_err() {
                    return;
                }
                place.insert(orders)
            }
        };
        // The channel is full if the last sample is not finished.
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
            watch.started = Some(began);
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
            watch.started = None;
            watch.pods = sample.packets.iter().map(|((pod, _), _)| pod.clone()).collect();
            watch.errors = sample.errors;
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

    /// Two devices. The first one hangs until `open` is set.
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
                PsnSample { packets: vec![((pod(), 1), packets)], errors: Vec::new() }
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

    /// Takes output until the condition holds.
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
    fn a_hung_device_is_reported_and_does_not_affect_others() {
        let (test, sampler) = start();
        let reports_hung = |output: &SamplerOutput| {
            output
                .errors
                .iter()
                .any(|t| t.reason == ErrorReason::Timeout && t.what.contains("RDMA device hung"))
        };
        until(&sampler, "the other is sampled", |h| h.packets.contains_key(&key("well")) && reports_hung(h));
        until(&sampler, "and again", |h| {
            h.packets.contains_key(&key("well")) && !h.packets.contains_key(&key("hung"))
        });
        test.set(&test.open, true);
        until(&sampler, "it has recovered", |h| h.packets.contains_key(&key("hung")));
        until(&sampler, "it is no longer reported", |h| !reports_hung(h));
        assert_eq!(test.threads.load(SeqCst), 2, "it got no second thread");
    }

    #[test]
    fn packets_add_up_until_they_are_taken() {
        let (test, sampler) = start();
        test.set(&test.open, true);
        until(&sampler, "more than one sample", |output| {
            output.packets.get(&key("well")).is_some_and(|p| p.sent > 1 && p.received == 2 * p.sent)
        });
    }

    #[test]
    fn a_device_out_of_use_is_removed_with_its_pods() {
        let (test, sampler) = start();
        test.set(&test.open, true);
        until(&sampler, "a pod is connected", |output| output.pods.contains(&pod()));
        test.set(&test.gone, true);
        until(&sampler, "no pod is", |output| output.pods.is_empty());
        test.set(&test.gone, false);
        until(&sampler, "it is again", |output| output.pods.contains(&pod()));
        assert!(test.threads.load(SeqCst) > 2);
    }

    #[test]
    fn a_hung_device_out_of_use_keeps_its_thread() {
        let (test, sampler) = start();
        let reports =
            |output: &SamplerOutput, name: &str| output.errors.iter().any(|t| t.what.contains(name));
        until(&sampler, "it hangs and the other does not", |output| {
            reports(output, "device hung") && output.pods.contains(&pod())
        });
        test.set(&test.gone, true);
        until(&sampler, "the other is removed", |output| output.pods.is_empty());
        test.set(&test.gone, false);
        until(&sampler, "the other is in use again", |output| output.pods.contains(&pod()));
        let threads = test.threads.load(SeqCst);
        assert_eq!(threads, 3, "two for the other device, and one for the hung one");
        test.set(&test.open, true);
        until(&sampler, "it has recovered", |output| output.packets.contains_key(&key("hung")));
    }

    #[test]
    fn an_error_of_listing_devices_is_reported_until_it_ends() {
        let (test, sampler) = start();
        test.set(&test.refuses, true);
        let refused = |output: &SamplerOutput| output.errors.iter().any(|t| t.reason == ErrorReason::Refused);
        until(&sampler, "it is reported", refused);
        test.set(&test.refuses, false);
        until(&sampler, "it is over", |output| !refused(output));
    }

    #[test]
    fn the_number_of_pods_without_a_scrape_is_limited() {
        let mut found = SamplerState::default();
        let sample = |numbers: std::ops::Range<usize>| {
            let of = |number: usize| Arc::new(PodInfo { name: number.to_string(), ..(*pod()).clone() });
            let packets =
                numbers.map(|number| ((of(number), 1), PacketCounts { sent: 1, received: 2 })).collect();
            PsnSample { packets, errors: Vec::new() }
        };
        found.take(2, "well", sample(0..MAX_UNREAD_PODS), Duration::ZERO);
        found.take(2, "well", sample(MAX_UNREAD_PODS - 1..MAX_UNREAD_PODS + 1), Duration::ZERO);
        assert_eq!(found.packets.len(), MAX_UNREAD_PODS);
        assert_eq!(
            found.packets.values().map(|packets| packets.sent).max(),
            Some(2),
            "known pods are still counted"
        );
    }

    #[test]
    fn dropping_the_sampler_ends_its_threads() {
        let (test, sampler) = start();
        test.set(&test.open, true);
        drop(sampler);
        let deadline = Instant::now() + Duration::from_secs(60);
        while Arc::strong_count(&test) > 1 {
            assert!(Instant::now() < deadline, "a thread is still running");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
