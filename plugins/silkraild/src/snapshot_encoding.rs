//! The encodings in which a snapshot can be requested.

use exposition::ExpositionFormat;
use serde::{Deserialize, Serialize};

/// An encoding of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SnapshotEncoding {
    /// The metrics in the Prometheus text format 0.0.4.
    Text,
    /// The metrics in the OpenMetrics text format.
    OpenMetrics,
    /// The JSON of `/api/v1/node`.
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
    /// Returns the media type, for `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => ExpositionFormat::Text.content_type(),
            Self::OpenMetrics => ExpositionFormat::OpenMetrics.content_type(),
            Self::Node => "application/json",
        }
    }
}
