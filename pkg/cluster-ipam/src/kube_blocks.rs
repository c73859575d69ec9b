//! The records of blocks, kept by the Kubernetes API.

use std::{cell::RefCell, rc::Rc, time::Duration};

use block_leases::{ApiError, BlockApi, BlockContent, BlockOwner, BlockRecord, RecordVersion};
use ipam::{IpBlock, IpRange};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::Status,
};
use kubeapi::{ObjectStore, RequestError, with_causes};
use serde_json::json;

use crate::{
    ip_block::{self, IpBlockObject, NODE_UID, PARENT},
    kill_point,
};

/// Annotation whose change gives an object another version.
const RENEWED: &str = "ipam.silkrail.io/renewed";

/// The `IPBlock` objects of the API server.
#[derive(Debug, Clone)]
pub struct KubeBlocks {
    api: Api<IpBlockObject>,
    /// The timeout of each request.
    timeout: Duration,
    /// The blocks of the node.
    owned: Rc<RefCell<Option<ObjectStore<IpBlockObject>>>>,
}

impl KubeBlocks {
    /// Returns the objects of a cluster.
    pub fn new(client: Client, timeout: Duration) -> Self {
        Self { api: Api::all_with(client, &ip_block::resource()), timeout, owned: Rc::default() }
    }

    /// Sets the store that has the blocks of the node, so that they need not be listed.
    pub(crate) fn set_owned(&self, owned: ObjectStore<IpBlockObject>) {
        self.owned.replace(Some(owned));
    }

    /// Whether the blocks of the node were listed once.
    pub(crate) fn knows_owned(&self) -> bool {
        self.owned.borrow().as_ref().is_some_and(|owned| owned.objects().is_some())
    }

    /// Returns all blocks that nodes have leased. They may be outdated.
    ///
    /// # Errors
    /// [`ApiError`].
    pub(crate) async fn leased(&self) -> Result<Vec<IpBlock>, ApiError> {
        // From the watch cache of the API server.
        let params = ListParams::default().labels(NODE_UID).match_any();
        let list = self.within(self.api.list_metadata(&params)).await?;
        let names = list.items.into_iter().filter_map(|object| object.metadata.name);
        Ok(names.filter_map(|name| name.parse().ok()).collect())
    }

    /// Reports the addresses of a block that are in use.
    ///
    /// # Errors
    /// [`ApiError`].
    pub(crate) async fn report_use(
        &self,
        block: IpBlock,
        ranges: &[IpRange],
        used: usize,
    ) -> Result<(), ApiError> {
        let addresses: Vec<_> = ranges.iter().map(ToString::to_string).collect();
        let patch = json!({"status": {"used": used, "addresses": addresses}});
        let (name, params) = (block.to_string(), PatchParams::default());
        self.within(self.api.patch_status(&name, &params, &Patch::Merge(patch))).await.map(drop)
    }

    async fn within<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> Result<T, ApiError> {
        kill_point::point();
        let answer = kubeapi::within(self.timeout, answer).await;
        kill_point::point();
        answer.map_err(|error| match error {
            RequestError::Failed(error) => api_error(error),
            RequestError::Timeout(_) => ApiError::Unknown(error.to_string()),
        })
    }

    async fn patch(&self, block: IpBlock, patch: serde_json::Value) -> Result<IpBlockObject, ApiError> {
        let name = block.to_string();
        self.within(self.api.patch(&name, &PatchParams::default(), &Patch::Merge(patch))).await
    }
}

impl BlockApi for KubeBlocks {
    async fn create(&self, block: IpBlock, content: &BlockContent) -> Result<BlockRecord, ApiError> {
        let object = ip_block::object(block, content);
        match self.within(self.api.create(&PostParams::default(), &object)).await {
            Err(ApiError::Missing) => Err(ApiError::Refused(
                "the API server does not know IPBlock; apply the CustomResourceDefinitions of conf/silkraild-ipam".to_owned(),
            )),
            created => record(created?),
        }
    }

    async fn get(&self, block: IpBlock) -> Result<Option<BlockRecord>, ApiError> {
        let name = block.to_string();
        self.within(self.api.get_opt(&name)).await?.map(record).transpose()
    }

    async fn owned(&self, node: &BlockOwner) -> Result<Vec<BlockRecord>, ApiError> {
        let objects = self.owned.borrow().as_ref().and_then(ObjectStore::objects);
        let objects = objects.ok_or_else(|| ApiError::Unknown("the watch has not begun".to_owned()))?;
        // What cannot be read is not of this node.
        let records = objects.iter().filter_map(|object| record(object.as_ref().clone()).ok());
        Ok(records.filter(|record| record.is_of(node)).collect())
    }

    async fn children(&self, parent: IpBlock) -> Result<Vec<BlockRecord>, ApiError> {
        let params = ListParams::default().labels(&format!("{PARENT}={parent}"));
        let list = self.within(self.api.list(&params)).await?;
        let records: Result<Vec<_>, _> = list.items.into_iter().map(record).collect();
        Ok(records?.into_iter().filter(|record| record.block != parent).collect())
    }

    async fn terminate(&self, block: IpBlock, version: &RecordVersion) -> Result<BlockRecord, ApiError> {
        let RecordVersion { uid, resource } = version.clone();
        let preconditions = Preconditions { uid: Some(uid), resource_version: Some(resource) };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let name = block.to_string();
        let deleted = self.within(self.api.delete(&name, &params)).await?;
        // Without a finalizer, it is gone.
        record(deleted.left().ok_or(ApiError::Missing)?)
    }

    async fn remove(&self, block: IpBlock, version: &RecordVersion) -> Result<(), ApiError> {
        let RecordVersion { uid, resource } = version;
        let metadata = json!({"uid": uid, "resourceVersion": resource, "finalizers": null});
        self.patch(block, json!({ "metadata": metadata })).await.map(drop)
    }

    async fn renew(
        &self,
        block: IpBlock,
        version: &RecordVersion,
        owner: &BlockOwner,
    ) -> Result<BlockRecord, ApiError> {
        let RecordVersion { uid, resource } = version;
        let metadata = json!({
            "uid": uid,
            "resourceVersion": resource,
            "labels": {NODE_UID: owner.uid},
            "annotations": {RENEWED: resource},
        });
        let spec = json!({"owner": {"nodeName": owner.node, "nodeUID": owner.uid}});
        record(self.patch(block, json!({"metadata": metadata, "spec": spec})).await?)
    }
}

fn record(object: IpBlockObject) -> Result<BlockRecord, ApiError> {
    ip_block::record(object).map_err(|error| ApiError::Invalid(error.to_string()))
}

fn api_error(error: kube::Error) -> ApiError {
    match &error {
        kube::Error::Api(status) => match status_error(status) {
            Some(error) => error,
            None => ApiError::Unknown(with_causes(&error)),
        },
        _ => ApiError::Unknown(with_causes(&error)),
    }
}

/// Returns the error of a response that proves that the request had no effect; `None` for other responses.
fn status_error(status: &Status) -> Option<ApiError> {
    let error = match (status.code, status.reason.as_str()) {
        (409, "AlreadyExists") => ApiError::Exists,
        (409, _) => ApiError::Changed,
        (404, _) => ApiError::Missing,
        (400..=499, _) => ApiError::Refused(format!("{} ({})", status.message, status.code)),
        _ => return None,
    };
    Some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_proves_it_means_that_nothing_was_changed() {
        let of = |code: u16, reason: &str| {
            let status =
                Status { code, reason: reason.to_owned(), message: "m".to_owned(), ..Status::default() };
            status_error(&status)
        };
        assert_eq!(of(409, "AlreadyExists"), Some(ApiError::Exists));
        assert_eq!(of(409, "Conflict"), Some(ApiError::Changed));
        assert_eq!(of(404, "NotFound"), Some(ApiError::Missing));
        for refused in [400, 403, 422, 429, 499] {
            assert_eq!(of(refused, ""), Some(ApiError::Refused(format!("m ({refused})"))));
        }
        for unknown in [500, 503, 504, 399] {
            assert_eq!(of(unknown, ""), None, "{unknown}");
        }
    }
}
