//! The values of a port's counters.

use std::sync::Arc;

use crate::{
    Counters, PortReading,
    catalogue::Role,
    layout::{Layout, Layouts, Shown, Sum},
};

/// The values of a port's counters that are shown.
#[derive(Debug, Clone)]
pub(crate) struct Sheet {
    pub(crate) layout: Arc<Layout>,
    pub(crate) values: Vec<u64>,
}

impl Sheet {
    /// The sheet of a port; `last` is the layout it had.
    pub(crate) fn of_port(port: &PortReading, layouts: &mut Layouts, last: Option<&Arc<Layout>>) -> Self {
        Self::of([&port.hw_counters, &port.counters, &port.link_statistics], layouts, last)
    }

    /// The sheet of a device as a whole.
    pub(crate) fn of_device(counters: &Counters, layouts: &mut Layouts, last: Option<&Arc<Layout>>) -> Self {
        Self::of([counters, &Counters::default(), &Counters::default()], layouts, last)
    }

    /// The sheet of counters of each source: hardware, standard, link.
    pub(crate) fn of(counters: [&Counters; 3], layouts: &mut Layouts, last: Option<&Arc<Layout>>) -> Self {
        let layout = layouts.of(counters.map(|counters| counters.names.clone()), last);
        let all: Vec<u64> = counters.iter().flat_map(|counters| counters.values.iter().copied()).collect();
        let values = layout.shown.iter().map(|shown| all[shown.at]).collect();
        Self { layout, values }
    }

    /// What means the same on every driver, by priority where there is one.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (&Sum, u64)> {
        self.layout.sums.iter().map(|sum| (sum, sum.of(&self.values)))
    }

    /// The sum of a role that has no priority.
    pub(crate) fn sum(&self, role: Role) -> Option<u64> {
        self.sums().find(|(sum, _)| sum.role == role).map(|(_, value)| value)
    }
}

/// For each counter of a new layout its place in an old one.
fn places(old: &Layout, new: &Layout) -> Vec<Option<usize>> {
    let place =
        |wanted: &Shown| old.shown.iter().position(|shown| Arc::ptr_eq(&shown.metric, &wanted.metric));
    new.shown.iter().map(place).collect()
}

impl Sheet {
    /// The same counters, all zero.
    pub(crate) fn empty(&self) -> Self {
        Self { layout: self.layout.clone(), values: vec![0; self.layout.shown.len()] }
    }

    /// Takes on another layout, if nothing is lost by that.
    pub(crate) fn follow(&mut self, layout: &Arc<Layout>) {
        if !Arc::ptr_eq(&self.layout, layout) && layout.has_all(&self.layout) {
            let places = places(&self.layout, layout);
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
        for (place, delta) in places(&self.layout, &deltas.layout).into_iter().zip(&deltas.values) {
            if let Some(place) = place {
                self.values[place] = self.values[place].wrapping_add(*delta);
            }
        }
    }
}
