//! Bandwidth by message size.

use serde::Serialize;

use super::{Collective, CollectiveLibrary};

/// The result of a collective test: one point for each message size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BandwidthCurve {
    /// The library under test.
    pub library: CollectiveLibrary,
    /// The collective operation.
    pub collective: Collective,
    /// The points, ordered by message size.
    pub points: Vec<CurvePoint>,
}

/// The result for one message size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CurvePoint {
    /// The message size in bytes.
    pub size: u64,
    /// The time of one operation in microseconds.
    pub time_us: f64,
    /// The algorithm bandwidth: size divided by time, in 10^9 bytes/s.
    pub algorithm_gbs: f64,
    /// The bus bandwidth: what each link carries, in 10^9 bytes/s. `None` for HCCL, which does not print it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus_gbs: Option<f64>,
    /// Whether the data was correct; `None` if it was not checked.
    pub correct: Option<bool>,
}

impl CurvePoint {
    /// Returns the bus bandwidth, or the algorithm bandwidth if there is none.
    pub fn gbs(&self) -> f64 {
        self.bus_gbs.unwrap_or(self.algorithm_gbs)
    }
}

impl BandwidthCurve {
    /// Returns the plateau bandwidth: the best of the three largest sizes. The average over all sizes, which the programs
    /// print, depends on the selected sizes more than on the network.
    pub fn plateau_gbs(&self) -> f64 {
        let largest = self.points.iter().rev().take(3);
        largest.map(CurvePoint::gbs).fold(0.0, f64::max)
    }

    /// Whether the largest sizes have an algorithm bandwidth but no bus bandwidth. For a few bytes both are printed as 0.
    pub(super) fn has_no_bus(&self) -> bool {
        let alone = |point: &CurvePoint| point.bus_gbs == Some(0.0) && point.algorithm_gbs > 0.1;
        self.plateau_gbs() == 0.0 && self.points.iter().rev().take(3).any(alone)
    }

    /// Whether any point has incorrect data.
    pub fn is_wrong(&self) -> bool {
        self.points.iter().any(|point| point.correct == Some(false))
    }
}
