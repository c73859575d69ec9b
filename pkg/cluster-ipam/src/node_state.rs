//! What a Node object says about its machine.

use k8s_openapi::api::core::v1::Node;

/// The taint of a node that an administrator declares to be off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Whether an administrator has declared the machine to be off, and it has not reported since that it is ready: Kubernetes does not
/// remove the taint when a node is back.
pub(crate) fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let is_tainted = taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == OUT_OF_SERVICE));
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_ready =
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"));
    is_tainted && !is_ready
}
