//! The series of a port's counters. There are thousands of them, so their labels are cached between collections.

use std::{collections::HashMap, sync::Arc};

use exposition::{Exposition, FamilyId, LabelSet, MetricType};

use super::labels::DeviceLabels;
use crate::{
    PodInfo,
    catalogue::{CommonMetric, Direction},
    counter_history::{AccountKey, PortKey},
    counter_layout::{CommonSum, CounterLayout},
    counter_values::CounterValues,
};

/// The series of one port, or of one pod on a port.
#[derive(Debug)]
pub(super) struct CounterSeries {
    layout: Arc<CounterLayout>,
    /// The layouts of a pod's accounts with a more exact attribution.
    better: Vec<Arc<CounterLayout>>,
    base: LabelSet,
    series: Vec<Series>,
}

#[derive(Debug)]
struct Series {
    family: FamilyId,
    labels: LabelSet,
    value: SeriesValue,
}

/// The source of a series' value: the index of a counter or a sum in the layout.
#[derive(Debug, Clone, Copy)]
enum SeriesValue {
    Counter(usize),
    Sum(usize),
    /// A sum of microseconds, in seconds.
    Seconds(usize),
}

/// The series of the last collection, by port and by a pod's account.
#[derive(Debug, Default)]
pub(super) struct SeriesCache {
    pub(super) ports: HashMap<PortKey, CounterSeries>,
    /// In the order of the accounts in the counter history.
    pub(super) accounts: Vec<(Arc<PodInfo>, AccountKey, CounterSeries)>,
    pub(super) devices: HashMap<u32, DeviceLabels>,
}

impl CounterSeries {
    /// Returns the series of a port; `known` if they are unchanged.
    pub(super) fn of_port(
        known: Option<Self>,
        template: &mut Exposition,
        base: &LabelSet,
        layout: &Arc<CounterLayout>,
    ) -> Self {
        Self::kept(known, Some(base), layout, &[]).unwrap_or_else(|| {
            let mut maker = SeriesBuilder { template, base, series: Vec::new() };
            for (at, shown) in layout.shown.iter().enumerate() {
                let metric = &shown.metric;
                if let Some(name) = &metric.family {
                    let kind = if metric.is_gauge { MetricType::Gauge } else { MetricType::Counter };
                    let labels = base.builder().with_some("priority", metric.priority.as_deref());
                    maker.add(name, kind, &metric.help, labels.build(), SeriesValue::Counter(at));
                }
            }
            layout.sums.iter().enumerate().for_each(|(at, sum)| maker.port_sum(at, sum));
            let series = maker.series;
            Self { layout: layout.clone(), better: Vec::new(), base: base.clone(), series }
        })
    }

    /// Returns the series of a pod's account on a port; `known` are those of the same account, whose labels never change.
    /// Counters that an account with a more exact attribution also has are omitted, so that sums over a pod's series are
    /// correct.
    pub(super) fn of_account(
        known: Option<Self>,
        template: &mut Exposition,
        base: impl FnOnce() -> LabelSet,
        layout: &Arc<CounterLayout>,
        better: Vec<Arc<CounterLayout>>,
    ) -> Self {
        Self::kept(known, None, layout, &better).unwrap_or_else(|| {
            let base = base();
            let mut maker = SeriesBuilder { template, base: &base, series: Vec::new() };
            for (at, shown) in layout.shown.iter().enumerate() {
                let elsewhere = better.iter().any(|other| other.shows(&shown.metric));
                if let Some(name) = shown.metric.pod_family.as_ref().filter(|_| !elsewhere) {
                    let labels = base.builder().with_some("priority", shown.metric.priority.as_deref());
                    maker.add(
                        name,
                        MetricType::Counter,
                        &shown.metric.help,
                        labels.build(),
                        SeriesValue::Counter(at),
                    );
                }
            }
            for (at, sum) in layout.sums.iter().enumerate() {
                if !better.iter().any(|other| other.sums.iter().any(|theirs| theirs.role == sum.role)) {
                    maker.pod_sum(at, sum);
                }
            }
            let series = maker.series;
            Self { layout: layout.clone(), better, base, series }
        })
    }

    fn kept(
        known: Option<Self>,
        base: Option<&LabelSet>,
        layout: &Arc<CounterLayout>,
        better: &[Arc<CounterLayout>],
    ) -> Option<Self> {
        let same = |known: &Self| {
            Arc::ptr_eq(&known.layout, layout)
                && base.is_none_or(|base| known.base == *base)
                && known.better.len() == better.len()
                && known.better.iter().zip(better).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        known.filter(same)
    }

    /// Adds the samples to the families.
    pub(super) fn write(&self, families: &mut Exposition, counter_values: &CounterValues) {
        for Series { family, labels, value } in &self.series {
            match value {
                SeriesValue::Counter(at) => families.add(*family, labels.clone(), counter_values.values[*at]),
                SeriesValue::Sum(at) => families.add(*family, labels.clone(), self.sum(*at, counter_values)),
                SeriesValue::Seconds(at) => {
                    #[expect(clippy::cast_precision_loss, reason = "285 years in microseconds fit")]
                    let microseconds = self.sum(*at, counter_values) as f64;
                    families.add(*family, labels.clone(), microseconds / 1e6);
                }
            }
        }
    }

    fn sum(&self, at: usize, counter_values: &CounterValues) -> u64 {
        self.layout.sums[at].of(&counter_values.values)
    }
}

struct SeriesBuilder<'a> {
    template: &'a mut Exposition,
    base: &'a LabelSet,
    series: Vec<Series>,
}

impl SeriesBuilder<'_> {
    fn add(&mut self, name: &str, kind: MetricType, help: &str, labels: LabelSet, value: SeriesValue) {
        let family = self.template.family_id(name, kind, help);
        self.series.push(Series { family, labels, value });
    }

    fn counter(&mut self, name: &str, help: &str, labels: LabelSet, value: SeriesValue) {
        self.add(name, MetricType::Counter, help, labels, value);
    }

    fn port_sum(&mut self, at: usize, sum: &CommonSum) {
        let base = self.base.clone();
        let by_priority = |direction: Direction| {
            let labels = base.builder().with("direction", direction.name());
            labels.with_some("priority", sum.priority.as_deref()).build()
        };
        match sum.role {
            CommonMetric::Bytes(direction) => {
                let name = format!("rdma_port_{}_bytes_total", direction.name());
                self.counter(&name, bytes_help(direction), base, SeriesValue::Sum(at));
            }
            CommonMetric::Packets(direction) => {
                let name = format!("rdma_port_{}_packets_total", direction.name());
                self.counter(&name, packets_help(direction), base, SeriesValue::Sum(at));
            }
            CommonMetric::Error(error) => {
                let help = "Errors of RDMA transport and ports, by kind. Common to all drivers.";
                self.counter("rdma_errors_total", help, base.and("error", error), SeriesValue::Sum(at));
            }
            CommonMetric::Congestion(event) => {
                let help = "Congestion events: marked packets and notifications. Common to all drivers.";
                self.counter(
                    "rdma_congestion_events_total",
                    help,
                    base.and("event", event),
                    SeriesValue::Sum(at),
                );
            }
            CommonMetric::PauseFrames(direction) => {
                let help = "PFC pause frames by priority. Direction receive: the network paused this port.";
                self.counter(
                    "rdma_pfc_pause_frames_total",
                    help,
                    by_priority(direction),
                    SeriesValue::Sum(at),
                );
            }
            CommonMetric::PauseMicroseconds(direction) => {
                let help = "Time that a priority was paused. Direction receive: this port was paused.";
                self.counter(
                    "rdma_pfc_pause_seconds_total",
                    help,
                    by_priority(direction),
                    SeriesValue::Seconds(at),
                );
            }
            CommonMetric::PriorityBytes(direction) => {
                let help = "Bytes of a priority on the physical port, of all traffic.";
                self.counter("rdma_priority_bytes_total", help, by_priority(direction), SeriesValue::Sum(at));
            }
            CommonMetric::PriorityPackets(direction) => {
                let help = "Packets of a priority on the physical port, of all traffic.";
                self.counter(
                    "rdma_priority_packets_total",
                    help,
                    by_priority(direction),
                    SeriesValue::Sum(at),
                );
            }
            CommonMetric::Discards(direction) => {
                let help = "Packets discarded because no buffer was free, by priority.";
                self.counter(
                    "rdma_priority_discards_total",
                    help,
                    by_priority(direction),
                    SeriesValue::Sum(at),
                );
            }
        }
    }

    fn pod_sum(&mut self, at: usize, sum: &CommonSum) {
        let base = self.base.clone();
        match sum.role {
            CommonMetric::Bytes(direction) => {
                let name = format!("rdma_pod_{}_bytes_total", direction.name());
                self.counter(&name, bytes_help(direction), base, SeriesValue::Sum(at));
            }
            CommonMetric::Packets(direction) => {
                let name = format!("rdma_pod_{}_packets_total", direction.name());
                self.counter(&name, packets_help(direction), base, SeriesValue::Sum(at));
            }
            CommonMetric::Error(error) => {
                let help = "Errors of the pod's RDMA transport, by kind.";
                self.counter("rdma_pod_errors_total", help, base.and("error", error), SeriesValue::Sum(at));
            }
            // Congestion and pauses affect all users of a port.
            CommonMetric::Congestion(_)
            | CommonMetric::PauseFrames(_)
            | CommonMetric::PauseMicroseconds(_)
            | CommonMetric::Discards(_)
            | CommonMetric::PriorityBytes(_)
            | CommonMetric::PriorityPackets(_) => {}
        }
    }
}

fn bytes_help(direction: Direction) -> &'static str {
    match direction {
        Direction::Receive => "RDMA bytes received by the function, with headers.",
        Direction::Transmit => "RDMA bytes sent by the function, with headers.",
    }
}

fn packets_help(direction: Direction) -> &'static str {
    match direction {
        Direction::Receive => "RDMA packets received by the function.",
        Direction::Transmit => "RDMA packets sent by the function.",
    }
}
