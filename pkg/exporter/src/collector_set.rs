//! What is read, by kind.

use std::{fmt, str::FromStr, time::Duration};

/// A kind of reading, which can be switched off and whose failures are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collector {
    /// The node's RDMA mode.
    Mode,
    /// Which devices there are, in the node's namespace and in those of pods.
    Devices,
    /// State and link of each port.
    Ports,
    /// Hardware counters, by netlink.
    HwCounters,
    /// Standard counters of a port and counters of a device, from sysfs.
    Counters,
    /// Speed and statistics of a port's link.
    Ethtool,
    /// GID tables.
    Gids,
    /// Queue pairs, memory regions and the rest, and whose they are.
    Resources,
    /// Which pods there are.
    Pods,
    /// Which workloads pods belong to, by the API server.
    Owners,
    /// The `rdma` cgroup controller.
    Cgroup,
    /// Packets of each queue pair by its packet sequence numbers; only on demand.
    Psn,
    /// Counter sets that the kernel bound to processes; only on demand.
    PidCounters,
}

/// How long each collector took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CollectorTimes([Duration; Collector::ALL.len()]);

impl CollectorTimes {
    /// Adds to one.
    pub(crate) fn add(&mut self, collector: Collector, time: Duration) {
        self.0[collector as usize] += time;
    }

    /// Adds all of another.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(ours, theirs)| *ours += theirs);
    }

    /// How long one took.
    pub(crate) fn of(&self, collector: Collector) -> Duration {
        self.0[collector as usize]
    }
}

/// The text names no collector.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no collector: expected one of {list}", list = Collector::ALL.map(Collector::name).join(", "))]
pub struct UnknownCollector(pub String);

impl Collector {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Mode,
        Self::Devices,
        Self::Ports,
        Self::HwCounters,
        Self::Counters,
        Self::Ethtool,
        Self::Gids,
        Self::Resources,
        Self::Pods,
        Self::Owners,
        Self::Cgroup,
        Self::Psn,
        Self::PidCounters,
    ];

    /// As it is named in labels and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Devices => "devices",
            Self::Ports => "ports",
            Self::HwCounters => "hw_counters",
            Self::Counters => "counters",
            Self::Ethtool => "ethtool",
            Self::Gids => "gids",
            Self::Resources => "resources",
            Self::Pods => "pods",
            Self::Owners => "owners",
            Self::Cgroup => "cgroup",
            Self::Psn => "psn",
            Self::PidCounters => "pid_counters",
        }
    }

    /// Whether it runs unless it is switched off.
    pub fn is_default(self) -> bool {
        !matches!(self, Self::Psn | Self::PidCounters)
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Collector {
    type Err = UnknownCollector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|collector| collector.name() == text);
        found.ok_or_else(|| UnknownCollector(text.to_owned()))
    }
}

/// Which collectors run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorSet(u16);

impl Default for CollectorSet {
    fn default() -> Self {
        Collector::ALL.into_iter().filter(|c| c.is_default()).fold(Self(0), Self::with)
    }
}

impl CollectorSet {
    /// None of them.
    pub fn none() -> Self {
        Self(0)
    }

    /// These and another.
    #[must_use]
    pub fn with(self, collector: Collector) -> Self {
        Self(self.0 | 1 << collector as u16)
    }

    /// These without one.
    #[must_use]
    pub fn without(self, collector: Collector) -> Self {
        Self(self.0 & !(1 << collector as u16))
    }

    /// Whether one is among them.
    pub fn has(self, collector: Collector) -> bool {
        self.0 & 1 << collector as u16 != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Collector> {
        Collector::ALL.into_iter().filter(move |collector| self.has(*collector))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collector_is_found_by_its_name() {
        for collector in Collector::ALL {
            assert_eq!(collector.name().parse(), Ok(collector));
        }
        let error = "infiniband".parse::<Collector>().unwrap_err().to_string();
        assert!(error.contains("expected one of mode, devices, ports"), "{error}");
    }

    #[test]
    fn what_costs_or_needs_more_runs_only_on_demand() {
        let default = CollectorSet::default();
        assert!(default.has(Collector::Resources) && !default.has(Collector::Psn));
        assert!(default.with(Collector::Psn).has(Collector::Psn));
        assert!(!default.without(Collector::Gids).has(Collector::Gids));
        assert_eq!(default.iter().count(), 11);
    }
}
