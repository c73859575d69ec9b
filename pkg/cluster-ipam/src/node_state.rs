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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tainted_node_is_out_of_service_until_it_reports_that_it_is_ready() {
        let of = |taints: &[&str], ready: &str| {
            let taints: Vec<_> =
                taints.iter().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
            let conditions =
                json!([{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": ready}]);
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {}, "spec": {"taints": taints}, "status": {"conditions": conditions},
            });
            is_out_of_service(&serde_json::from_value(node).unwrap())
        };
        for (taints, ready, expected) in [
            (&[OUT_OF_SERVICE][..], "Unknown", true),
            (&["other", OUT_OF_SERVICE], "False", true),
            (&[OUT_OF_SERVICE], "True", false),
            (&["other"], "Unknown", false),
            (&[], "False", false),
        ] {
            assert_eq!(of(taints, ready), expected, "{taints:?} {ready}");
        }
        assert!(!is_out_of_service(&Node::default()));
    }
}
