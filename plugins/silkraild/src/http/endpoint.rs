//! The paths that a listener serves, and the authentication of its clients.

use super::{admission::Authenticator, connections::ConnectionLimits, token_review_queue::TokenReviewQueue};
use crate::{snapshot_client::SnapshotClient, web_config::WebConfigReloader};

/// Prometheus keeps one connection open, a browser a few. A proxy has the connections of all its clients.
const METRICS_CONNECTION_LIMITS: ConnectionLimits =
    ConnectionLimits { all: 128, of_source: 16, unread: 16 * 1024 * 1024, former: 16 * 1024 * 1024 };

/// The kubelet opens a new connection for each probe.
const PROBE_CONNECTION_LIMITS: ConnectionLimits =
    ConnectionLimits { all: 16, of_source: 16, unread: 1024 * 1024, former: 0 };

/// What a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenerRole {
    /// `--listen`: all paths, for authenticated clients.
    Metrics,
    /// `--health.listen`: /healthz and /readyz, for probes from the node itself.
    Health,
}

/// The paths that a listener serves, and the authentication of its clients.
#[derive(Debug, Clone)]
pub(crate) struct HttpEndpoint {
    pub(super) port: ListenerRole,
    pub(super) snapshots: SnapshotClient,
    pub(super) web: WebConfigReloader,
    pub(super) admission: Authenticator,
}

impl HttpEndpoint {
    /// Returns the endpoint of `--listen`: all paths, with the web configuration, and with token reviews if configured.
    pub(crate) fn metrics(
        snapshots: SnapshotClient,
        web: WebConfigReloader,
        tokens: Option<TokenReviewQueue>,
    ) -> Self {
        Self { port: ListenerRole::Metrics, snapshots, web, admission: Authenticator::new(tokens) }
    }

    /// Returns the endpoint of `--health.listen`: /healthz and /readyz, without TLS and authentication.
    pub(crate) fn health(snapshots: SnapshotClient) -> Self {
        Self {
            port: ListenerRole::Health,
            snapshots,
            web: WebConfigReloader::default(),
            admission: Authenticator::new(None),
        }
    }
}

impl ListenerRole {
    pub(super) fn limits(self) -> ConnectionLimits {
        match self {
            Self::Metrics => METRICS_CONNECTION_LIMITS,
            Self::Health => PROBE_CONNECTION_LIMITS,
        }
    }
}
