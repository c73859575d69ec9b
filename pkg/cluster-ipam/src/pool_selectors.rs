//! The label selectors of pools: which pools select a pod.

use ipam::SelectingPools;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    api::DynamicObject,
    core::{Selector, SelectorExt},
};
use serde_json::Value;

use crate::node_object::NodeLabels as Labels;

/// The selectors of the pools that have some.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolSelectors(Vec<PoolSelector>);

#[derive(Debug, Clone)]
struct PoolSelector {
    pool: String,
    pods: Option<Selector>,
    namespaces: Option<Selector>,
}

impl PoolSelectors {
    /// Adds those of a pool. An invalid selector selects nothing.
    pub(crate) fn add(&mut self, pool: &DynamicObject) {
        let spec = &pool.data["spec"];
        let (pods, namespaces) = (selector(&spec["podAffinity"]), selector(&spec["namespaceAffinity"]));
        if pods.is_some() || namespaces.is_some() {
            self.0.push(PoolSelector {
                pool: pool.metadata.name.clone().unwrap_or_default(),
                pods,
                namespaces,
            });
        }
    }

    /// Returns the pools that select a pod with these labels in a namespace with those.
    pub(crate) fn selecting(&self, pod: &Labels, namespace: &Labels) -> SelectingPools {
        let names = |select: &dyn Fn(&PoolSelector) -> bool| {
            self.0.iter().filter(|pool| select(pool)).map(|pool| pool.pool.clone()).collect()
        };
        let matches = |selector: &Option<Selector>, labels: &Labels| {
            selector.as_ref().is_some_and(|selector| selector.matches(labels))
        };
        SelectingPools {
            pod_affinity: names(&|pool| matches(&pool.pods, pod)),
            namespace_affinity: names(&|pool| matches(&pool.namespaces, namespace)),
        }
    }
}

fn selector(value: &Value) -> Option<Selector> {
    let selector: LabelSelector = serde_json::from_value(value.clone()).ok()?;
    Selector::try_from(selector).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(name: &str, spec: Value) -> DynamicObject {
        let object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": name}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn labels(of: &[(&str, &str)]) -> Labels {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn pods_and_namespaces_are_selected_by_labels() {
        let app = json!({"matchLabels": {"app": "train"}});
        let tenant = json!({"matchExpressions": [{"key": "tenant", "operator": "In", "values": ["a", "b"]}]});
        let wrong = json!({"matchExpressions": [{"key": "tenant", "operator": "Near", "values": ["a"]}]});
        let pools = [
            pool("plain", json!({"podAffinity": null})),
            pool("app", json!({"podAffinity": app})),
            pool("tenant", json!({"namespaceAffinity": tenant})),
            pool("both", json!({"podAffinity": app, "namespaceAffinity": tenant})),
            pool("wrong", json!({"podAffinity": wrong})),
        ];
        let mut selectors = PoolSelectors::default();
        pools.iter().for_each(|pool| selectors.add(pool));
        let of = |pod: &[(&str, &str)], namespace: &[(&str, &str)]| {
            let selecting = selectors.selecting(&labels(pod), &labels(namespace));
            (selecting.pod_affinity, selecting.namespace_affinity)
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            of(&[("app", "train")], &[("tenant", "b")]),
            (names(&["app", "both"]), names(&["tenant", "both"]))
        );
        assert_eq!(of(&[("app", "serve"), ("tenant", "a")], &[("tenant", "c")]), (names(&[]), names(&[])));
    }
}
