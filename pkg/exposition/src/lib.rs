//! Metric families, and the two texts in which Prometheus reads them.
//!
//! Families are gathered in an [`Exposition`] in any order; its text always has the same one. Names come from drivers
//! and firmware, so [`metric_name`] makes a legal one of anything.
//!
//! A family of counters ends in `_total`. In the classic text that is the family's name; in OpenMetrics it is only the
//! samples'. A missing value is a missing sample: nothing here invents a zero.

#![forbid(unsafe_code)]

mod encode;
mod family;
mod labels;
mod name;

pub use encode::ExpositionFormat;
pub use family::{Exposition, FamilyId, MetricFamily, MetricType, SampleValue};
pub use labels::{LabelSet, LabelsBuilder};
pub use name::metric_name;
