//! The series of a port's counters. They are thousands, so their labels are made once, not in each collection.

use std::{collections::HashMap, sync::Arc};

use exposition::{Exposition, FamilyId, Kind, Labels};

use super::labels::DeviceLabels;
use crate::{
    Pod,
    catalogue::{Direction, Role},
    layout::{Layout, Sum},
    ledger::{AccountKey, PortKey},
    sheet::Sheet,
};

/// The series of one port, or of one pod on a port.
#[derive(Debug)]
pub(super) struct CounterSeries {
    layout: Arc<Layout>,
    /// Of a pod: what better known accounts of it have.
    better: Vec<Arc<Layout>>,
    base: Labels,
    series: Vec<Series>,
}

#[derive(Debug)]
struct Series {
    family: FamilyId,
    labels: Labels,
    value: Of,
}

/// Of what a series is the value.
#[derive(Debug, Clone, Copy)]
enum Of {
    Counter(usize),
    Sum(usize),
    /// A sum of microseconds, in seconds.
    Seconds(usize),
}

/// The series of the last collection, by port and by a pod's account.
#[derive(Debug, Default)]
pub(super) struct KnownSeries {
    pub(super) ports: HashMap<PortKey, CounterSeries>,
    /// In the ledger's order.
    pub(super) accounts: Vec<(Arc<Pod>, AccountKey, CounterSeries)>,
    pub(super) devices: HashMap<u32, DeviceLabels>,
}

impl CounterSeries {
    /// The series of a port; those of the last time, if they are still the same.
    pub(super) fn of_port(
        known: Option<Self>,
        template: &mut Exposition,
        base: &Labels,
        layout: &Arc<Layout>,
    ) -> Self {
        Self::kept(known, Some(base), layout, &[]).unwrap_or_else(|| {
            let mut maker = Maker { template, base, series: Vec::new() };
            for (at, shown) in layout.shown.iter().enumerate() {
                let metric = &shown.metric;
                if let Some(name) = &metric.family {
                    let kind = if metric.is_gauge { Kind::Gauge } else { Kind::Counter };
                    let labels = base.more().with_some("priority", metric.priority.as_deref());
                    maker.add(name, kind, &metric.help, labels.done(), Of::Counter(at));
                }
            }
            layout.sums.iter().enumerate().for_each(|(at, sum)| maker.port_sum(at, sum));
            let series = maker.series;
            Self { layout: layout.clone(), better: Vec::new(), base: base.clone(), series }
        })
    }

    /// The series of a pod's account on a port; `known` are those of the same account, whose labels never change. What a
    /// better known account of the pod has too is left out: whoever adds up a pod's series must not count twice.
    pub(super) fn of_account(
        known: Option<Self>,
        template: &mut Exposition,
        base: impl FnOnce() -> Labels,
        layout: &Arc<Layout>,
        better: Vec<Arc<Layout>>,
    ) -> Self {
        Self::kept(known, None, layout, &better).unwrap_or_else(|| {
            let base = base();
            let mut maker = Maker { template, base: &base, series: Vec::new() };
            for (at, shown) in layout.shown.iter().enumerate() {
                let elsewhere = better.iter().any(|other| other.shows(&shown.metric));
                if let Some(name) = shown.metric.pod_family.as_ref().filter(|_| !elsewhere) {
                    let labels = base.more().with_some("priority", shown.metric.priority.as_deref());
                    maker.add(name, Kind::Counter, &shown.metric.help, labels.done(), Of::Counter(at));
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
        base: Option<&Labels>,
        layout: &Arc<Layout>,
        better: &[Arc<Layout>],
    ) -> Option<Self> {
        let same = |known: &Self| {
            Arc::ptr_eq(&known.layout, layout)
                && base.is_none_or(|base| known.base == *base)
                && known.better.len() == better.len()
                && known.better.iter().zip(better).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        known.filter(same)
    }

    /// Tells the values.
    pub(super) fn tell(&self, families: &mut Exposition, sheet: &Sheet) {
        for Series { family, labels, value } in &self.series {
            match value {
                Of::Counter(at) => families.add(*family, labels.clone(), sheet.values[*at]),
                Of::Sum(at) => families.add(*family, labels.clone(), self.sum(*at, sheet)),
                Of::Seconds(at) => {
                    #[expect(clippy::cast_precision_loss, reason = "285 years in microseconds fit")]
                    let microseconds = self.sum(*at, sheet) as f64;
                    families.add(*family, labels.clone(), microseconds / 1e6);
                }
            }
        }
    }

    fn sum(&self, at: usize, sheet: &Sheet) -> u64 {
        self.layout.sums[at].of(&sheet.values)
    }
}

struct Maker<'a> {
    template: &'a mut Exposition,
    base: &'a Labels,
    series: Vec<Series>,
}

impl Maker<'_> {
    fn add(&mut self, name: &str, kind: Kind, help: &str, labels: Labels, value: Of) {
        let family = self.template.place(name, kind, help);
        self.series.push(Series { family, labels, value });
    }

    fn counter(&mut self, name: &str, help: &str, labels: Labels, value: Of) {
        self.add(name, Kind::Counter, help, labels, value);
    }

    fn port_sum(&mut self, at: usize, sum: &Sum) {
        let base = self.base.clone();
        let by_priority = |direction: Direction| {
            let labels = base.more().with("direction", direction.name());
            labels.with_some("priority", sum.priority.as_deref()).done()
        };
        match sum.role {
            Role::Bytes(direction) => {
                let name = format!("rdma_port_{}_bytes_total", direction.name());
                self.counter(&name, bytes_help(direction), base, Of::Sum(at));
            }
            Role::Packets(direction) => {
                let name = format!("rdma_port_{}_packets_total", direction.name());
                self.counter(&name, packets_help(direction), base, Of::Sum(at));
            }
            Role::Error(error) => {
                let help = "Errors of RDMA transport, by what went wrong, on any driver.";
                self.counter("rdma_errors_total", help, base.and("error", error), Of::Sum(at));
            }
            Role::Congestion(event) => {
                let help = "Signs of congestion: marked packets and notifications, on any driver.";
                self.counter("rdma_congestion_events_total", help, base.and("event", event), Of::Sum(at));
            }
            Role::PauseFrames(direction) => {
                let help = "Pause frames by priority. Received: the network told this port to stop.";
                self.counter("rdma_pfc_pause_frames_total", help, by_priority(direction), Of::Sum(at));
            }
            Role::PauseMicroseconds(direction) => {
                let help = "Time in which a priority was paused. Received: this port had to stop.";
                self.counter("rdma_pfc_pause_seconds_total", help, by_priority(direction), Of::Seconds(at));
            }
            Role::Discards(direction) => {
                let help = "Packets discarded by priority.";
                self.counter("rdma_priority_discards_total", help, by_priority(direction), Of::Sum(at));
            }
        }
    }

    fn pod_sum(&mut self, at: usize, sum: &Sum) {
        let base = self.base.clone();
        match sum.role {
            Role::Bytes(direction) => {
                let name = format!("rdma_pod_{}_bytes_total", direction.name());
                self.counter(&name, bytes_help(direction), base, Of::Sum(at));
            }
            Role::Packets(direction) => {
                let name = format!("rdma_pod_{}_packets_total", direction.name());
                self.counter(&name, packets_help(direction), base, Of::Sum(at));
            }
            Role::Error(error) => {
                let help = "Errors of RDMA transport of the pod, by what went wrong.";
                self.counter("rdma_pod_errors_total", help, base.and("error", error), Of::Sum(at));
            }
            // Congestion and pauses are the port's and the network's, whoever suffers.
            Role::Congestion(_) | Role::PauseFrames(_) | Role::PauseMicroseconds(_) | Role::Discards(_) => {}
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
