//! The counters of one port over time.

use std::{collections::BTreeMap, sync::Arc};

use super::{key::PortUser, saved_port::SavedPort};
use crate::{
    catalogue::{CommonMetric, Direction, MetricDescriptor},
    counter_layout::{CommonSum, CounterLayout, SumComposition},
    counter_values::CounterValues,
};

/// The counters of one port over time.
#[derive(Debug)]
pub(super) struct PortHistory {
    /// The PCI function of the device, or its name.
    pub(super) device: String,
    pub(super) layout: Arc<CounterLayout>,
    /// The values of the last reading.
    raw: Vec<u64>,
    /// The offset of each counter: the sum of its wraparounds.
    base: Vec<u64>,
    /// Value and offset of counters that the last reading lacks: a stage timed out, or a firmware command failed.
    absent: Vec<(Arc<MetricDescriptor>, u64, u64)>,
    /// The best composition of each sum so far.
    compositions: BTreeMap<(CommonMetric, Option<String>), SumComposition>,
    /// A layout that has sums of another composition, and the same layout without them.
    reduced: Option<(Arc<CounterLayout>, Arc<CounterLayout>)>,
    /// The last layout whose sums were compared with `compositions`.
    compared: Option<Arc<CounterLayout>>,
    pub(super) owner: PortUser,
    /// Bytes that could not be attributed to a pod.
    pub(super) unattributed: BTreeMap<Direction, u64>,
    /// Whether it has a reading in this collection.
    pub(super) seen: bool,
    /// How often counters were reset. All counters that a reading finds reset count as one.
    pub(super) resets: u64,
    /// The number of changes of an offset.
    pub(super) changes: u64,
}

impl PortHistory {
    /// Creates the history of a new port. Its former traffic is not attributed to a pod.
    pub(super) fn new(device: &str, counter_values: &CounterValues) -> Self {
        Self {
            device: device.to_owned(),
            layout: counter_values.layout.clone(),
            raw: counter_values.values.clone(),
            base: vec![0; counter_values.values.len()],
            absent: Vec::new(),
            compositions: BTreeMap::new(),
            reduced: None,
            compared: None,
            owner: None,
            unattributed: directions(&counter_values.layout).map(|direction| (direction, 0)).collect(),
            seen: true,
            resets: 0,
            changes: 0,
        }
    }

    /// Creates the history of a port that a former daemon has read, as it was then.
    pub(super) fn restored(device: &str, counter_values: &CounterValues, saved: &SavedPort) -> Self {
        let mut history = Self { resets: saved.resets, ..Self::new(device, counter_values) };
        for (at, shown) in counter_values.layout.shown.iter().enumerate() {
            let name = shown.metric.family.as_deref().filter(|_| shown.metric.wraps);
            if let Some((raw, base)) = name.and_then(|name| saved.counters.get(name)) {
                (history.raw[at], history.base[at]) = (*raw, *base);
            }
        }
        history
    }

    /// Returns raw value and offset of the counters that wrap around, by the name of their family.
    pub(super) fn wrapping_counters(&self) -> BTreeMap<String, (u64, u64)> {
        let shown = self
            .layout
            .shown
            .iter()
            .enumerate()
            .map(|(at, shown)| (&shown.metric, self.raw[at], self.base[at]));
        let absent = self.absent.iter().map(|(metric, raw, base)| (metric, *raw, *base));
        let wrapping = absent.chain(shown).filter(|(metric, ..)| metric.wraps);
        wrapping.filter_map(|(metric, raw, base)| Some((metric.family.clone()?, (raw, base)))).collect()
    }

    /// Replaces the values by values without wraparound, and returns the increments since the last reading.
    pub(super) fn update(&mut self, counter_values: &mut CounterValues) -> CounterValues {
        self.seen = true;
        self.set_layout(counter_values);
        let mut deltas = counter_values.empty();
        let mut is_reset = false;
        let metrics = counter_values.layout.shown.iter().map(|shown| &shown.metric);
        for (at, (metric, value)) in metrics.zip(&mut counter_values.values).enumerate() {
            if metric.is_gauge {
                continue;
            }
            let (raw, base) = (*value, self.base[at]);
            (self.base[at], deltas.values[at]) = unwrap_counter(metric.wraps, self.raw[at], base, raw);
            // A wraparound increases the offset.
            is_reset |= raw < self.raw[at] && self.base[at] == 0;
            self.changes += u64::from(self.base[at] != base);
            self.raw[at] = raw;
            *value = self.base[at].wrapping_add(raw);
        }
        self.resets += u64::from(is_reset);
        self.changes += u64::from(is_reset);
        deltas
    }

    /// Adopts the layout of the values if it differs. The increment of a new counter is 0.
    fn set_layout(&mut self, counter_values: &CounterValues) {
        if Arc::ptr_eq(&self.layout, &counter_values.layout) {
            return;
        }
        for (at, shown) in self.layout.shown.iter().enumerate() {
            self.absent.push((shown.metric.clone(), self.raw[at], self.base[at]));
        }
        (self.raw, self.base) = (counter_values.values.clone(), vec![0; counter_values.values.len()]);
        for (at, shown) in counter_values.layout.shown.iter().enumerate() {
            let is_it = |(metric, ..): &(Arc<MetricDescriptor>, u64, u64)| Arc::ptr_eq(metric, &shown.metric);
            if let Some(place) = self.absent.iter().position(is_it) {
                (_, self.raw[at], self.base[at]) = self.absent.swap_remove(place);
            }
        }
        self.layout = counter_values.layout.clone();
    }

    /// Removes sums with another source or fewer parts than before, which would look like a counter reset. They are exposed
    /// again when their composition is the former one or a better one.
    pub(super) fn drop_changed_sums(&mut self, counter_values: &mut CounterValues) {
        if self.compared.as_ref().is_none_or(|compared| !Arc::ptr_eq(compared, &counter_values.layout)) {
            self.compare_sums(&counter_values.layout);
        }
        if let Some((_, without)) =
            self.reduced.as_ref().filter(|(whole, _)| Arc::ptr_eq(whole, &counter_values.layout))
        {
            counter_values.layout = without.clone();
        }
    }

    /// Updates the best compositions, and sets `reduced` if the layout has sums of another one.
    fn compare_sums(&mut self, layout: &Arc<CounterLayout>) {
        self.compared = Some(layout.clone());
        let mut is_changed = false;
        for sum in &layout.sums {
            let composition =
                self.compositions.entry((sum.role, sum.priority.clone())).or_insert(sum.composition());
            if is_better(sum.composition(), *composition) {
                *composition = sum.composition();
                self.reduced = None;
            }
            is_changed |= sum.composition() != *composition;
        }
        if !is_changed {
            return;
        }
        if self.reduced.as_ref().is_none_or(|(whole, _)| !Arc::ptr_eq(whole, layout)) {
            let as_before = |sum: &CommonSum| {
                self.compositions
                    .get(&(sum.role, sum.priority.clone()))
                    .is_some_and(|composition| *composition == sum.composition())
            };
            let without = Arc::new(layout.without_sums(as_before));
            self.reduced = Some((layout.clone(), without));
        }
    }

    /// Adds increments that could not be attributed to a pod.
    pub(super) fn add_unattributed(&mut self, deltas: &CounterValues) {
        for (sum, value) in deltas.sums() {
            if let CommonMetric::Bytes(direction) = sum.role {
                *self.unattributed.entry(direction).or_default() += value;
            }
        }
    }
}

/// Returns the new offset and the increment. A 32-bit counter whose value fell from the upper half has wrapped around; any
/// other counter whose value fell was reset, for example because the driver was reloaded.
pub(crate) fn unwrap_counter(wraps: bool, before: u64, base: u64, raw: u64) -> (u64, u64) {
    const COUNTER32_MODULUS: u64 = 1 << 32;
    if raw >= before {
        return (base, raw - before);
    }
    let was_nearly_full = (COUNTER32_MODULUS / 2..COUNTER32_MODULUS).contains(&before);
    if wraps && was_nearly_full && raw + COUNTER32_MODULUS - before < COUNTER32_MODULUS / 2 {
        return (base + COUNTER32_MODULUS, raw + COUNTER32_MODULUS - before);
    }
    (0, raw)
}

/// Returns the directions in which bytes are counted.
fn directions(layout: &CounterLayout) -> impl Iterator<Item = Direction> {
    layout.sums.iter().filter_map(|sum| match sum.role {
        CommonMetric::Bytes(direction) => Some(direction),
        _ => None,
    })
}

/// Whether a composition has a source of lower rank, or more parts.
fn is_better((rank, parts): SumComposition, (than_rank, than_parts): SumComposition) -> bool {
    rank < than_rank || rank == than_rank && parts > than_parts
}
