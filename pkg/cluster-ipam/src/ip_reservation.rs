//! The `IPReservation` object of the Kubernetes API: the addresses that a pod gets again when it is created again.
//!
//! It only keeps other pods from getting the addresses. Whether a node may assign them depends on their blocks, as for any address.

use std::net::IpAddr;

use ipam::IpRange;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    ResourceExt,
    api::ObjectMeta,
    core::{ApiResource, GroupVersionKind, Object, PartialObjectMeta},
};
use serde::{Deserialize, Serialize};

/// An `IPReservation` object. Its name is `<pod>.<interface>`, its namespace that of the pod.
pub(crate) type IpReservationObject = Object<IpReservationSpec, NoStatus>;

/// The addresses of an interface of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IpReservationSpec {
    /// The addresses, at most one of each family.
    pub(crate) addresses: Vec<ReservedAddress>,
}

/// An address and its pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReservedAddress {
    pub(crate) pool: String,
    /// The address, as text: one object with another text must not prevent that all are read.
    pub(crate) address: String,
}

impl ReservedAddress {
    /// Returns the address; `None` if it is none that a pool can have.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        let address: IpAddr = self.address.parse().ok()?;
        let is_usable = self.address.parse() == Ok(IpRange::from(address));
        is_usable.then_some(address)
    }
}

/// The objects have none.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct NoStatus {}

/// The name under which a pod is created again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StableName {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The object with which the reservations of the pod are deleted.
    owner: Option<OwnerReference>,
}

impl StableName {
    /// Returns that of a pod of a StatefulSet, and of a pod with a virtual machine of KubeVirt; `None` for other pods. A pod to which
    /// a virtual machine migrates has none: the address is still in use by the pod from which it does.
    pub(crate) fn of(pod: &PartialObjectMeta<Pod>) -> Option<Self> {
        let mut owners = pod.owner_references().iter().filter(|owner| owner.controller == Some(true));
        let owner = owners.next()?;
        let namespace = pod.namespace().unwrap_or_default();
        match (owner.api_version.split('/').next()?, owner.kind.as_str()) {
            ("apps", "StatefulSet") => {
                let mut owner = owner.clone();
                // This object does not belong to its controller, and its deletion does not wait for this one.
                (owner.controller, owner.block_owner_deletion) = (None, None);
                Some(Self { namespace, name: pod.name_any(), owner: Some(owner) })
            }
            ("kubevirt.io", "VirtualMachineInstance") if !pod.labels().contains_key(MIGRATION) => {
                Some(Self { namespace, name: owner.name.clone(), owner: None })
            }
            _ => None,
        }
    }

    /// Whether an object is deleted with what this pod belongs to.
    pub(crate) fn is_owner_of(&self, object: &IpReservationObject) -> bool {
        let uids =
            |owners: &[OwnerReference]| owners.iter().map(|owner| owner.uid.clone()).collect::<Vec<_>>();
        uids(object.owner_references()) == uids(self.owner.as_slice())
    }

    /// Returns the name of the object for an interface; `None` if an object cannot have it.
    pub(crate) fn reservation(&self, interface: &str) -> Option<String> {
        let is_label = |text: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            !text.is_empty() && text.bytes().all(is_allowed) && !text.starts_with('-') && !text.ends_with('-')
        };
        let name = format!("{}.{interface}", self.name);
        (name.len() <= 253 && interface.split('.').all(is_label)).then_some(name)
    }

    /// Returns the object for an interface.
    pub(crate) fn object(&self, name: &str, addresses: Vec<ReservedAddress>) -> IpReservationObject {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            owner_references: self.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        Object { metadata, ..Object::new(name, &resource(), IpReservationSpec { addresses }) }
    }
}

/// The label of the pod to which a virtual machine migrates.
const MIGRATION: &str = "kubevirt.io/migrationJobUID";

/// Returns the resource of the objects.
pub(crate) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("ipam.silkrail.io", "v1alpha1", "IPReservation");
    ApiResource::from_gvk_with_plural(&kind, "ipreservations")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(owner: Value, labels: Value) -> PartialObjectMeta<Pod> {
        let metadata =
            json!({"namespace": "ai", "name": "web-0", "ownerReferences": [owner], "labels": labels});
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).unwrap()
    }

    fn owner(version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": true, "blockOwnerDeletion": true})
    }

    #[test]
    fn pods_of_stateful_sets_and_virtual_machines_have_stable_names() {
        let of = |version: &str, kind: &str, labels: Value| {
            StableName::of(&pod(owner(version, kind, "web"), labels))
        };
        let web = of("apps/v1", "StatefulSet", Value::Null).unwrap();
        let name = web.reservation("net1").unwrap();
        assert_eq!((web.name.as_str(), name.as_str()), ("web-0", "web-0.net1"));
        let object = web.object(&name, Vec::new());
        let owner = &object.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (owner.name.as_str(), owner.controller, object.metadata.namespace.as_deref()),
            ("web", None, Some("ai"))
        );
        assert_eq!(of("kubevirt.io/v1", "VirtualMachineInstance", Value::Null).unwrap().name, "web");
        let migration = json!({MIGRATION: "m"});
        for (version, kind, labels) in [
            ("kubevirt.io/v1", "VirtualMachineInstance", migration),
            ("apps/v1", "ReplicaSet", Value::Null),
            ("example.com/v1", "StatefulSet", Value::Null),
        ] {
            assert_eq!(of(version, kind, labels), None, "{kind}");
        }
    }

    #[test]
    fn the_controller_of_a_pod_is_its_owner_and_decides_whether_a_reservation_stays() {
        let mut other = owner("apps/v1", "StatefulSet", "other");
        other["controller"] = json!(false);
        other["uid"] = json!("v");
        let metadata = json!({"namespace": "ai", "name": "web-0", "ownerReferences": [other, owner("apps/v1", "StatefulSet", "web")]});
        let of = |metadata: Value| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
            StableName::of(&serde_json::from_value::<PartialObjectMeta<Pod>>(pod).unwrap())
        };
        let web = of(metadata).unwrap();
        let object = web.object("web-0.net1", Vec::new());
        assert_eq!(object.metadata.owner_references.as_ref().unwrap()[0].name, "web");
        assert_eq!(of(json!({"namespace": "ai", "name": "web-0", "ownerReferences": [other]})), None);
        assert_eq!(of(json!({"namespace": "ai", "name": "web-0"})), None);
        let machine = StableName { owner: None, ..web.clone() };
        assert!(web.is_owner_of(&object) && !machine.is_owner_of(&object));
        assert!(machine.is_owner_of(&machine.object("web-0.net1", Vec::new())));
        let mut later = object;
        later.metadata.owner_references.as_mut().unwrap()[0].uid = "later".to_owned();
        assert!(!web.is_owner_of(&later), "it was created again");
    }

    #[test]
    fn an_address_that_no_pool_can_have_is_ignored() {
        let of = |text: &str| ReservedAddress { pool: "p".to_owned(), address: text.to_owned() }.address();
        assert_eq!(of("10.0.0.5"), Some([10, 0, 0, 5].into()));
        assert!(of("fd00::5").is_some());
        for wrong in ["10.0.0.5/24", "10.0.0.5-10.0.0.6", "::ffff:10.0.0.5", "10.0.0.05", "a", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_interface_that_no_object_can_be_named_after_has_no_reservation() {
        let web = StableName { namespace: "ai".to_owned(), name: "web-0".to_owned(), owner: None };
        for (interface, is_named) in [
            ("net1", true),
            ("rail0.100", true),
            ("Net1", false),
            ("a_b", false),
            ("", false),
            ("a..b", false),
            ("-a", false),
            ("a-", false),
            ("a-b", true),
        ] {
            assert_eq!(web.reservation(interface).is_some(), is_named, "{interface}");
        }
        for (length, is_named) in [(248, true), (249, false)] {
            let long = StableName { name: "a".repeat(length), ..web.clone() };
            assert_eq!(long.reservation("net1").is_some(), is_named, "{length}");
        }
    }
}
