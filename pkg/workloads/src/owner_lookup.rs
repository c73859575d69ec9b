//! One step of the owner chain: the owner of an owner.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DynamicObject, GetParams},
};
use kubeapi::quietly;
use tokio::time::timeout;

use crate::{
    api_error::ApiError,
    owner_ref::{NamespacedOwnerRef, OwnerRef},
    rest_mapper::{RestMapper, RestMapping},
};

/// The result of getting an owner from the API server.
#[derive(Debug)]
pub(crate) struct OwnerLookup {
    /// Whether its kind is namespaced; `None` if the kind was not found.
    pub(crate) is_namespaced: Option<bool>,
    /// Its own owner reference.
    pub(crate) above: Result<Option<OwnerRef>, ApiError>,
}

/// Gets an owner from the API server.
pub(crate) async fn fetch_owner(
    client: &Client,
    kinds: &RestMapper,
    owner: &NamespacedOwnerRef,
    within: Duration,
) -> OwnerLookup {
    let mut is_namespaced = None;
    let lookup = async {
        let kind = kinds.find(client, &owner.reference.api_version, &owner.reference.kind).await?;
        is_namespaced = Some(kind.is_namespaced);
        owner_of(client, &kind, owner).await
    };
    let above = timeout(within, quietly(lookup)).await.unwrap_or(Err(ApiError::Timeout(within)));
    OwnerLookup { is_namespaced, above }
}

async fn owner_of(
    client: &Client,
    kind: &RestMapping,
    owner: &NamespacedOwnerRef,
) -> Result<Option<OwnerRef>, ApiError> {
    let api: Api<DynamicObject> = match (kind.is_namespaced, owner.namespace.as_str()) {
        (true, "") => return Err(ApiError::Gone), // the owner of a cluster-scoped object is cluster-scoped
        (true, namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        (false, _) => Api::all_with(client.clone(), &kind.resource),
    };
    // resourceVersion=0: from the watch cache. Another object with the same name has another UID.
    let object = api.get_metadata_with(&owner.reference.name, &GetParams::any()).await?;
    if object.metadata.uid.as_deref() != Some(&owner.reference.uid) {
        return Err(ApiError::Gone);
    }
    Ok(OwnerRef::of(&object.metadata))
}
