//! What can be asked for.

use exposition::ExpositionFormat;
use serde::{Deserialize, Serialize};

/// Which text of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SnapshotEncoding {
    /// The metrics, in the format of Prometheus.
    Text,
    /// The metrics, as OpenMetrics.
    OpenMetrics,
    /// What `/api/v1/node` tells.
    Node,
}

impl From<ExpositionFormat> for SnapshotEncoding {
    fn from(format: ExpositionFormat) -> Self {
        match format {
            ExpositionFormat::Text => Self::Text,
            ExpositionFormat::OpenMetrics => Self::OpenMetrics,
        }
    }
}

impl SnapshotEncoding {
    /// Its media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => ExpositionFormat::Text.content_type(),
            Self::OpenMetrics => ExpositionFormat::OpenMetrics.content_type(),
            Self::Node => "application/json",
        }
    }
}
