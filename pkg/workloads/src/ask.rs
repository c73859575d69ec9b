//! One step up: whose is the owner itself?

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DynamicObject, GetParams},
};
use kubeapi::quietly;
use tokio::time::timeout;

use crate::{
    failure::Failure,
    kinds::{Kind, Kinds},
    reference::{Claim, Reference},
};

/// What is known of an owner.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Whether its kind lives in namespaces, if the kind could be found.
    pub(crate) is_namespaced: Option<bool>,
    /// What it says of its own owner.
    pub(crate) above: Result<Option<Reference>, Failure>,
}

/// Asks for an owner.
pub(crate) async fn ask(client: &Client, kinds: &Kinds, claim: &Claim, within: Duration) -> Answer {
    let mut is_namespaced = None;
    let way = async {
        let kind = kinds.find(client, &claim.reference.api_version, &claim.reference.kind).await?;
        is_namespaced = Some(kind.is_namespaced);
        above(client, &kind, claim).await
    };
    let above = timeout(within, quietly(way)).await.unwrap_or(Err(Failure::Silent(within)));
    Answer { is_namespaced, above }
}

async fn above(client: &Client, kind: &Kind, claim: &Claim) -> Result<Option<Reference>, Failure> {
    let api: Api<DynamicObject> = match (kind.is_namespaced, claim.namespace.as_str()) {
        (true, "") => return Err(Failure::Gone), // what is in no namespace cannot be owned by what is in one
        (true, namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        (false, _) => Api::all_with(client.clone(), &kind.resource),
    };
    // Any version will do: the API server answers from memory. Another object of that name has another UID.
    let object = api.get_metadata_with(&claim.reference.name, &GetParams::any()).await?;
    if object.metadata.uid.as_deref() != Some(&claim.reference.uid) {
        return Err(Failure::Gone);
    }
    Ok(Reference::of(&object.metadata))
}
