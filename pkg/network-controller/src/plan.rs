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
pub(crate) struct NetworkChange {
    /// The network.
    pub(crate) network: ObjectKey,
    /// The configuration to which it belongs.
    pub(crate) config: ObjectKey,
    pub(crate) action: NetworkAction,
}

/// What to do with a NetworkAttachmentDefinition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NetworkAction {
    /// It does not exist.
    Create(Value),
    /// It is not as it should be. The object has the version that was read.
    Replace(Value),
    /// Its configuration has another name now, under which there is one.
    Delete { uid: String, resource_version: String },
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
    let mut wanted: BTreeMap<ObjectKey, Vec<(&DynamicObject, NetworkAttachment)>> = BTreeMap::new();
    for config in configs.iter().filter(|config| config.metadata.deletion_timestamp.is_none()) {
        match rendered(config, target) {
            Ok(network) => {
                let namespace = config.namespace().unwrap_or_default();
                let key = ObjectKey { namespace, name: network.name.clone() };
                wanted.entry(key).or_default().push((config, network));
            }
            Err(problem) => drop(plan.problems.insert(ObjectKey::of(config), problem)),
        }
    }
    for (key, mut candidates) in wanted {
        let existing_one = existing.get(&key).copied();
        // The one that has the network, or else the oldest.
        let owner = existing_one.and_then(owner);
        candidates.sort_by_key(|(config, _)| {
            let is_owner = owner.is_some() && config.uid() == owner;
            (!is_owner, config.creation_timestamp(), ObjectKey::of(config))
        });
        let Some(((config, network), others)) = candidates.split_first() else { continue };
        for (other, _) in others {
            let problem = format!(
                "{CONFIG_KIND} {} has a NetworkAttachmentDefinition of that name already; change cr-name of one of them",
                ObjectKey::of(config)
            );
            plan.problems.insert(ObjectKey::of(other), problem);
        }
        match action(config, network, &key, existing_one) {
            Ok(None) => plan.changes.extend(former(config, &key, &existing)),
            Ok(Some(action)) => {
                plan.changes.push(NetworkChange { network: key, config: ObjectKey::of(config), action })
            }
            Err(problem) => drop(plan.problems.insert(ObjectKey::of(config), problem)),
        }
    }
    plan
}

/// Returns the deletions of networks that a configuration had under other names. Its current one exists. Those of deleted
/// configurations are deleted by the API server.
fn former<'a>(
    config: &'a DynamicObject,
    current: &'a ObjectKey,
    existing: &'a BTreeMap<ObjectKey, &DynamicObject>,
) -> impl Iterator<Item = NetworkChange> + use<'a> {
    let is_former = move |(key, network): &(&ObjectKey, &&DynamicObject)| {
        *key != current
            && key.namespace == current.namespace
            && owner(network).is_some()
            && owner(network) == config.uid()
    };
    existing.iter().filter(is_former).map(|(key, network)| NetworkChange {
        network: key.clone(),
        config: ObjectKey::of(config),
        action: NetworkAction::Delete {
            uid: network.uid().unwrap_or_default(),
            resource_version: network.resource_version().unwrap_or_default(),
        },
    })
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

fn action(
    config: &DynamicObject,
    network: &NetworkAttachment,
    key: &ObjectKey,
    existing: Option<&DynamicObject>,
) -> Result<Option<NetworkAction>, String> {
    let Some(existing) = existing else { return Ok(Some(NetworkAction::Create(new(config, network, key)))) };
    if owner(existing) != config.uid() {
        return Err(format!(
            "NetworkAttachmentDefinition {key} exists and does not belong to it; delete it, or set another name with the annotation \
             multus.spidernet.io/cr-name"
        ));
    }
    let annotations = existing.annotations();
    let has = |(name, value): (&String, &String)| annotations.get(name) == Some(value);
    let is_current =
        network.annotations.iter().all(has) && is_same(&existing.data, network.config.as_deref());
    if is_current || existing.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    // What others have added to the object stays.
    let mut changed = serde_json::to_value(existing).map_err(|error| error.to_string())?;
    for (name, value) in &network.annotations {
        changed["metadata"]["annotations"][name] = json!(value);
    }
    changed["spec"] = network.object()["spec"].clone();
    Ok(Some(NetworkAction::Replace(changed)))
}

fn new(config: &DynamicObject, network: &NetworkAttachment, key: &ObjectKey) -> Value {
    let mut object = network.object();
    object["metadata"]["namespace"] = json!(key.namespace);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": CONFIG_KIND, "name": config.name_any(), "uid": config.uid(),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    object
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
        let [NetworkChange { action: NetworkAction::Create(object), .. }] = &plan.changes[..] else {
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
        // Spiderpool writes the configuration in one line, and others add annotations.
        let mut compact = network.clone();
        let value: Value = serde_json::from_str(network.data["spec"]["config"].as_str().unwrap()).unwrap();
        compact.data["spec"]["config"] = json!(value.to_string());
        compact.annotations_mut().insert("other".to_owned(), "x".to_owned());
        compact.finalizers_mut().push("example.com/other".to_owned());
        assert_eq!(plan_of(&[&before], &[&compact]).changes, []);
        let after = config("rail0", json!({"a": "b"}), 9000);
        let plan = plan_of(&[&after], &[&compact]);
        let [NetworkChange { network: key, action: NetworkAction::Replace(object), .. }] = &plan.changes[..]
        else {
            panic!("{plan:?}")
        };
        assert_eq!(
            (key.to_string().as_str(), &object["metadata"]["resourceVersion"]),
            ("ai/rail0", &json!("7"))
        );
        assert!(object["spec"]["config"].as_str().unwrap().contains("9000"));
        assert_eq!(object["metadata"]["annotations"], json!({"a": "b", "other": "x"}));
        assert_eq!(object["metadata"]["finalizers"], json!(["example.com/other"]));
        // Another value of an annotation, as of the resource's name, is a change.
        let replaced: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(plan_of(&[&after], &[&replaced]).changes, []);
        assert_eq!(plan_of(&[&config("rail0", json!({"a": "c"}), 9000)], &[&replaced]).changes.len(), 1);
        compact.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(plan_of(&[&after], &[&compact]).changes, []);
    }

    #[test]
    fn a_network_that_belongs_to_nobody_or_to_another_is_not_touched() {
        let one = config("one", Value::Null, 1500);
        let two = config("a-two", json!({"multus.spidernet.io/cr-name": "one"}), 1500);
        let mut plan = plan_of(&[&two, &one], &[]);
        assert_eq!((plan.changes.len(), plan.changes[0].config.name.as_str()), (1, "a-two"));
        // The one that has it keeps it, whatever the order.
        let network = created(&plan_of(&[&one], &[]));
        for configs in [[&one, &two], [&two, &one]] {
            plan = plan_of(&configs, &[&network]);
            assert_eq!(plan.changes, []);
            let (key, problem) = plan.problems.iter().next().unwrap();
            assert_eq!(key.name, "a-two");
            assert!(problem.contains("ai/one has a NetworkAttachmentDefinition of that name"), "{problem}");
        }
        let mut foreign = network;
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
    fn the_oldest_of_several_configurations_has_the_network() {
        let named = |name: &str, namespace: &str, year: u32| {
            let mut config = config(name, json!({"multus.spidernet.io/cr-name": "rail"}), 1500);
            config.metadata.namespace = Some(namespace.to_owned());
            config.metadata.creation_timestamp =
                serde_json::from_value(json!(format!("{year}-01-01T00:00:00Z"))).unwrap();
            config
        };
        let (newest, oldest, newer) =
            (named("a", "ai", 2026), named("b", "ai", 2024), named("c", "ai", 2025));
        // A network of the same name in another namespace is another one.
        let elsewhere = named("d", "other", 2027);
        let mut invalid = named("0", "ai", 2020);
        invalid.data["spec"]["cniType"] = json!("bridge");
        let plan = plan_of(&[&invalid, &newest, &oldest, &newer, &elsewhere], &[]);
        let changed: Vec<_> =
            plan.changes.iter().map(|change| (change.network.to_string(), &change.config.name[..])).collect();
        assert_eq!(changed, [("ai/rail".to_owned(), "b"), ("other/rail".to_owned(), "d")]);
        let problems: Vec<_> = plan.problems.keys().map(ToString::to_string).collect();
        assert_eq!(problems, ["ai/0", "ai/a", "ai/c"]);
        // The one that has the network keeps it although another is older, and owners of other kinds do not matter.
        let mut network = created(&plan_of(&[&newest], &[]));
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "b", "uid": "uid-b", "controller": true});
        let former = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": CONFIG_KIND, "name": "b", "uid": "uid-b"});
        for (index, owner) in [deployment, former].into_iter().enumerate() {
            network.owner_references_mut().insert(index, serde_json::from_value(owner).unwrap());
        }
        let plan = plan_of(&[&newest, &oldest], &[&network]);
        assert_eq!((plan.changes.len(), plan.problems.keys().next().unwrap().name.as_str()), (0, "b"));
    }

    #[test]
    fn all_former_networks_of_a_configuration_are_deleted() {
        let current = config("rail0", Value::Null, 1500);
        let network = created(&plan_of(&[&current], &[]));
        let renamed = |name: &str, namespace: &str| {
            let mut former = network.clone();
            former.metadata.name = Some(name.to_owned());
            former.metadata.namespace = Some(namespace.to_owned());
            former
        };
        let formers = [renamed("a", "ai"), renamed("z", "ai"), renamed("b", "other")];
        let plan = plan_of(&[&current], &[&network, &formers[0], &formers[1], &formers[2]]);
        let deleted: Vec<_> = plan.changes.iter().map(|change| change.network.to_string()).collect();
        assert_eq!(deleted, ["ai/a", "ai/z"]);
        let version = |change: &NetworkChange| match &change.action {
            NetworkAction::Delete { resource_version, .. } => resource_version.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(version(&plan.changes[1]), "7");
    }

    #[test]
    fn a_network_whose_configuration_is_cleared_is_changed() {
        let mut cleared = config("rail0", Value::Null, 1500);
        let network = created(&plan_of(&[&cleared], &[]));
        cleared.data["spec"] = json!({"cniType": "custom"});
        let changed = plan_of(&[&cleared], &[&network]);
        let [NetworkChange { action: NetworkAction::Replace(object), .. }] = &changed.changes[..] else {
            panic!("{changed:?}")
        };
        assert_eq!(object["spec"], json!({}));
        let annotated = config("rail0", json!({"a": "b"}), 1500);
        assert_eq!(plan_of(&[&annotated], &[&network]).changes.len(), 1, "its annotations are not current");
    }

    #[test]
    fn a_network_whose_configuration_has_another_name_is_deleted_when_there_is_another() {
        let network = created(&plan_of(&[&config("rail0", Value::Null, 1500)], &[]));
        let renamed = config("rail0", json!({"multus.spidernet.io/cr-name": "other"}), 1500);
        let plan = plan_of(&[&renamed], &[&network]);
        let [NetworkChange { network: key, action: NetworkAction::Create(_), .. }] = &plan.changes[..] else {
            panic!("{plan:?}")
        };
        assert_eq!(key.name, "other");
        let new = created(&plan);
        let plan = plan_of(&[&renamed], &[&network, &new]);
        let [NetworkChange { network: key, action: NetworkAction::Delete { uid, .. }, .. }] =
            &plan.changes[..]
        else {
            panic!("{plan:?}")
        };
        assert_eq!((key.name.as_str(), uid.as_str()), ("rail0", "n"));
        // The new name is taken.
        let mut foreign = new.clone();
        foreign.metadata.owner_references = None;
        assert_eq!(plan_of(&[&renamed], &[&network, &foreign]).changes, []);
        // The API server deletes the network of a configuration that is gone, or about to be.
        assert_eq!(plan_of(&[], &[&network]).changes, []);
        let mut ending = renamed.clone();
        ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(plan_of(&[&ending], &[&network, &new]).changes, []);
        // While a configuration is invalid, its network stays.
        let mut invalid = renamed;
        invalid.data["spec"]["macvlan"]["master"] = json!(5);
        let plan = plan_of(&[&invalid], &[&network]);
        assert_eq!((plan.changes.len(), plan.problems.len()), (0, 1), "{plan:?}");
    }
}
