//! The values of a port's counters.

use std::sync::Arc;

use crate::{
    PortReading, RawCounters,
    catalogue::CommonMetric,
    counter_layout::{CommonSum, CounterLayout, CounterLayouts, ExposedCounter},
};

/// The values of the exposed counters of a port, in the order of the layout.
#[derive(Debug, Clone)]
pub(crate) struct CounterValues {
    pub(crate) layout: Arc<CounterLayout>,
    pub(crate) values: Vec<u64>,
}

impl CounterValues {
    /// Creates the values of a port; `last` is its layout in the last collection.
    pub(crate) fn of_port(
        port: &PortReading,
        layouts: &mut CounterLayouts,
        last: Option<&Arc<CounterLayout>>,
    ) -> Self {
        Self::of([&port.hw_counters, &port.counters, &port.link_statistics], layouts, last)
    }

    /// Creates the values of a device as a whole.
    pub(crate) fn of_device(
        counters: &RawCounters,
        layouts: &mut CounterLayouts,
        last: Option<&Arc<CounterLayout>>,
    ) -> Self {
        Self::of([counters, &RawCounters::default(), &RawCounters::default()], layouts, last)
    }

    /// Creates the values from the counters of each source: hardware, standard, link.
    pub(crate) fn of(
        counters: [&RawCounters; 3],
        layouts: &mut CounterLayouts,
        last: Option<&Arc<CounterLayout>>,
    ) -> Self {
        let layout = layouts.of(counters.map(|counters| counters.names.clone()), last);
        let all: Vec<u64> = counters.iter().flat_map(|counters| counters.values.iter().copied()).collect();
        let values = layout.shown.iter().map(|shown| all[shown.at]).collect();
        Self { layout, values }
    }

    /// Returns the sums that are common to all drivers, separately for each priority.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (&CommonSum, u64)> {
        self.layout.sums.iter().map(|sum| (sum, sum.of(&self.values)))
    }

    /// Returns the sum of a role without priorities.
    pub(crate) fn sum(&self, role: CommonMetric) -> Option<u64> {
        self.sums().find(|(sum, _)| sum.role == role).map(|(_, value)| value)
    }
}

/// Returns for each counter of the new layout its index in the old one.
fn index_map(old: &CounterLayout, new: &CounterLayout) -> Vec<Option<usize>> {
    let place = |wanted: &ExposedCounter| {
        old.shown.iter().position(|shown| Arc::ptr_eq(&shown.metric, &wanted.metric))
    };
    new.shown.iter().map(place).collect()
}

impl CounterValues {
    /// Returns the same counters with all values 0.
    pub(crate) fn empty(&self) -> Self {
        Self { layout: self.layout.clone(), values: vec![0; self.layout.shown.len()] }
    }

    /// Changes to another layout if it has all counters of the current one.
    pub(crate) fn set_layout(&mut self, layout: &Arc<CounterLayout>) {
        if !Arc::ptr_eq(&self.layout, layout) && layout.has_all(&self.layout) {
            let places = index_map(&self.layout, layout);
            self.values = places.iter().map(|place| place.map_or(0, |place| self.values[place])).collect();
            self.layout = layout.clone();
        }
    }

    /// Adds increments. Counters that the layout does not have are ignored.
    pub(crate) fn add(&mut self, deltas: &Self) {
        if Arc::ptr_eq(&self.layout, &deltas.layout) {
            for (value, delta) in self.values.iter_mut().zip(&deltas.values) {
                *value = value.wrapping_add(*delta);
            }
            return;
        }
        for (place, delta) in index_map(&self.layout, &deltas.layout).into_iter().zip(&deltas.values) {
            if let Some(place) = place {
                self.values[place] = self.values[place].wrapping_add(*delta);
            }
        }
    }
}
