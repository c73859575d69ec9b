//! Bandwidth over message size.

use serde::Serialize;

use super::{Collective, CollectiveLibrary};

/// What a test printed: one point for each size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BandwidthCurve {
    /// Whose test.
    pub library: CollectiveLibrary,
    /// Of which operation.
    pub collective: Collective,
    /// By size.
    pub points: Vec<CurvePoint>,
}

/// The result for one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CurvePoint {
    /// Bytes.
    pub size: u64,
    /// Microseconds.
    pub time_us: f64,
    /// Size by time, in 10^9 bytes/s.
    pub algorithm_gbs: f64,
    /// What each link carries of it, in 10^9 bytes/s; HCCL does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus_gbs: Option<f64>,
    /// Whether the data was right; `None` if that was not looked at.
    pub correct: Option<bool>,
}

impl CurvePoint {
    /// The bus bandwidth, where it is told.
    pub fn gbs(&self) -> f64 {
        self.bus_gbs.unwrap_or(self.algorithm_gbs)
    }
}

impl BandwidthCurve {
    /// The bandwidth at the plateau: the best of the three largest sizes. The average over all sizes, which the programs
    /// print, says more about which sizes were asked for than about the network.
    pub fn plateau_gbs(&self) -> f64 {
        let largest = self.points.iter().rev().take(3);
        largest.map(CurvePoint::gbs).fold(0.0, f64::max)
    }

    /// Whether the largest sizes have a bandwidth, but none on the bus. Of a few bytes both are too small to be printed.
    pub(super) fn has_no_bus(&self) -> bool {
        let alone = |point: &CurvePoint| point.bus_gbs == Some(0.0) && point.algorithm_gbs > 0.1;
        self.plateau_gbs() == 0.0 && self.points.iter().rev().take(3).any(alone)
    }

    /// Whether data was wrong somewhere.
    pub fn is_wrong(&self) -> bool {
        self.points.iter().any(|point| point.correct == Some(false))
    }
}
