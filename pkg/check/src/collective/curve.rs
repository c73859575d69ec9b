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

#[cfg(test)]
mod tests {
    use super::*;

    /// A curve with these bus bandwidths.
    fn curve(bus: &[Option<f64>]) -> BandwidthCurve {
        let point = |(size, bus_gbs): (u64, &Option<f64>)| CurvePoint {
            size,
            time_us: 1.0,
            algorithm_gbs: 7.0,
            bus_gbs: *bus_gbs,
            correct: Some(true),
        };
        let points = (1..).zip(bus).map(point).collect();
        BandwidthCurve { library: CollectiveLibrary::Nccl, collective: Collective::AllReduce, points }
    }

    #[test]
    fn the_plateau_is_the_best_of_the_three_largest_sizes() {
        let plateau = |bus: &[f64]| curve(&bus.iter().copied().map(Some).collect::<Vec<_>>()).plateau_gbs();
        assert_eq!(
            [plateau(&[50.0, 10.0, 30.0, 20.0]), plateau(&[50.0, 40.0]), plateau(&[])],
            [30.0, 50.0, 0.0]
        );
        assert_eq!(plateau(&[50.0, 40.0, 10.0, 20.0, 15.0]), 20.0);
        assert_eq!(curve(&[None]).plateau_gbs(), 7.0, "HCCL prints no bus bandwidth");
    }

    #[test]
    fn one_wrong_point_is_enough_and_one_bus_bandwidth_too() {
        let mut some = curve(&[Some(1.0), Some(2.0), Some(3.0)]);
        assert!(!some.is_wrong() && !some.has_no_bus());
        some.points[0].correct = None;
        assert!(!some.is_wrong());
        some.points[1].correct = Some(false);
        assert!(some.is_wrong());
        assert!(curve(&[Some(9.0), Some(0.0), Some(0.0), Some(0.0)]).has_no_bus());
        assert!(
            !curve(&[Some(0.0), Some(0.0), Some(0.0), Some(9.0)]).has_no_bus()
                && !curve(&[None]).has_no_bus()
        );
    }
}
