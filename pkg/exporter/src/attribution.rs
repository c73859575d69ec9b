//! How numbers come to be a pod's.

/// How a number came to be a pod's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribution {
    /// The device is in the pod's namespace.
    ExclusiveNetns,
    /// No other process had a queue pair on the device.
    SoleUser,
    /// The kernel bound counters of their own to the pod's processes.
    PidCounter,
    /// From packet sequence numbers of the pod's queue pairs.
    Psn,
}

impl Attribution {
    /// Whether numbers of this one are better than another's of the same pod on the same port: they are the pod's own at
    /// every moment, not only while it is alone.
    pub(crate) fn is_better_than(self, other: Self) -> bool {
        let rank = |one| match one {
            Self::ExclusiveNetns => 0,
            Self::PidCounter => 1,
            Self::Psn => 2,
            Self::SoleUser => 3,
        };
        rank(self) < rank(other)
    }

    /// As it is named in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExclusiveNetns => "exclusive-netns",
            Self::SoleUser => "sole-user",
            Self::PidCounter => "pid-counter",
            Self::Psn => "psn",
        }
    }
}
