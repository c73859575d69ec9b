//! The quantities that are common to all drivers.

/// A quantity in a family that is common to all drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CommonMetric {
    Bytes(Direction),
    Packets(Direction),
    Error(&'static str),
    Congestion(&'static str),
    PauseFrames(Direction),
    PauseMicroseconds(Direction),
    Discards(Direction),
    PriorityBytes(Direction),
    PriorityPackets(Direction),
}

/// The direction of traffic, from the point of view of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Direction {
    Receive,
    Transmit,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Receive, Self::Transmit];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Transmit => "transmit",
        }
    }
}
