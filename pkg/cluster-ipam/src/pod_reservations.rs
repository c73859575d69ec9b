//! The reservations of pods: which there are, and how one is made.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use kube::{Api, Client, ResourceExt, api::PostParams};
use kubeapi::{quietly, with_causes};
use tokio::time::timeout;

use crate::{
    ip_reservation::{self, IpReservationObject, ReservedAddress, StableName},
    socket::{AgentAnswer, ReserveRequest},
};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The reservations by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct PodReservations(BTreeMap<(String, String), Vec<ReservedAddress>>);

impl PodReservations {
    pub(crate) fn of_objects(objects: &[Arc<IpReservationObject>]) -> Self {
        let entry = |object: &Arc<IpReservationObject>| {
            ((object.namespace().unwrap_or_default(), object.name_any()), object.spec.addresses.clone())
        };
        Self(objects.iter().map(entry).collect())
    }

    /// Returns the addresses of a pod by interface.
    pub(crate) fn of(&self, stable: &StableName) -> BTreeMap<String, Vec<ipam::ReservedAddress>> {
        let prefix = format!("{}.", stable.name);
        let from = (stable.namespace.clone(), prefix.clone());
        let own = self.0.range(from..).map_while(|((namespace, name), addresses)| {
            let interface = name.strip_prefix(&prefix).filter(|_| *namespace == stable.namespace)?;
            Some((interface.to_owned(), addresses.iter().map(plain).collect()))
        });
        own.collect()
    }

    /// Returns all reserved addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.0.values().flatten().map(|reserved| reserved.address)
    }
}

fn plain(reserved: &ReservedAddress) -> ipam::ReservedAddress {
    ipam::ReservedAddress { pool: reserved.pool.clone(), address: reserved.address }
}

/// Reserves addresses for an interface of a pod, and returns the answer for the plugin.
pub(crate) async fn reserve(client: Client, stable: StableName, request: ReserveRequest) -> AgentAnswer {
    let Some(name) = stable.reservation(&request.interface) else {
        let StableName { namespace, name, .. } = stable;
        tracing::warn!(
            "pod {namespace}/{name}: no IPReservation can be named after interface {:?}; its address will change",
            request.interface
        );
        return AgentAnswer::default();
    };
    let api =
        Api::<IpReservationObject>::namespaced_with(client, &stable.namespace, &ip_reservation::resource());
    let object = stable.object(&name, request.reserve.clone());
    match make(&api, &name, object, request.replaces).await {
        Ok(()) => {
            let addresses: Vec<_> = request.reserve.iter().map(|one| one.address.to_string()).collect();
            tracing::info!("IPReservation {}/{name}: {} is reserved", stable.namespace, addresses.join(", "));
            AgentAnswer::default()
        }
        Err(problem) => {
            AgentAnswer::unavailable(format!("IPReservation {}/{name}: {problem}", stable.namespace))
        }
    }
}

async fn make(
    api: &Api<IpReservationObject>,
    name: &str,
    mut object: IpReservationObject,
    replaces: bool,
) -> Result<(), String> {
    match within(api.create(&PostParams::default(), &object)).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
        created => return created.map(drop).map_err(|error| with_causes(&error)),
    }
    let existing = within(api.get(name)).await.map_err(|error| with_causes(&error))?;
    if existing.spec == object.spec {
        return Ok(());
    }
    if !replaces {
        return Err("it has another address, of which this node was not informed yet".to_owned());
    }
    object.metadata.resource_version = existing.resource_version();
    within(api.replace(name, &PostParams::default(), &object))
        .await
        .map(drop)
        .map_err(|error| with_causes(&error))
}

async fn within<T>(answer: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(REQUEST_TIMEOUT, quietly(answer)).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(format!("no response within {REQUEST_TIMEOUT:?}").into())),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::PartialObjectMeta;
    use serde_json::json;

    use super::*;

    fn stable(name: &str) -> StableName {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": true});
        let metadata = json!({"namespace": "ai", "name": name, "ownerReferences": [owner]});
        let pod: PartialObjectMeta<Pod> =
            serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).unwrap();
        StableName::of(&pod).unwrap()
    }

    #[test]
    fn the_reservations_of_a_pod_are_found_by_its_name() {
        let object = |pod: &str, interface: &str, address: &str| {
            let reserved = ReservedAddress { pool: "p".to_owned(), address: address.parse().unwrap() };
            let stable = stable(pod);
            Arc::new(stable.object(&stable.reservation(interface).unwrap(), vec![reserved]))
        };
        let mut other = object("web-0", "net1", "10.0.0.9").as_ref().clone();
        other.metadata.namespace = Some("zz".to_owned());
        let all = PodReservations::of_objects(&[
            object("web-0", "net1", "10.0.0.1"),
            object("web-0", "net2", "10.0.0.2"),
            object("web-01", "net1", "10.0.0.3"),
            object("vm-0", "net1", "10.0.0.4"),
            Arc::new(other),
        ]);
        let of = |name: &str| -> Vec<_> {
            let reserved = all.of(&stable(name));
            reserved.into_iter().map(|(interface, list)| format!("{interface} {}", list[0].address)).collect()
        };
        assert_eq!(of("web-0"), ["net1 10.0.0.1", "net2 10.0.0.2"]);
        assert_eq!(of("web-01"), ["net1 10.0.0.3"]);
        assert!(of("web").is_empty() && of("web-1").is_empty());
        assert_eq!(all.addresses().count(), 5);
    }
}
