//! The labels of a pod.

use std::sync::Arc;

use exposition::LabelsBuilder;

use crate::PodInfo;

/// Adds the labels of a pod, if there is one.
pub(super) fn with_pod(labels: LabelsBuilder, pod: Option<&Arc<PodInfo>>) -> LabelsBuilder {
    let Some(pod) = pod else { return labels };
    labels.with_some("pod_namespace", Some(&pod.namespace)).with("pod_name", &pod.name)
}
