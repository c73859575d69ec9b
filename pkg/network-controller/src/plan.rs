//! What to change so that there is a NetworkAttachmentDefinition of each `SpiderMultusConfig`. Does no I/O.

use std::collections::BTreeMap;

use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};
use spider_multus::{NetworkAttachment, SpiderMultusConfigs, Target};

use crate::object_key::ObjectKey;

/// The kind of the configurations.
pub(crate) const CONFIG_KIND: &str = "SpiderMultusConfig";

/// A change of a NetworkAttachmentDefinition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NetworkChange {
    /// It does not exist.
    Create(ObjectKey, Value),
    /// It is not as it should be. The object has the version that was read.
    Replace(ObjectKey, Value),
    /// Its configuration has another name now.
    Delete { key: ObjectKey, uid: String, resource_version: String },
}

/// The changes, and what prevents others.
#[derive(Debug, Default)]
pub(crate) struct NetworkPlan {
    pub(crate) changes: Vec<NetworkChange>,
    /// By the configuration.
    pub(crate) problems: BTreeMap<ObjectKey, String>,
}

/// Returns what to change.
pub(crate) fn plan(configs: &[&DynamicObject], networks: &[&DynamicObject], target: Target) -> NetworkPlan {
    let existing: BTreeMap<_, _> =
        networks.iter().map(|network| (ObjectKey::of(network), *network)).collect();
    let mut plan = NetworkPlan::default();
    // Configurations whose networks are known, and the names of these.
    let mut wanted: BTreeMap<ObjectKey, &DynamicObject> = BTreeMap::new();
    let mut unknown = Vec::new();
    for config in configs.iter().filter(|config| config.metadata.deletion_timestamp.is_none()) {
        let network = match rendered(config, target) {
            Ok(network) => network,
            Err(problem) => {
                plan.problems.insert(ObjectKey::of(config), problem);
                unknown.push(config.uid());
                continue;
            }
        };
        let key = ObjectKey { namespace: config.namespace().unwrap_or_default(), name: network.name.clone() };
        if let Some(first) = wanted.get(&key) {
            let problem = format!(
                "{CONFIG_KIND} {} has a NetworkAttachmentDefinition of that name already; change cr-name of one of them",
                ObjectKey::of(first)
            );
            plan.problems.insert(ObjectKey::of(config), problem);
            continue;
        }
        wanted.insert(key.clone(), config);
        match change(config, &network, &key, existing.get(&key).copied()) {
            Ok(change) => plan.changes.extend(change),
            Err(problem) => drop(plan.problems.insert(ObjectKey::of(config), problem)),
        }
    }
    // Those of deleted configurations are deleted by the API server.
    let is_live = |uid: &String| configs.iter().any(|config| config.uid().as_ref() == Some(uid));
    for (key, network) in &existing {
        let Some(owner) = owner(network).filter(is_live) else { continue };
        let is_current = wanted.get(key).is_some_and(|config| config.uid().as_ref() == Some(&owner));
        if !is_current && !unknown.contains(&Some(owner)) {
            plan.changes.push(NetworkChange::Delete {
                key: key.clone(),
                uid: network.uid().unwrap_or_default(),
                resource_version: network.resource_version().unwrap_or_default(),
            });
        }
    }
    plan
}

fn rendered(config: &DynamicObject, target: Target) -> Result<NetworkAttachment, String> {
    let text = serde_json::to_string(config).map_err(|error| error.to_string())?;
    let parsed = SpiderMultusConfigs::parse(&text).map_err(|error| error.to_string())?;
    let config = parsed.configs.first().ok_or("it is not a SpiderMultusConfig")?;
    Ok(NetworkAttachment::of(config, target))
}

/// Returns the UID of the configuration to which a network belongs.
fn owner(network: &DynamicObject) -> Option<String> {
    let owners = network.owner_references().iter();
    let mut controllers = owners.filter(|owner| owner.kind == CONFIG_KIND && owner.controller == Some(true));
    controllers.next().map(|owner| owner.uid.clone())
}

fn change(
    config: &DynamicObject,
    network: &NetworkAttachment,
    key: &ObjectKey,
    existing: Option<&DynamicObject>,
) -> Result<Option<NetworkChange>, String> {
    let mut object = network.object();
    object["metadata"]["namespace"] = json!(key.namespace);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": CONFIG_KIND, "name": config.name_any(), "uid": config.uid(),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let Some(existing) = existing else { return Ok(Some(NetworkChange::Create(key.clone(), object))) };
    if owner(existing) != config.uid() {
        return Err(format!(
            "NetworkAttachmentDefinition {key} exists and does not belong to it; delete it, or set another name with the annotation \
             multus.spidernet.io/cr-name"
        ));
    }
    if existing.annotations() == &network.annotations && is_same(&existing.data, network.config.as_deref()) {
        return Ok(None);
    }
    object["metadata"]["resourceVersion"] = json!(existing.resource_version());
    object["metadata"]["labels"] = json!(existing.labels());
    Ok(Some(NetworkChange::Replace(key.clone(), object)))
}

/// Whether the configurations are the same, regardless of the order of keys and of spaces.
fn is_same(data: &Value, config: Option<&str>) -> bool {
    let existing = data["spec"]["config"].as_str().unwrap_or_default();
    let wanted = config.unwrap_or_default();
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    existing == wanted || parse(existing).is_some_and(|existing| Some(existing) == parse(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, annotations: Value, mtu: u32) -> DynamicObject {
        let object = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": CONFIG_KIND,
            "metadata": {"namespace": "ai", "name": name, "uid": format!("uid-{name}"), "annotations": annotations},
            "spec": {"cniType": "macvlan", "macvlan": {"master": ["eth1"], "mtu": mtu}, "enableCoordinator": false},
        });
        serde_json::from_value(object).unwrap()
    }

    fn created(plan: &NetworkPlan) -> DynamicObject {
        let [NetworkChange::Create(_, object) | NetworkChange::Replace(_, object)] = &plan.changes[..] else {
            panic!("{plan:?}")
        };
        let mut object = object.clone();
        object["metadata"]["uid"] = json!("n");
        object["metadata"]["resourceVersion"] = json!("7");
        serde_json::from_value(object).unwrap()
    }

    fn plan_of(configs: &[&DynamicObject], networks: &[&DynamicObject]) -> NetworkPlan {
        plan(configs, networks, Target::SilkrailCluster)
    }

    #[test]
    fn a_network_is_created_once_and_changed_when_its_configuration_is() {
        let before = config("rail0", Value::Null, 1500);
        let plan = plan_of(&[&before], &[]);
        let network = created(&plan);
        assert_eq!(network.metadata.owner_references.as_ref().unwrap()[0].uid, "uid-rail0");
        assert!(network.data["spec"]["config"].as_str().unwrap().contains("\"store\": \"cluster\""));
        assert_eq!(plan_of(&[&before], &[&network]).changes, []);
        // Spiderpool writes the configuration in one line.
        let mut compact = network.clone();
        let value: Value = serde_json::from_str(network.data["spec"]["config"].as_str().unwrap()).unwrap();
        compact.data["spec"]["config"] = json!(value.to_string());
        assert_eq!(plan_of(&[&before], &[&compact]).changes, []);
        let after = config("rail0", json!({"a": "b"}), 9000);
        let [NetworkChange::Replace(key, object)] = &plan_of(&[&after], &[&network]).changes[..] else {
            panic!()
        };
        assert_eq!(
            (key.to_string().as_str(), &object["metadata"]["resourceVersion"]),
            ("ai/rail0", &json!("7"))
        );
        assert!(
            object["spec"]["config"].as_str().unwrap().contains("9000")
                && object["metadata"]["annotations"]["a"] == "b"
        );
    }

    #[test]
    fn a_network_that_belongs_to_nobody_or_to_another_is_not_touched() {
        let (one, two) = (
            config("one", Value::Null, 1500),
            config("two", json!({"multus.spidernet.io/cr-name": "one"}), 1500),
        );
        let plan = plan_of(&[&one, &two], &[]);
        assert_eq!(plan.changes.len(), 1);
        assert!(
            plan.problems
                .values()
                .all(|problem| problem.contains("ai/one has a NetworkAttachmentDefinition of that name"))
        );
        let mut foreign = created(&plan);
        foreign.metadata.owner_references = None;
        let plan = plan_of(&[&one], &[&foreign]);
        assert_eq!(plan.changes, []);
        let problem = plan.problems.values().next().unwrap();
        assert!(
            problem.starts_with("NetworkAttachmentDefinition ai/one exists and does not belong to it"),
            "{problem}"
        );
    }

    #[test]
    fn a_network_whose_configuration_has_another_name_is_deleted() {
        let network = created(&plan_of(&[&config("rail0", Value::Null, 1500)], &[]));
        let renamed = config("rail0", json!({"multus.spidernet.io/cr-name": "other"}), 1500);
        let plan = plan_of(&[&renamed], &[&network]);
        let [NetworkChange::Create(new, _), NetworkChange::Delete { key, uid, .. }] = &plan.changes[..]
        else {
            panic!("{plan:?}")
        };
        assert_eq!((new.name.as_str(), key.name.as_str(), uid.as_str()), ("other", "rail0", "n"));
        // The API server deletes the network of a configuration that is gone, or about to be.
        assert_eq!(plan_of(&[], &[&network]).changes, []);
        let mut ending = renamed.clone();
        ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(plan_of(&[&ending], &[]).changes, []);
        // While a configuration is invalid, its network stays.
        let mut invalid = renamed;
        invalid.data["spec"]["macvlan"]["master"] = json!(5);
        let plan = plan_of(&[&invalid], &[&network]);
        assert_eq!((plan.changes.len(), plan.problems.len()), (0, 1), "{plan:?}");
    }
}
