//! The objects of devices as they were listed last. Listing queue pairs costs a firmware command each on some cards, so that a list is
//! used again for a time that grows with its cost.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{DeviceResources, work_queue::DeviceKey};

/// A list is used for this multiple of the time that it took: a device is busy with lists for at most a twentieth of all time.
const COST_FACTOR: u32 = 20;

/// How long a collection waits for the list of one device. Then it uses the former list, and the new one is used by the next collection.
pub(crate) const LIST_TIMEOUT: Duration = Duration::from_millis(250);

/// When a list that has not ended counts as hung firmware.
pub(crate) const HUNG_AFTER: Duration = Duration::from_secs(60);

/// The last list of each device. Clones share them: a worker that a collection did not wait for adds its list when it has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListedObjects(Arc<Mutex<HashMap<DeviceKey, ObjectList>>>);

/// The objects of a device.
#[derive(Debug, Clone)]
struct ObjectList {
    objects: Arc<DeviceResources>,
    listed: Instant,
    took: Duration,
}

impl ObjectList {
    fn is_recent(&self) -> bool {
        self.listed.elapsed() < self.took.saturating_mul(COST_FACTOR)
    }
}

impl ListedObjects {
    /// Returns the last list of a device, and whether it is recent enough to be used instead of a new one.
    pub(crate) fn last(&self, device: DeviceKey) -> Option<(Arc<DeviceResources>, bool)> {
        self.lock().get(&device).map(|list| (list.objects.clone(), list.is_recent()))
    }

    /// Adds a list that began at a time.
    pub(crate) fn add(&self, device: DeviceKey, objects: Arc<DeviceResources>, began: Instant) {
        let list = ObjectList { objects, listed: Instant::now(), took: began.elapsed() };
        self.lock().insert(device, list);
    }

    /// Removes the lists of devices that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(DeviceKey) -> bool) {
        self.lock().retain(|device, _| is_there(*device));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DeviceKey, ObjectList>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use netns::NetNsId;

    use super::*;

    #[test]
    fn an_expensive_list_is_used_again_and_a_cheap_one_is_not() {
        let (lists, device) = (ListedObjects::default(), (NetNsId::new(4, 1), 7));
        assert!(lists.last(device).is_none());
        let objects = Arc::new(DeviceResources::default());
        lists.add(device, objects.clone(), Instant::now().checked_sub(Duration::from_secs(2)).unwrap());
        assert!(lists.last(device).is_some_and(|(_, is_recent)| is_recent));
        lists.add(device, objects, Instant::now());
        std::thread::sleep(Duration::from_millis(5));
        assert!(lists.last(device).is_some_and(|(_, is_recent)| !is_recent));
        lists.retain(|_| false);
        assert!(lists.last(device).is_none());
    }
}
