//! The condition of the node in the Kubernetes API.

use std::convert::Infallible;

use exporter::ExporterOptions;
use node_condition::ConditionPublisher;

/// Keeps the condition up to date, if that is wanted and an API server is configured.
pub(crate) fn keep(is_wanted: bool, settings: &ExporterOptions) -> impl Future<Output = Infallible> + use<> {
    let below = settings.state_dir.strip_prefix("/").unwrap_or(&settings.state_dir);
    let state_dir = settings.root.join(below);
    let publisher = ConditionPublisher::new(settings.node.clone(), state_dir);
    async move {
        if is_wanted {
            match kubeapi::connect().await {
                Ok(Some(client)) => return publisher.run(client).await,
                Ok(None) => {
                    tracing::warn!("no Kubernetes API is configured: the node has no condition RDMAHealthy")
                }
                Err(error) => tracing::warn!("the node has no condition RDMAHealthy: {error}"),
            }
        }
        std::future::pending().await
    }
}
