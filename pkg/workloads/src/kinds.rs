//! Where objects of a kind are found.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
};

use crate::failure::Failure;

/// How many groups are remembered. Pods may name groups that do not exist, but those are not remembered.
const GROUPS: usize = 64;

/// Where objects of a kind are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) is_namespaced: bool,
}

/// The kinds of the groups that were asked for, each group once.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    groups: Mutex<HashMap<String, Arc<HashMap<String, Kind>>>>,
}

impl Kinds {
    /// The kind of that name in a version of a group, like `apps/v1`. A group that lacks it is asked anew: the
    /// definition may have come since.
    pub(crate) async fn find(&self, client: &Client, api_version: &str, kind: &str) -> Result<Kind, Failure> {
        if let Some(found) = self.known(api_version).and_then(|group| group.get(kind).cloned()) {
            return Ok(found);
        }
        let group = Arc::new(ask(client, api_version).await?);
        self.remember(api_version, group.clone());
        group.get(kind).cloned().ok_or(Failure::UnknownKind)
    }

    fn known(&self, api_version: &str) -> Option<Arc<HashMap<String, Kind>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).get(api_version).cloned()
    }

    fn remember(&self, api_version: &str, group: Arc<HashMap<String, Kind>>) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.len() >= GROUPS {
            groups.clear();
        }
        groups.insert(api_version.to_owned(), group);
    }
}

async fn ask(client: &Client, api_version: &str) -> Result<HashMap<String, Kind>, Failure> {
    let list = match api_version.split_once('/') {
        Some(_) => client.list_api_group_resources(api_version).await,
        None => client.list_core_api_resources(api_version).await,
    };
    let list = list.map_err(|error| match error.into() {
        Failure::Gone => Failure::UnknownKind,
        other => other,
    })?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // `pods/status` is a part of a pod, and may have a kind of its own.
    let whole = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
    let kinds = whole.map(|resource| {
        let kind = GroupVersionKind::gvk(group, version, &resource.kind);
        let found = Kind {
            resource: ApiResource::from_gvk_with_plural(&kind, &resource.name),
            is_namespaced: resource.namespaced,
        };
        (resource.kind, found)
    });
    Ok(kinds.collect())
}
