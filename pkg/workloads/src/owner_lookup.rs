//! One step up: whose is the owner itself?

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

/// What is known of an owner.
#[derive(Debug)]
pub(crate) struct OwnerLookup {
    /// Whether its kind lives in namespaces, if the kind could be found.
    pub(crate) is_namespaced: Option<bool>,
    /// What it says of its own owner.
    pub(crate) above: Result<Option<OwnerRef>, ApiError>,
}

/// Asks for an owner.
pub(crate) async fn fetch_owner(
    client: &Client,
    kinds: &RestMapper,
    claim: &NamespacedOwnerRef,
    within: Duration,
) -> OwnerLookup {
    let mut is_namespaced = None;
    let way = async {
        let kind = kinds.find(client, &claim.reference.api_version, &claim.reference.kind).await?;
        is_namespaced = Some(kind.is_namespaced);
        owner_of(client, &kind, claim).await
    };
    let above = timeout(within, quietly(way)).await.unwrap_or(Err(ApiError::Silent(within)));
    OwnerLookup { is_namespaced, above }
}

async fn owner_of(
    client: &Client,
    kind: &RestMapping,
    claim: &NamespacedOwnerRef,
) -> Result<Option<OwnerRef>, ApiError> {
    let api: Api<DynamicObject> = match (kind.is_namespaced, claim.namespace.as_str()) {
        (true, "") => return Err(ApiError::Gone), // what is in no namespace cannot be owned by what is in one
        (true, namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        (false, _) => Api::all_with(client.clone(), &kind.resource),
    };
    // Any version will do: the API server answers from memory. Another object of that name has another UID.
    let object = api.get_metadata_with(&claim.reference.name, &GetParams::any()).await?;
    if object.metadata.uid.as_deref() != Some(&claim.reference.uid) {
        return Err(ApiError::Gone);
    }
    Ok(OwnerRef::of(&object.metadata))
}
