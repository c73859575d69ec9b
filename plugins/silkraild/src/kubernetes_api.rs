//! Who tells which workload a pod belongs to.

use std::sync::Arc;

use clap::ValueEnum;
use exporter::{Collector, ExporterOptions, NoWorkloadResolver, WorkloadResolver};
use workloads::{RetryPolicy, WorkloadWatcher};

/// Whether the Kubernetes API is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KubernetesApi {
    /// By the pod's service account, else by the file that KUBECONFIG names, else not
    Auto,
    /// Never
    Off,
}

/// The API server, if there is one. Nothing is waited for: it need not answer yet.
pub(crate) async fn find(
    kubernetes: KubernetesApi,
    settings: &mut ExporterOptions,
) -> Arc<dyn WorkloadResolver> {
    if kubernetes == KubernetesApi::Auto && settings.collectors.has(Collector::Owners) {
        match kubeapi::connect().await {
            Ok(Some(client)) => {
                let workloads = WorkloadWatcher::start(client, settings.node.clone(), RetryPolicy::default());
                return Arc::new(workloads);
            }
            Ok(None) => {
                tracing::info!("no Kubernetes API: pods are shown without the workloads they belong to")
            }
            // As the DaemonSet comes.
            Err(kubeapi::Error::InCluster(_)) => tracing::info!(
                "no token for the Kubernetes API: pods are shown without the workloads they belong to"
            ),
            Err(error) => tracing::warn!("pods are shown without the workloads they belong to: {error}"),
        }
    }
    none(settings)
}

/// Nobody. The collector does not run: it would seem to be well.
pub(crate) fn none(settings: &mut ExporterOptions) -> Arc<dyn WorkloadResolver> {
    settings.collectors = settings.collectors.without(Collector::Owners);
    Arc::new(NoWorkloadResolver)
}
