//! One port's counters over time.

use std::{collections::BTreeMap, sync::Arc};

use super::PortUser;
use crate::{
    catalogue::{CommonMetric, Direction, MetricDescriptor},
    counter_layout::{CommonSum, CounterLayout, SumComposition},
    counter_values::CounterValues,
};

/// One port's counters over time.
#[derive(Debug)]
pub(super) struct PortHistory {
    pub(super) layout: Arc<CounterLayout>,
    /// The values as they were last read.
    raw: Vec<u64>,
    /// What came before the last turn of each.
    base: Vec<u64>,
    /// The same of counters that are not told now: a stage was late, or a command of the firmware failed.
    absent: Vec<(Arc<MetricDescriptor>, u64, u64)>,
    /// From what each sum is made: the best there was.
    makings: BTreeMap<(CommonMetric, Option<String>), SumComposition>,
    /// A layout with sums that are made otherwise now, and the same without these.
    lacking: Option<(Arc<CounterLayout>, Arc<CounterLayout>)>,
    pub(super) owner: PortUser,
    /// Bytes that no pod could be named for.
    pub(super) unattributed: BTreeMap<Direction, u64>,
    /// Whether it was entered in this collection.
    pub(super) seen: bool,
}

impl PortHistory {
    /// A port that is seen for the first time: what it counted before is nobody's.
    pub(super) fn new(sheet: &CounterValues) -> Self {
        Self {
            layout: sheet.layout.clone(),
            raw: sheet.values.clone(),
            base: vec![0; sheet.values.len()],
            absent: Vec::new(),
            makings: BTreeMap::new(),
            lacking: None,
            owner: None,
            unattributed: directions(&sheet.layout).map(|direction| (direction, 0)).collect(),
            seen: true,
        }
    }

    /// Puts the unbroken values into the sheet and returns the increments since the last entry.
    pub(super) fn update(&mut self, sheet: &mut CounterValues) -> CounterValues {
        self.seen = true;
        self.set_layout(sheet);
        let mut deltas = sheet.empty();
        let metrics = sheet.layout.shown.iter().map(|shown| &shown.metric);
        for (at, (metric, value)) in metrics.zip(&mut sheet.values).enumerate() {
            if metric.is_gauge {
                continue;
            }
            let raw = *value;
            (self.base[at], deltas.values[at]) =
                unwrap_counter(metric.wraps, self.raw[at], self.base[at], raw);
            self.raw[at] = raw;
            *value = self.base[at].wrapping_add(raw);
        }
        deltas
    }

    /// Takes on the sheet's layout, if it is another: a counter that is new has not grown yet.
    fn set_layout(&mut self, sheet: &CounterValues) {
        if Arc::ptr_eq(&self.layout, &sheet.layout) {
            return;
        }
        for (at, shown) in self.layout.shown.iter().enumerate() {
            self.absent.push((shown.metric.clone(), self.raw[at], self.base[at]));
        }
        (self.raw, self.base) = (sheet.values.clone(), vec![0; sheet.values.len()]);
        for (at, shown) in sheet.layout.shown.iter().enumerate() {
            let is_it = |(metric, ..): &(Arc<MetricDescriptor>, u64, u64)| Arc::ptr_eq(metric, &shown.metric);
            if let Some(place) = self.absent.iter().position(is_it) {
                (_, self.raw[at], self.base[at]) = self.absent.swap_remove(place);
            }
        }
        self.layout = sheet.layout.clone();
    }

    /// A sum of another source than before, or of a part less, would look like a counter that began anew. It is left out
    /// of the sheet until it is made as before, or better.
    pub(super) fn drop_changed_sums(&mut self, sheet: &mut CounterValues) {
        let mut is_lacking = false;
        for sum in &sheet.layout.sums {
            let making = self.makings.entry((sum.role, sum.priority.clone())).or_insert(sum.making());
            if is_better(sum.making(), *making) {
                *making = sum.making();
                self.lacking = None;
            }
            is_lacking |= sum.making() != *making;
        }
        if !is_lacking {
            return;
        }
        if self.lacking.as_ref().is_none_or(|(whole, _)| !Arc::ptr_eq(whole, &sheet.layout)) {
            let as_before = |sum: &CommonSum| {
                self.makings
                    .get(&(sum.role, sum.priority.clone()))
                    .is_some_and(|making| *making == sum.making())
            };
            let without = Arc::new(sheet.layout.without_sums(as_before));
            self.lacking = Some((sheet.layout.clone(), without));
        }
        if let Some((_, without)) = &self.lacking {
            sheet.layout = without.clone();
        }
    }

    /// Takes down increments that no pod could be named for.
    pub(super) fn add_unattributed(&mut self, deltas: &CounterValues) {
        for (sum, value) in deltas.sums() {
            if let CommonMetric::Bytes(direction) = sum.role {
                *self.unattributed.entry(direction).or_default() += value;
            }
        }
    }
}

/// The base of the next value, and the increment. A counter of 32 bits that was nearly full has turned over; any other
/// that fell has begun anew, as after a driver was loaded again.
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

/// The directions in which bytes are counted.
fn directions(layout: &CounterLayout) -> impl Iterator<Item = Direction> {
    layout.sums.iter().filter_map(|sum| match sum.role {
        CommonMetric::Bytes(direction) => Some(direction),
        _ => None,
    })
}

/// Whether a sum is made of a better known source, or of more parts.
fn is_better((rank, parts): SumComposition, (than_rank, than_parts): SumComposition) -> bool {
    rank < than_rank || rank == than_rank && parts > than_parts
}
