//! The REST resources of kinds, by discovery.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
};

use crate::api_error::ApiError;

/// Maximum number of cached group versions. Groups that do not exist are not cached.
const MAX_API_GROUPS: usize = 64;

/// The REST resource of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestMapping {
    pub(crate) resource: ApiResource,
    pub(crate) is_namespaced: bool,
}

/// A cache of the kinds in each group version.
#[derive(Debug, Default)]
pub(crate) struct RestMapper {
    groups: Mutex<HashMap<String, Arc<HashMap<String, RestMapping>>>>,
}

impl RestMapper {
    /// Returns the resource of a kind in a group version, like `apps/v1`. If the cached group lacks the kind, the group is
    /// requested again, because a CustomResourceDefinition may have been created since.
    pub(crate) async fn find(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<RestMapping, ApiError> {
        if let Some(found) = self.known(api_version).and_then(|group| group.get(kind).cloned()) {
            return Ok(found);
        }
        let group = Arc::new(fetch_resources(client, api_version).await?);
        self.cache(api_version, group.clone());
        group.get(kind).cloned().ok_or(ApiError::UnknownKind)
    }

    fn known(&self, api_version: &str) -> Option<Arc<HashMap<String, RestMapping>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).get(api_version).cloned()
    }

    fn cache(&self, api_version: &str, group: Arc<HashMap<String, RestMapping>>) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.len() >= MAX_API_GROUPS {
            groups.clear();
        }
        groups.insert(api_version.to_owned(), group);
    }
}

async fn fetch_resources(
    client: &Client,
    api_version: &str,
) -> Result<HashMap<String, RestMapping>, ApiError> {
    let list = match api_version.split_once('/') {
        Some(_) => client.list_api_group_resources(api_version).await,
        None => client.list_core_api_resources(api_version).await,
    };
    let list = list.map_err(|error| match error.into() {
        ApiError::Gone => ApiError::UnknownKind,
        other => other,
    })?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // Subresources like `pods/status` may have other kinds.
    let whole = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
    let kinds = whole.map(|resource| {
        let kind = GroupVersionKind::gvk(group, version, &resource.kind);
        let found = RestMapping {
            resource: ApiResource::from_gvk_with_plural(&kind, &resource.name),
            is_namespaced: resource.namespaced,
        };
        (resource.kind, found)
    });
    Ok(kinds.collect())
}
