//! The gRPC service of a resource.

use std::{pin::Pin, sync::Arc};

use kubelet_api::deviceplugin::{
    AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse, DevicePluginOptions, Empty,
    ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse, device_plugin_server::DevicePlugin,
};
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt, wrappers::WatchStream};
use tonic::{Request, Response, Status};
use tracing::{info, warn};

use crate::{Resource, ResourceError, watchers::Watchers};

/// The options that the kubelet is told.
pub(crate) const OPTIONS: DevicePluginOptions =
    DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: true };

/// Answers the kubelet's calls.
pub(crate) struct ResourceService {
    resource: Arc<dyn Resource>,
    /// Becomes true when the streams must end.
    ends: watch::Receiver<bool>,
    watchers: Watchers,
}

impl ResourceService {
    pub(crate) fn new(resource: Arc<dyn Resource>, ends: watch::Receiver<bool>, watchers: Watchers) -> Self {
        Self { resource, ends, watchers }
    }

    /// Calls the resource on a thread that may block.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Resource) -> Result<T, ResourceError> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let resource = Arc::clone(&self.resource);
        let result = tokio::task::spawn_blocking(move || call(&*resource)).await;
        match result {
            Ok(Ok(answer)) => Ok(Response::new(answer)),
            Ok(Err(error)) => {
                warn!(resource = self.resource.name(), %error, "a call of the kubelet failed");
                Err(Status::failed_precondition(error.to_string()))
            }
            Err(error) => Err(Status::internal(error.to_string())),
        }
    }
}

#[tonic::async_trait]
impl DevicePlugin for ResourceService {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(OPTIONS))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let name = self.resource.name();
        info!(resource = name, "the kubelet watches the devices");
        let lists = WatchStream::new(self.resource.devices()).map(Some);
        let ends = WatchStream::new(self.ends.clone()).filter(|has_ended| *has_ended).map(|_| None);
        let lists = lists.merge(ends).map_while(|list| list);
        let watcher = self.watchers.add();
        let answers = lists.map(move |list| {
            let _is_watched = &watcher;
            Ok(ListAndWatchResponse { devices: list.iter().map(Into::into).collect() })
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let containers = request.into_inner().container_requests;
        self.call(move |resource| {
            let mut container_responses = Vec::new();
            for container in containers {
                let size = usize::try_from(container.allocation_size).unwrap_or(0);
                let (available, included) =
                    (container.available_device_i_ds, container.must_include_device_i_ds);
                let chosen = resource.preferred(&available, &included, size)?;
                let device_i_ds = chosen.unwrap_or_default();
                container_responses.push(ContainerPreferredAllocationResponse { device_i_ds });
            }
            Ok(PreferredAllocationResponse { container_responses })
        })
        .await
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let containers = request.into_inner().container_requests;
        self.call(move |resource| {
            let answers = containers.iter().map(|container| {
                let answer = resource.allocate(&container.devices_ids)?;
                info!(resource = resource.name(), devices = container.devices_ids.join(","), "allocated");
                Ok(answer)
            });
            Ok(AllocateResponse { container_responses: answers.collect::<Result<_, ResourceError>>()? })
        })
        .await
    }

    async fn pre_start_container(
        &self,
        request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        let ids = request.into_inner().devices_ids;
        self.call(move |resource| resource.check(&ids).map(|()| PreStartContainerResponse {})).await
    }
}
