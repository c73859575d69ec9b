//! The values of a port's counters.

use std::sync::Arc;

use crate::{
    PortReading, RawCounters,
    catalogue::CommonMetric,
    counter_layout::{CommonSum, CounterLayout, CounterLayouts, ExposedCounter},
};

/// The values of a port's counters that are shown.
#[derive(Debug, Clone)]
pub(crate) struct CounterValues {
    pub(crate) layout: Arc<CounterLayout>,
    pub(crate) values: Vec<u64>,
}

impl CounterValues {
    /// The sheet of a port; `last` is the layout it had.
    pub(crate) fn of_port(
        port: &PortReading,
        layouts: &mut CounterLayouts,
        last: Option<&Arc<CounterLayout>>,
    ) -> Self {
        Self::of([&port.hw_counters, &port.counters, &port.link_statistics], layouts, last)
    }

    /// The sheet of a device as a whole.
    pub(crate) fn of_device(
        counters: &RawCounters,
        layouts: &mut CounterLayouts,
        last: Option<&Arc<CounterLayout>>,
    ) -> Self {
        Self::of([counters, &RawCounters::default(), &RawCounters::default()], layouts, last)
    }

    /// The sheet of counters of each source: hardware, standard, link.
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

    /// What means the same on every driver, by priority where there is one.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (&CommonSum, u64)> {
        self.layout.sums.iter().map(|sum| (sum, sum.of(&self.values)))
    }

    /// The sum of a role that has no priority.
    pub(crate) fn sum(&self, role: CommonMetric) -> Option<u64> {
        self.sums().find(|(sum, _)| sum.role == role).map(|(_, value)| value)
    }
}

/// For each counter of a new layout its place in an old one.
fn index_map(old: &CounterLayout, new: &CounterLayout) -> Vec<Option<usize>> {
    let place = |wanted: &ExposedCounter| {
        old.shown.iter().position(|shown| Arc::ptr_eq(&shown.metric, &wanted.metric))
    };
    new.shown.iter().map(place).collect()
}

impl CounterValues {
    /// The same counters, all zero.
    pub(crate) fn empty(&self) -> Self {
        Self { layout: self.layout.clone(), values: vec![0; self.layout.shown.len()] }
    }

    /// Takes on another layout, if nothing is lost by that.
    pub(crate) fn set_layout(&mut self, layout: &Arc<CounterLayout>) {
        if !Arc::ptr_eq(&self.layout, layout) && layout.has_all(&self.layout) {
            let places = index_map(&self.layout, layout);
            self.values = places.iter().map(|place| place.map_or(0, |place| self.values[place])).collect();
            self.layout = layout.clone();
        }
    }

    /// Adds increments.
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
