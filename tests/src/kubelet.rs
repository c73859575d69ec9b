//! The kubelet's side of the device plugin, by a double that speaks its API.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use kubelet_api::deviceplugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse,
    ContainerPreferredAllocationRequest, Empty, PreStartContainerRequest, PreferredAllocationRequest,
    device_plugin_client::DevicePluginClient,
};
use kubelet_double::Kubelet;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle, Runtime};
use tonic::transport::Channel;

/// A kubelet with the device plugins of a node.
#[derive(Debug)]
pub struct KubeletDouble {
    runtime: Runtime,
    directory: TempDir,
    kubelet: Option<Kubelet>,
}

/// A resource that was registered, with the list of its devices as the kubelet knows it.
#[derive(Debug)]
pub struct KubeletResource {
    runtime: Handle,
    client: DevicePluginClient<Channel>,
    lists: Arc<Mutex<Vec<BTreeMap<String, bool>>>>,
}

impl KubeletDouble {
    /// Starts the kubelet with an empty directory.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut double = Self { runtime, directory: tempfile::tempdir().unwrap(), kubelet: None };
        double.restart();
        double
    }

    /// Starts the kubelet again; it forgets all resources and deletes their sockets.
    pub fn restart(&mut self) {
        if let Some(kubelet) = self.kubelet.take() {
            kubelet.stop();
        }
        let _in_runtime = self.runtime.enter();
        self.kubelet = Some(Kubelet::start(self.directory.path(), 0));
    }

    /// Returns the directory of device plugins.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the options with which `silkraild` offers the resources of a file to this kubelet.
    ///
    /// # Panics
    /// If a path is not valid UTF-8.
    pub fn options<'a>(&'a self, file: &'a Path) -> [&'a str; 4] {
        let [file, directory] = [file, self.directory()].map(|path| path.to_str().unwrap());
        ["--device-plugin", file, "--device-plugin.dir", directory]
    }

    /// Returns the file names in the directory, sorted.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).unwrap().map(Result::unwrap);
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Waits until a number of resources is registered, and returns them by name.
    ///
    /// # Panics
    /// If fewer are registered, or one of them twice.
    pub fn resources(&mut self, number: usize) -> BTreeMap<String, KubeletResource> {
        let kubelet = self.kubelet.as_mut().unwrap();
        let mut clients = BTreeMap::new();
        for _ in 0..number {
            let connect = async {
                let request = kubelet.registration().await;
                let client = kubelet.plugin(&request.endpoint).await;
                (request.resource_name, client)
            };
            let (name, client) = self.runtime.block_on(connect);
            assert!(clients.insert(name.clone(), client).is_none(), "{name} is registered twice");
        }
        let watch = |client| KubeletResource::watch(self.runtime.handle().clone(), client);
        clients.into_iter().map(|(name, client)| (name, watch(client))).collect()
    }

    /// Notes, as the kubelet does after each allocation, which pods have which devices of a resource.
    ///
    /// # Panics
    /// If the checkpoint cannot be written.
    pub fn checkpoint(&self, resource: &str, allocations: &[(&str, &str)]) {
        let entry = |(pod, id): &(&str, &str)| json!({"PodUID": pod, "ContainerName": "c", "ResourceName": resource, "DeviceIDs": {"-1": [id]}, "AllocResp": ""});
        let entries: Vec<_> = allocations.iter().map(entry).collect();
        let text = json!({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 0});
        let path = self.directory().join("kubelet_internal_checkpoint");
        let temporary = path.with_extension("new");
        fs::write(&temporary, text.to_string()).unwrap();
        fs::rename(temporary, path).unwrap();
    }
}

impl KubeletResource {
    fn watch(runtime: Handle, client: DevicePluginClient<Channel>) -> Self {
        let lists = Arc::new(Mutex::new(Vec::new()));
        let (mut watching, sink) = (client.clone(), Arc::clone(&lists));
        runtime.spawn(async move {
            let mut stream = watching.list_and_watch(Empty {}).await.unwrap().into_inner();
            while let Ok(Some(list)) = stream.message().await {
                let devices = list.devices.into_iter().map(|device| (device.id, device.health == "Healthy"));
                sink.lock().unwrap().push(devices.collect());
            }
        });
        Self { runtime, client, lists }
    }

    /// Returns the devices of the last list, and whether each is healthy. Empty before the first list.
    ///
    /// # Panics
    /// If the thread of the kubelet has panicked.
    pub fn devices(&self) -> BTreeMap<String, bool> {
        self.lists.lock().unwrap().last().cloned().unwrap_or_default()
    }

    /// Returns the number of lists so far.
    ///
    /// # Panics
    /// If the thread of the kubelet has panicked.
    pub fn number_of_lists(&self) -> usize {
        self.lists.lock().unwrap().len()
    }

    /// Returns the IDs of the healthy devices of the last list.
    pub fn healthy(&self) -> Vec<String> {
        self.devices().into_iter().filter_map(|(id, is_healthy)| is_healthy.then_some(id)).collect()
    }

    /// Allocates devices for a container.
    ///
    /// # Errors
    /// The text of the plugin.
    pub fn allocate(&self, ids: &[&str]) -> Result<ContainerAllocateResponse, String> {
        let container = ContainerAllocateRequest { devices_ids: owned(ids) };
        let request = AllocateRequest { container_requests: vec![container] };
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.allocate(request));
        let answer = answer.map_err(|status| status.message().to_owned())?.into_inner();
        Ok(answer.container_responses.into_iter().next().unwrap_or_default())
    }

    /// Returns which of the available devices the plugin prefers.
    ///
    /// # Errors
    /// The text of the plugin.
    pub fn preferred(&self, available: &[&str], size: i32) -> Result<Vec<String>, String> {
        let container = ContainerPreferredAllocationRequest {
            available_device_i_ds: owned(available),
            must_include_device_i_ds: Vec::new(),
            allocation_size: size,
        };
        let request = PreferredAllocationRequest { container_requests: vec![container] };
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.get_preferred_allocation(request));
        let answer = answer.map_err(|status| status.message().to_owned())?.into_inner();
        Ok(answer.container_responses.into_iter().flat_map(|answer| answer.device_i_ds).collect())
    }

    /// Checks the devices of a container before its start.
    ///
    /// # Errors
    /// The text of the plugin.
    pub fn pre_start(&self, ids: &[&str]) -> Result<(), String> {
        let mut client = self.client.clone();
        let request = PreStartContainerRequest { devices_ids: owned(ids) };
        let answer = self.runtime.block_on(client.pre_start_container(request));
        answer.map(drop).map_err(|status| status.message().to_owned())
    }
}

fn owned(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}
