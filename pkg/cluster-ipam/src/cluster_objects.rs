//! The objects of the cluster that are watched.

use futures_util::Stream;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind, PartialObjectMeta},
    runtime::watcher::Config,
};
use kubeapi::ObjectStore;

use crate::{
    ip_block::{self, IpBlockObject, NODE_UID},
    ip_reservation::{self, IpReservationObject},
};

/// Returns the `SpiderIPPool` objects, and the stream that updates them.
pub(crate) fn pools(client: &Client) -> (ObjectStore<DynamicObject>, impl Stream<Item = ()> + use<>) {
    ObjectStore::watch(client, pool_resource(), Config::default())
}

/// Returns the resource of the pools.
pub(crate) fn pool_resource() -> ApiResource {
    spiderpool("SpiderIPPool", "spiderippools")
}

/// Returns the `SpiderReservedIP` objects, likewise.
pub(crate) fn reserved(client: &Client) -> (ObjectStore<DynamicObject>, impl Stream<Item = ()> + use<>) {
    ObjectStore::watch(client, spiderpool("SpiderReservedIP", "spiderreservedips"), Config::default())
}

/// Returns the blocks of a node, likewise.
pub(crate) fn blocks_of(
    client: &Client,
    uid: &str,
) -> (ObjectStore<IpBlockObject>, impl Stream<Item = ()> + use<>) {
    ObjectStore::watch(client, ip_block::resource(), Config::default().labels(&format!("{NODE_UID}={uid}")))
}

/// Returns all blocks, likewise.
pub(crate) fn blocks(client: &Client) -> (ObjectStore<IpBlockObject>, impl Stream<Item = ()> + use<>) {
    ObjectStore::watch(client, ip_block::resource(), Config::default())
}

/// Returns all nodes, likewise.
pub(crate) fn nodes(client: &Client) -> (ObjectStore<Node>, impl Stream<Item = ()> + use<>) {
    ObjectStore::watch(client, (), Config::default())
}

/// Returns the metadata of all namespaces, likewise.
pub(crate) fn namespaces(
    client: &Client,
) -> (ObjectStore<PartialObjectMeta<Namespace>>, impl Stream<Item = ()> + use<>) {
    ObjectStore::watch(client, (), Config::default())
}

/// Returns the reservations of all namespaces, likewise.
pub(crate) fn reservations(
    client: &Client,
) -> (ObjectStore<IpReservationObject>, impl Stream<Item = ()> + use<>) {
    ObjectStore::watch(client, ip_reservation::resource(), Config::default())
}

fn spiderpool(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("spiderpool.spidernet.io", "v2beta1", kind),
        plural,
    )
}
