//! What can be asked for.

use exposition::Format;
use serde::{Deserialize, Serialize};

/// Which text of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// The metrics, in the format of Prometheus.
    Text,
    /// The metrics, as OpenMetrics.
    OpenMetrics,
    /// What `/api/v1/node` tells.
    Node,
}

impl From<Format> for Kind {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::OpenMetrics => Self::OpenMetrics,
        }
    }
}

impl Kind {
    /// Its media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => Format::Text.content_type(),
            Self::OpenMetrics => Format::OpenMetrics.content_type(),
            Self::Node => "application/json",
        }
    }
}
