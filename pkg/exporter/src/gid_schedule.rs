//! The schedule for reading GID tables. A table has hundreds of files in sysfs, and rarely changes.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use podmap::Entry;

use crate::rotation::Rotation;

/// A GID table is not read again within this time, unless a pod was attached to or detached from its device.
const GID_TABLE_TTL: Duration = Duration::from_secs(30);
/// Each table is read at least once in this time. Each collection reads a few of the tables.
const GID_TABLE_PERIOD: Duration = Duration::from_secs(600);

/// The GID tables that a collection reads.
#[derive(Debug, Clone)]
pub(crate) struct GidPlan {
    /// Tables whose last reading is older than this time.
    pub(crate) before: Instant,
    /// Tables of devices to which a pod was attached or from which a pod was detached.
    pub(crate) at_once: BTreeSet<String>,
}

/// Creates the plan of each collection.
#[derive(Debug)]
pub(crate) struct GidSchedule {
    /// The changed devices of the last collection.
    again: BTreeSet<String>,
    rotation: Rotation,
}

impl Default for GidSchedule {
    fn default() -> Self {
        Self { again: BTreeSet::new(), rotation: Rotation::new(GID_TABLE_PERIOD) }
    }
}

impl GidSchedule {
    /// Returns a plan with the oldest tables, a few at a time, and with the tables that an attachment changed. `read`
    /// contains the time of each table's last reading.
    pub(crate) fn plan(&mut self, read: Vec<Instant>, former: &Arc<[Entry]>, now: &Arc<[Entry]>) -> GidPlan {
        let due = self.rotation.due_before(read);
        let before = Instant::now().checked_sub(GID_TABLE_TTL).map_or(due, |newest| newest.min(due));
        // The GID of an IPv6 address appears with a delay, so changed tables are read in two collections.
        let again = std::mem::replace(&mut self.again, changed(former, now));
        GidPlan { before, at_once: again.union(&self.again).cloned().collect() }
    }
}

/// Returns the devices of attachments that were added to or removed from the pod map.
fn changed(former: &Arc<[Entry]>, now: &Arc<[Entry]>) -> BTreeSet<String> {
    if Arc::ptr_eq(former, now) {
        return BTreeSet::new();
    }
    let gone = former.iter().filter(|entry| !now.contains(entry));
    let come = now.iter().filter(|entry| !former.contains(entry));
    gone.chain(come).filter_map(|entry| entry.rdma.ibdev.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(seconds: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap()
    }

    fn entries(devices: &[&str]) -> Arc<[Entry]> {
        let entry = |device: &&str| {
            let mut entry = Entry::new("rdma", "a@net1".parse().unwrap());
            entry.rdma.ibdev = Some((*device).to_owned());
            entry.created_at = String::new();
            entry
        };
        devices.iter().map(entry).collect()
    }

    /// Returns the number of these tables that a plan reads.
    fn due(schedule: &mut GidSchedule, read: &[Instant]) -> usize {
        let none = entries(&[]);
        let plan = schedule.plan(read.to_vec(), &none, &none);
        read.iter().filter(|read| **read < plan.before).count()
    }

    #[test]
    fn a_recent_table_is_not_read_again() {
        let read = [ago(5), ago(10), ago(40)];
        let mut schedule = GidSchedule::default();
        schedule.rotation.last = Some(ago(86400));
        assert_eq!(due(&mut schedule, &read), 1);
    }

    #[test]
    fn tables_that_a_pod_changed_are_read_in_two_collections() {
        let (before, after) = (entries(&["mlx5_0", "mlx5_1"]), entries(&["mlx5_1", "mlx5_2"]));
        let mut schedule = GidSchedule::default();
        let mut at_once =
            |former, now| schedule.plan(Vec::new(), former, now).at_once.into_iter().collect::<Vec<_>>();
        assert_eq!(at_once(&before, &after), ["mlx5_0", "mlx5_2"]);
        assert_eq!(at_once(&after, &after), ["mlx5_0", "mlx5_2"]);
        assert!(at_once(&after, &after).is_empty());
    }
}
