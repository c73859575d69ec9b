//! The reservations of pods: which there are, and how one is made.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use kubeapi::{RequestError, within};

use crate::{
    ip_reservation::{self, IpReservationObject, ReservedAddress, StableName},
    pool_directory::PoolFiles,
    socket::{AgentAnswer, ReserveRequest},
};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The reservations by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct PodReservations(BTreeMap<(String, String), Arc<IpReservationObject>>);

/// The reservations of a pod.
#[derive(Debug, Default)]
pub(crate) struct ReservedForPod {
    /// The addresses that it can have, by interface.
    pub(crate) addresses: BTreeMap<String, Vec<ipam::ReservedAddress>>,
    /// The interfaces whose reservations are not deleted with what the pod belongs to now.
    pub(crate) outdated: Vec<String>,
}

impl PodReservations {
    pub(crate) fn of_objects(objects: Vec<Arc<IpReservationObject>>) -> Self {
        let key = |object: &IpReservationObject| (object.namespace().unwrap_or_default(), object.name_any());
        Self(objects.into_iter().map(|object| (key(&object), object)).collect())
    }

    /// Returns those of a pod. Its pools must still have the addresses.
    pub(crate) fn of(&self, stable: &StableName, pools: &PoolFiles) -> ReservedForPod {
        let prefix = format!("{}.", stable.name);
        let from = (stable.namespace.clone(), prefix.clone());
        let own = self.0.range(from..).map_while(|((namespace, name), object)| {
            let interface = name.strip_prefix(&prefix).filter(|_| *namespace == stable.namespace)?;
            Some((interface.to_owned(), object))
        });
        let mut found = ReservedForPod::default();
        for (interface, object) in own {
            if !stable.is_owner_of(object) {
                found.outdated.push(interface.clone());
            }
            found.addresses.insert(interface, usable(&object.spec.addresses, pools));
        }
        found
    }

    /// Returns all reserved addresses.
    pub(crate) fn addresses(&self) -> BTreeSet<IpAddr> {
        let lists = self.0.values().flat_map(|object| &object.spec.addresses);
        lists.filter_map(ReservedAddress::address).collect()
    }
}

/// Returns the addresses that their pools have, apart from reservations for pods.
fn usable(reserved: &[ReservedAddress], pools: &PoolFiles) -> Vec<ipam::ReservedAddress> {
    let plain = |reserved: &ReservedAddress| {
        let address = reserved.address()?;
        let pool = pools.get(&reserved.pool)?;
        let can_have = pool.is_in_use() && pool.before_reservations.contains(address);
        can_have.then(|| ipam::ReservedAddress { pool: reserved.pool.clone(), address })
    };
    reserved.iter().filter_map(plain).collect()
}

/// Reserves addresses for an interface of a pod, and returns the answer for the plugin.
pub(crate) async fn reserve(
    client: Client,
    stable: StableName,
    request: ReserveRequest,
    pools: Arc<PoolFiles>,
) -> AgentAnswer {
    let Some(name) = stable.reservation(&request.interface) else {
        let (StableName { namespace, name, .. }, interface) = (&stable, &request.interface);
        let problem = "no IPReservation can be named after it; the address will change";
        tracing::warn!("pod {namespace}/{name}: interface {interface:?}: {problem}");
        return AgentAnswer::default();
    };
    let api =
        Api::<IpReservationObject>::namespaced_with(client, &stable.namespace, &ip_reservation::resource());
    let reservation = Reservation { api: &api, name: &name, stable: &stable, pools: &pools };
    let addresses: Vec<_> = request.reserve.iter().map(|one| one.address.clone()).collect();
    match reservation.make(&request).await {
        Ok(()) => {
            tracing::info!("IPReservation {}/{name}: {}", stable.namespace, addresses.join(", "));
            AgentAnswer::default()
        }
        Err(problem) => {
            AgentAnswer::unavailable(format!("IPReservation {}/{name}: {problem}", stable.namespace))
        }
    }
}

/// The object for an interface.
struct Reservation<'a> {
    api: &'a Api<IpReservationObject>,
    name: &'a str,
    stable: &'a StableName,
    pools: &'a PoolFiles,
}

impl Reservation<'_> {
    /// Creates, changes or, without addresses, deletes the object. One that the plugin did not know is not changed.
    async fn make(&self, request: &ReserveRequest) -> Result<(), String> {
        let mut object = self.stable.object(self.name, request.reserve.clone());
        if !request.reserve.is_empty() {
            match within(REQUEST_TIMEOUT, self.api.create(&PostParams::default(), &object)).await {
                Err(RequestError::Failed(kube::Error::Api(status))) if status.reason == "AlreadyExists" => {}
                created => return created.map(drop).map_err(|error| error.to_string()),
            }
        }
        let existing =
            within(REQUEST_TIMEOUT, self.api.get_opt(self.name)).await.map_err(|error| error.to_string())?;
        let Some(existing) = existing else {
            return if request.reserve.is_empty() { Ok(()) } else { Err("it was just deleted".to_owned()) };
        };
        let is_same = existing.spec == object.spec;
        if is_same && self.stable.is_owner_of(&existing) {
            return Ok(());
        }
        let is_known = usable(&existing.spec.addresses, self.pools) == usable(&request.before, self.pools);
        if !is_same && !is_known {
            return Err("it has another address, of which this node was not informed yet".to_owned());
        }
        let (uid, resource_version) = (existing.uid(), existing.resource_version());
        let changed = if request.reserve.is_empty() {
            let params = DeleteParams {
                preconditions: Some(Preconditions { uid, resource_version }),
                ..DeleteParams::default()
            };
            within(REQUEST_TIMEOUT, self.api.delete(self.name, &params)).await.map(drop)
        } else {
            object.metadata.resource_version = resource_version;
            within(REQUEST_TIMEOUT, self.api.replace(self.name, &PostParams::default(), &object))
                .await
                .map(drop)
        };
        changed.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::PartialObjectMeta;
    use serde_json::{Value, json};

    use super::*;
    use crate::node_object::NodeLabels;

    fn stable(name: &str, owner: &str) -> StableName {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": owner, "controller": true});
        let metadata = json!({"namespace": "ai", "name": name, "ownerReferences": [owner]});
        let pod: PartialObjectMeta<Pod> =
            serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).unwrap();
        StableName::of(&pod).unwrap()
    }

    fn object(pod: &str, interface: &str, address: &str) -> Arc<IpReservationObject> {
        let reserved = ReservedAddress { pool: "p".to_owned(), address: address.to_owned() };
        let stable = stable(pod, "u");
        Arc::new(stable.object(&stable.reservation(interface).unwrap(), vec![reserved]))
    }

    fn pools() -> PoolFiles {
        let spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.4"], "excludeIPs": ["10.0.0.2"]});
        let object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "p"}, "spec": spec});
        let object = serde_json::from_value(object).unwrap();
        PoolFiles::of([&object], [], &BTreeSet::new(), "n", &NodeLabels::new())
    }

    #[test]
    fn the_reservations_of_a_pod_are_found_by_its_name() {
        let mut other = object("web-0", "net1", "10.0.0.4").as_ref().clone();
        other.metadata.namespace = Some("zz".to_owned());
        let all = PodReservations::of_objects(vec![
            object("web-0", "net1", "10.0.0.1"),
            object("web-0", "net2", "10.0.0.2"),
            object("web-01", "net1", "10.0.0.3"),
            object("vm-0", "net1", "10.0.0.99"),
            object("vm-1", "net1", "10.0.0.1/24"),
            Arc::new(other),
        ]);
        let of = |name: &str, owner: &str| {
            let found = all.of(&stable(name, owner), &pools());
            let texts = found.addresses.into_iter().map(|(interface, list)| {
                format!(
                    "{interface} {:?}",
                    list.iter().map(|one| one.address.to_string()).collect::<Vec<_>>()
                )
            });
            (texts.collect::<Vec<_>>(), found.outdated)
        };
        // An address that the pool does not have any more is not used.
        assert_eq!(of("web-0", "u").0, ["net1 [\"10.0.0.1\"]", "net2 []"]);
        assert_eq!(of("web-01", "u").0, ["net1 [\"10.0.0.3\"]"]);
        assert_eq!(
            (of("vm-0", "u").0, of("vm-1", "u").0),
            (vec!["net1 []".to_owned()], vec!["net1 []".to_owned()])
        );
        assert!(of("web", "u").0.is_empty() && of("web-1", "u").0.is_empty());
        assert_eq!((of("web-01", "u").1.len(), of("web-01", "v").1), (0, vec!["net1".to_owned()]));
        assert_eq!(all.addresses().len(), 5);
        let mut both = object("db-0", "net1", "10.0.0.4").as_ref().clone();
        both.spec.addresses.push(ReservedAddress { pool: "q".to_owned(), address: "10.0.0.1".to_owned() });
        both.spec.addresses.push(ReservedAddress { pool: "p".to_owned(), address: "10.0.0.3".to_owned() });
        let both = PodReservations::of_objects(vec![Arc::new(both), object("db-0", "net2", "10.0.0.1")]);
        let found = both.of(&stable("db-0", "v"), &pools());
        let of =
            |name: &str| found.addresses[name].iter().map(|one| one.address.to_string()).collect::<Vec<_>>();
        assert_eq!(
            (of("net1"), of("net2")),
            (vec!["10.0.0.4".to_owned(), "10.0.0.3".to_owned()], vec!["10.0.0.1".to_owned()])
        );
        assert_eq!(found.outdated, ["net1", "net2"]);
        assert_eq!(both.addresses().len(), 3);
        for out_of_use in [json!({"disable": true}), Value::Null] {
            let spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.4"], "disable": out_of_use["disable"]});
            let metadata = json!({"name": "p", "deletionTimestamp": out_of_use.is_null().then_some("2026-01-01T00:00:00Z")});
            let pool = json!({"apiVersion": "a/v1", "kind": "K", "metadata": metadata, "spec": spec});
            let pools = PoolFiles::of(
                [&serde_json::from_value(pool).unwrap()],
                [],
                &BTreeSet::new(),
                "n",
                &NodeLabels::new(),
            );
            assert!(both.of(&stable("db-0", "u"), &pools).addresses["net1"].is_empty(), "{out_of_use}");
        }
    }
}
