//! The mapping of a port's counters to metrics.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    CollectError, Collector, ErrorReason,
    catalogue::{CommonMetric, CounterSource, MetricCatalogue, MetricDescriptor},
    device_reading::CounterNames,
};

/// The names of a port's counters, by source: hardware, standard, link.
pub(crate) type SourceNames = [CounterNames; 3];

/// The metrics of a port's counters. Ports with the same counters share a layout, so names are looked up only once.
#[derive(Debug)]
pub(crate) struct CounterLayout {
    sources: SourceNames,
    /// The counters that are exposed.
    pub(crate) shown: Vec<ExposedCounter>,
    /// The sums that are common to all drivers.
    pub(crate) sums: Vec<CommonSum>,
    /// Counters whose metric name is already in use.
    pub(crate) errors: Vec<CollectError>,
}

/// A counter that is exposed.
#[derive(Debug, Clone)]
pub(crate) struct ExposedCounter {
    pub(crate) metric: Arc<MetricDescriptor>,
    /// The index of its value among all counters of the port.
    pub(crate) at: usize,
}

/// A quantity that is common to all drivers: the sum of some counters.
#[derive(Debug, Clone)]
pub(crate) struct CommonSum {
    pub(crate) role: CommonMetric,
    pub(crate) priority: Option<String>,
    /// The rank of its source; 0 is best.
    rank: u8,
    /// Indices into the exposed counters, and the factor of each.
    parts: Vec<(usize, u64)>,
}

/// Rank and number of parts of a sum. Another composition has another value, which Prometheus would interpret as a counter
/// reset.
pub(crate) type SumComposition = (u8, usize);

/// The layouts in use: about one per driver.
#[derive(Debug, Default)]
pub(crate) struct CounterLayouts {
    catalogue: MetricCatalogue,
    met: Vec<Arc<CounterLayout>>,
}

impl CounterLayouts {
    /// Returns the layout for these names; `last` is the port's layout in the last collection.
    pub(crate) fn of(
        &mut self,
        sources: SourceNames,
        last: Option<&Arc<CounterLayout>>,
    ) -> Arc<CounterLayout> {
        let same = |layout: &&Arc<CounterLayout>| layout.is_of(&sources);
        if let Some(layout) = last.filter(same).or_else(|| self.met.iter().find(same)) {
            return layout.clone();
        }
        self.met.retain(|layout| Arc::strong_count(layout) > 1);
        let layout = Arc::new(CounterLayout::new(sources, &mut self.catalogue));
        self.met.push(layout.clone());
        layout
    }
}

impl CounterLayout {
    fn new(sources: SourceNames, catalogue: &mut MetricCatalogue) -> Self {
        let mut layout = Self { sources, shown: Vec::new(), sums: Vec::new(), errors: Vec::new() };
        let mut first = 0;
        for (source, names) in [CounterSource::Hardware, CounterSource::Standard, CounterSource::Link]
            .into_iter()
            .zip(layout.sources.clone())
        {
            let former = layout.shown.len();
            for (at, name) in names.iter().enumerate() {
                if let Some(metric) = catalogue.metric(source, name) {
                    layout.show(metric, first + at, former, name);
                }
            }
            first += names.len();
        }
        layout.sums = sums(&layout.shown);
        layout
    }

    fn show(&mut self, metric: Arc<MetricDescriptor>, at: usize, former: usize, name: &str) {
        match self.same_series(&metric) {
            None => self.shown.push(ExposedCounter { metric, at }),
            // Two sources have the same counter: the first one is the driver's own.
            Some(place) if place < former => {}
            Some(_) => {
                let what = format!("{name} is not exposed: another counter has the same metric name");
                let collector = Collector::HwCounters;
                self.errors.push(CollectError { collector, reason: ErrorReason::Collision, what });
            }
        }
    }

    /// Returns a copy with fewer sums.
    pub(crate) fn without_sums(&self, keep: impl Fn(&CommonSum) -> bool) -> Self {
        Self {
            sources: self.sources.clone(),
            shown: self.shown.clone(),
            sums: self.sums.iter().filter(|sum| keep(sum)).cloned().collect(),
            errors: self.errors.clone(),
        }
    }

    /// Whether the layout has all counters of another one.
    pub(crate) fn has_all(&self, other: &Self) -> bool {
        other.shown.iter().all(|shown| self.shows(&shown.metric))
    }

    /// Whether a metric is exposed.
    pub(crate) fn shows(&self, metric: &Arc<MetricDescriptor>) -> bool {
        self.shown.iter().any(|shown| Arc::ptr_eq(&shown.metric, metric))
    }

    /// Returns the index of the counter with the same series as a metric.
    fn same_series(&self, metric: &MetricDescriptor) -> Option<usize> {
        metric.family.as_ref()?;
        let of = |metric: &MetricDescriptor| (metric.family.clone(), metric.priority.clone());
        self.shown.iter().position(|shown| of(&shown.metric) == of(metric))
    }

    /// Whether the layout is for these names. Unchanged names are the same `Arc`, which is cheap to compare.
    fn is_of(&self, sources: &SourceNames) -> bool {
        self.sources.iter().zip(sources).all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
    }
}

/// A role and a priority, which counters of several sources can share.
type CommonMeaning<'a> = (CommonMetric, Option<&'a str>);
/// The rank of a source, and its parts.
type SumParts = (u8, Vec<(usize, u64)>);

/// Builds the sums. Among several sources of a role, those with the lowest rank are added up.
fn sums(shown: &[ExposedCounter]) -> Vec<CommonSum> {
    let mut best: BTreeMap<CommonMeaning<'_>, SumParts> = BTreeMap::new();
    for (place, ExposedCounter { metric, .. }) in shown.iter().enumerate() {
        let Some(role) = metric.role else { continue };
        let part = (place, metric.scale);
        let (rank, parts) =
            best.entry((role, metric.priority.as_deref())).or_insert((metric.rank, Vec::new()));
        if metric.rank < *rank {
            (*rank, *parts) = (metric.rank, vec![part]);
        } else if metric.rank == *rank {
            parts.push(part);
        }
    }
    let sum = |((role, priority), (rank, parts)): (CommonMeaning<'_>, SumParts)| CommonSum {
        role,
        priority: priority.map(str::to_owned),
        rank,
        parts,
    };
    best.into_iter().map(sum).collect()
}

impl CommonSum {
    /// Returns rank and number of parts.
    pub(crate) fn composition(&self) -> SumComposition {
        (self.rank, self.parts.len())
    }

    pub(crate) fn of(&self, values: &[u64]) -> u64 {
        let part = |(place, scale): &(usize, u64)| values[*place].wrapping_mul(*scale);
        self.parts.iter().map(part).fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rdma::{LinkLayer, PhysState, Port, PortState};

    use super::*;
    use crate::catalogue::Direction::{Receive, Transmit};
    use crate::{PortReading, RawCounters, counter_values::CounterValues};

    /// Creates a port with these counters.
    pub(crate) fn port(hw: &[(&str, u64)], standard: &[(&str, u64)], link: &[(&str, u64)]) -> PortReading {
        let port = Port {
            device: 0,
            device_name: "mlx5_0".into(),
            port: 1,
            state: PortState::Active,
            phys_state: PhysState::LinkUp,
            link: None,
            link_name: None,
            link_layer: LinkLayer::Ethernet,
        };
        let counters = |list: &[(&str, u64)]| RawCounters {
            names: list.iter().map(|(name, _)| (*name).to_owned()).collect(),
            values: list.iter().map(|(_, value)| *value).collect(),
        };
        PortReading {
            hw_counters: counters(hw),
            counters: counters(standard),
            link_statistics: counters(link),
            ..PortReading::of(port)
        }
    }

    fn counter_values(hw: &[(&str, u64)], standard: &[(&str, u64)], link: &[(&str, u64)]) -> CounterValues {
        CounterValues::of_port(&port(hw, standard, link), &mut CounterLayouts::default(), None)
    }

    #[test]
    fn data_words_are_converted_to_bytes() {
        assert_eq!(
            counter_values(&[], &[("port_xmit_data", 250)], &[]).sum(CommonMetric::Bytes(Transmit)),
            Some(1000)
        );
    }

    #[test]
    fn sources_with_the_lowest_rank_are_added_up() {
        let link = [("rx_vport_rdma_unicast_bytes", 30), ("rx_vport_rdma_multicast_bytes", 4)];
        assert_eq!(
            counter_values(&[], &[("port_rcv_data", 8)], &link).sum(CommonMetric::Bytes(Receive)),
            Some(32)
        );
        assert_eq!(counter_values(&[], &[], &link).sum(CommonMetric::Bytes(Receive)), Some(34));
        let irdma = [("ip4InOctets", 5), ("ip6InOctets", 6)];
        assert_eq!(counter_values(&irdma, &[], &[]).sum(CommonMetric::Bytes(Receive)), Some(11));
        let errors = [("req_cqe_error", 2), ("resp_cqe_error", 3)];
        assert_eq!(counter_values(&errors, &[], &[]).sum(CommonMetric::Error("cqe_error")), Some(5));
    }

    #[test]
    fn names_that_collide_are_one_series_and_an_error() {
        let same = counter_values(&[("rxPkts", 1), ("rx_pkts", 2)], &[], &[]);
        assert_eq!(same.values, [1]);
        assert!(matches!(&same.layout.errors[..], [one] if one.reason == ErrorReason::Collision), "{same:?}");
        // rxe in recent kernels has the counter twice, with the same meaning.
        let twice = counter_values(&[("link_downed", 1)], &[("link_downed", 1)], &[]);
        assert!(twice.values.len() == 1 && twice.layout.errors.is_empty());
    }

    #[test]
    fn priorities_are_separate_and_other_statistics_are_omitted() {
        let link = [("rx_prio3_pause", 7), ("rx_packets", 1), ("rx_prio4_pause", 9)];
        let counter_values = counter_values(&[], &[], &link);
        assert_eq!(counter_values.values, [7, 9]);
        let found: Vec<_> =
            counter_values.sums().map(|(sum, value)| (sum.priority.as_deref(), value)).collect();
        assert_eq!(found, [(Some("3"), 7), (Some("4"), 9)]);
    }

    #[test]
    fn ports_of_one_driver_share_a_layout_until_their_names_change() {
        let mut layouts = CounterLayouts::default();
        let (a, b) = (port(&[("x", 1)], &[], &[]), port(&[("x", 2)], &[], &[]));
        let first = CounterValues::of_port(&a, &mut layouts, None);
        let second = CounterValues::of_port(&b, &mut layouts, None);
        assert!(Arc::ptr_eq(&first.layout, &second.layout));
        let third = CounterValues::of_port(&port(&[("y", 3)], &[], &[]), &mut layouts, Some(&first.layout));
        assert!(!Arc::ptr_eq(&first.layout, &third.layout));
        assert_eq!(third.values, [3]);
        // A layout that no port has is forgotten with the next new one, and that of a port is kept.
        drop((first, second));
        let fourth = CounterValues::of_port(&port(&[("z", 4)], &[], &[]), &mut layouts, None);
        let met: Vec<_> = layouts.met.iter().map(Arc::as_ptr).collect();
        assert_eq!(met, [&third.layout, &fourth.layout].map(Arc::as_ptr));
    }
}
