//! The collectors, and which of them are enabled.

use std::{fmt, str::FromStr, time::Duration};

/// A part of a collection that can be disabled, and has its own error counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collector {
    /// The node's RDMA mode.
    Mode,
    /// The list of devices, in the host namespace and in those of pods.
    Devices,
    /// The state and the link of each port.
    Ports,
    /// Hardware counters, through netlink.
    HwCounters,
    /// Standard counters of a port and counters of a device, from sysfs.
    Counters,
    /// Speed and statistics of a port's link, through ethtool.
    Ethtool,
    /// Link modes, FEC, pause and module of a port's link, through ethtool netlink, and the card's slot.
    Physical,
    /// GID tables.
    Gids,
    /// Queue pairs, memory regions and other objects, and their owners.
    Resources,
    /// The pods of the node.
    Pods,
    /// The workloads that pods belong to, from the API server.
    Owners,
    /// The `rdma` cgroup controller.
    Cgroup,
    /// Packets of each queue pair, from its packet sequence numbers; disabled by default.
    Psn,
    /// Counter sets that the kernel bound to processes; disabled by default.
    PidCounters,
    /// Messages of the connection manager; disabled by default.
    Cm,
}

/// The time that each collector took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CollectorTimes([Duration; Collector::ALL.len()]);

impl CollectorTimes {
    /// Adds to the time of one collector.
    pub(crate) fn add(&mut self, collector: Collector, time: Duration) {
        self.0[collector as usize] += time;
    }

    /// Adds all times of another set.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(ours, theirs)| *ours += theirs);
    }

    /// Returns the time of one collector.
    pub(crate) fn of(&self, collector: Collector) -> Duration {
        self.0[collector as usize]
    }
}

/// A text is not the name of a collector.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown collector {0:?}: expected one of {list}", list = Collector::ALL.map(Collector::name).join(", "))]
pub struct UnknownCollector(pub String);

impl Collector {
    /// All collectors.
    pub const ALL: [Self; 15] = [
        Self::Mode,
        Self::Devices,
        Self::Ports,
        Self::HwCounters,
        Self::Counters,
        Self::Ethtool,
        Self::Physical,
        Self::Gids,
        Self::Resources,
        Self::Pods,
        Self::Owners,
        Self::Cgroup,
        Self::Psn,
        Self::PidCounters,
        Self::Cm,
    ];

    /// Returns the name, as in the label `collector` and in `--enable` and `--disable`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Devices => "devices",
            Self::Ports => "ports",
            Self::HwCounters => "hw_counters",
            Self::Counters => "counters",
            Self::Ethtool => "ethtool",
            Self::Physical => "physical",
            Self::Gids => "gids",
            Self::Resources => "resources",
            Self::Pods => "pods",
            Self::Owners => "owners",
            Self::Cgroup => "cgroup",
            Self::Psn => "psn",
            Self::PidCounters => "pid_counters",
            Self::Cm => "cm",
        }
    }

    /// Whether it is enabled by default.
    pub fn is_default(self) -> bool {
        !matches!(self, Self::Psn | Self::PidCounters | Self::Cm)
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

/// A set of collectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorSet(u16);

impl Default for CollectorSet {
    fn default() -> Self {
        Collector::ALL.into_iter().filter(|c| c.is_default()).fold(Self(0), Self::with)
    }
}

impl CollectorSet {
    /// Returns the empty set.
    pub fn none() -> Self {
        Self(0)
    }

    /// Returns the set with one more collector.
    #[must_use]
    pub fn with(self, collector: Collector) -> Self {
        Self(self.0 | 1 << collector as u16)
    }

    /// Returns the set without one collector.
    #[must_use]
    pub fn without(self, collector: Collector) -> Self {
        Self(self.0 & !(1 << collector as u16))
    }

    /// Whether the set contains a collector.
    pub fn has(self, collector: Collector) -> bool {
        self.0 & 1 << collector as u16 != 0
    }

    /// Iterates over the collectors of the set.
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
    fn expensive_collectors_are_disabled_by_default() {
        let default = CollectorSet::default();
        assert!(default.has(Collector::Resources) && !default.has(Collector::Psn));
        assert!(default.with(Collector::Psn).has(Collector::Psn));
        assert!(!default.without(Collector::Gids).has(Collector::Gids));
        assert_eq!(default.iter().count(), 12);
    }
}
