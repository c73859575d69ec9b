//! Readings that are costly for the card, and are used for longer than one collection: lists of queue pairs take a firmware command each
//! on some cards, and values of a module several transfers over a slow bus.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use netns::NetNsId;

use crate::{PhysicalState, device_resources::ListedResources};

/// Network namespace and device index. The index does not change when a device is moved or renamed, but open files belong to
/// the sysfs of one namespace.
pub(crate) type DeviceKey = (NetNsId, u32);

/// The objects of devices that were listed last.
pub(crate) type ListedObjects = CostlyReadings<DeviceKey, ListedResources>;

/// The physical states of ports of the host that were read last, by device index and port.
pub(crate) type PhysicalStates = CostlyReadings<(u32, u32), PhysicalState>;

/// A reading is used for this multiple of the time that it took: a card is busy with it for at most a twentieth of all time.
const COST_FACTOR: u32 = 20;

/// How long a collection waits for such a reading. Then it uses the former one, and the new one is used by the next collection.
pub(crate) const COSTLY_TIMEOUT: Duration = Duration::from_millis(250);

/// When a reading that has not ended counts as hung firmware.
pub(crate) const HUNG_AFTER: Duration = Duration::from_secs(60);

/// The objects of a device are listed again after this time, or when their numbers change, or the processes that use the device.
/// Their states are at most so old.
pub(crate) const LIST_PERIOD: Duration = Duration::from_secs(60);

/// The last reading of each object. Clones share them: a worker that a collection did not wait for adds its reading when it has it.
#[derive(Debug)]
pub(crate) struct CostlyReadings<K, T> {
    readings: Arc<Mutex<HashMap<K, CostlyReading<T>>>>,
    /// How long a reading is used at least.
    min_age: Duration,
}

/// A former reading of an object.
#[derive(Debug)]
pub(crate) struct FormerReading<T> {
    pub(crate) value: Arc<T>,
    /// When it ended.
    pub(crate) done: Instant,
    /// Whether it is recent enough to be used instead of a new one.
    pub(crate) is_recent: bool,
}

#[derive(Debug)]
struct CostlyReading<T> {
    value: Arc<T>,
    done: Instant,
    took: Duration,
}

impl<K, T> Clone for CostlyReadings<K, T> {
    fn clone(&self) -> Self {
        Self { readings: self.readings.clone(), min_age: self.min_age }
    }
}

impl<K: Eq + Hash, T> CostlyReadings<K, T> {
    pub(crate) fn new(min_age: Duration) -> Self {
        Self { readings: Arc::default(), min_age }
    }

    /// Returns the last reading of an object.
    pub(crate) fn last(&self, object: &K) -> Option<FormerReading<T>> {
        self.lock().get(object).map(|reading| {
            let limit = reading.took.saturating_mul(COST_FACTOR).max(self.min_age);
            let (value, done) = (reading.value.clone(), reading.done);
            FormerReading { value, done, is_recent: done.elapsed() < limit }
        })
    }

    /// Returns the times when the last readings ended.
    pub(crate) fn times(&self) -> Vec<Instant> {
        self.lock().values().map(|reading| reading.done).collect()
    }

    /// Adds a reading that began at a time.
    pub(crate) fn add(&self, object: K, value: Arc<T>, began: Instant) {
        let reading = CostlyReading { value, done: Instant::now(), took: began.elapsed() };
        self.lock().insert(object, reading);
    }

    /// Removes the readings of objects that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(&K) -> bool) {
        self.lock().retain(|object, _| is_there(object));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, CostlyReading<T>>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_costly_reading_is_used_again_and_a_cheap_one_is_not() {
        let readings = CostlyReadings::new(Duration::ZERO);
        assert!(readings.last(&7).is_none());
        readings.add(7, Arc::new("first"), Instant::now().checked_sub(Duration::from_secs(2)).unwrap());
        assert!(readings.last(&7).is_some_and(|last| *last.value == "first" && last.is_recent));
        // It took no time, however late this thread is.
        readings.add(7, Arc::new("second"), Instant::now() + Duration::from_secs(60));
        assert!(readings.last(&7).is_some_and(|last| *last.value == "second" && !last.is_recent));
        readings.retain(|_| false);
        assert!(readings.last(&7).is_none());
    }

    #[test]
    fn a_reading_is_used_for_a_minimum_of_time() {
        let readings = CostlyReadings::new(Duration::from_secs(60));
        readings.add(7, Arc::new(()), Instant::now() + Duration::from_secs(60));
        assert!(readings.last(&7).is_some_and(|last| last.is_recent));
    }
}
