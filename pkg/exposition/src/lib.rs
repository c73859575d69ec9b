//! Metric families, and their encoding in the two text formats of Prometheus.
//!
//! Families are added to an [`Exposition`] in any order; the text is sorted by name. [`metric_name`] converts the names
//! that drivers and firmware use into legal metric names.
//!
//! The name of a counter ends in `_total`. In the classic text format this is the name of the family, in OpenMetrics only
//! of its samples. A missing value results in a missing sample, never in a zero.

#![forbid(unsafe_code)]

mod encode;
mod family;
mod histogram;
mod labels;
mod name;

pub use encode::ExpositionFormat;
pub use family::{Exposition, FamilyId, MetricFamily, MetricType, SampleValue};
pub use histogram::Histogram;
pub use labels::{LabelSet, LabelsBuilder};
pub use name::metric_name;
