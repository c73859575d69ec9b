//! How counters are attributed to a pod.

/// How a counter is attributed to a pod; the label `attribution`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribution {
    /// The device is in the pod's network namespace.
    ExclusiveNetns,
    /// No other pod or process had a queue pair on the device.
    SoleUser,
    /// The kernel bound separate counter sets to the pod's processes, see rdma-statistic(8).
    PidCounter,
    /// The packets are computed from the packet sequence numbers of the pod's queue pairs.
    Psn,
}

impl Attribution {
    /// Whether this attribution is more exact than another one of the same pod on the same port. Sole use is the least exact:
    /// it counts only while the pod is alone on the device.
    pub(crate) fn is_better_than(self, other: Self) -> bool {
        let rank = |one| match one {
            Self::ExclusiveNetns => 0,
            Self::PidCounter => 1,
            Self::Psn => 2,
            Self::SoleUser => 3,
        };
        rank(self) < rank(other)
    }

    /// Returns the value of the label `attribution`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExclusiveNetns => "exclusive-netns",
            Self::SoleUser => "sole-user",
            Self::PidCounter => "pid-counter",
            Self::Psn => "psn",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sole_use_is_the_least_exact() {
        use Attribution::{ExclusiveNetns, PidCounter, Psn, SoleUser};
        let order = [ExclusiveNetns, PidCounter, Psn, SoleUser];
        for (at, one) in order.into_iter().enumerate() {
            let worse = order.into_iter().filter(|other| one.is_better_than(*other));
            assert_eq!(worse.collect::<Vec<_>>(), order[at + 1..], "{one:?}");
        }
    }
}
