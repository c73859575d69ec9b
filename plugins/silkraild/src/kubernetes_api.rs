//! The source of the workloads of pods: the Kubernetes API, or none.

use std::sync::Arc;

use clap::ValueEnum;
use exporter::{Collector, ExporterOptions, NoWorkloadResolver, WorkloadResolver};
use workloads::{RetryPolicy, WorkloadWatcher};

/// `--kubernetes`: whether to connect to the Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KubernetesApi {
    /// Use the service account of the pod, else the file that KUBECONFIG names, else no API server
    Auto,
    /// Do not connect
    Off,
}

/// Starts to watch the pods of the node, if there is an API server. Does not wait for a response.
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
                tracing::info!("no Kubernetes API is configured: pods are shown without their workloads")
            }
            // The default of the DaemonSet.
            Err(kubeapi::Error::InCluster(_)) => {
                tracing::info!("no token for the Kubernetes API: pods are shown without their workloads")
            }
            Err(error) => tracing::warn!("pods are shown without their workloads: {error}"),
        }
    }
    none(settings)
}

/// Returns a resolver that knows no workloads, and disables the collector, which would report success.
pub(crate) fn none(settings: &mut ExporterOptions) -> Arc<dyn WorkloadResolver> {
    settings.collectors = settings.collectors.without(Collector::Owners);
    Arc::new(NoWorkloadResolver)
}
