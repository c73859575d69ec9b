//! A client of the CRI (`runtime.v1.RuntimeService`), as in the kubelet, limited to pod sandboxes.
//!
//! The messages have the field numbers of Kubernetes' `cri-api/pkg/apis/runtime/v1/api.proto`, and only the fields in use.

use std::{collections::HashMap, path::Path, time::Duration};

use http::uri::PathAndQuery;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::{
    Request, Status,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

/// The timeout of a kubelet: its `runtimeRequestTimeout` is 2 min, and doubled for sandboxes.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A connection to the socket of a container runtime.
#[derive(Debug)]
pub struct Cri {
    runtime: Runtime,
    channel: Channel,
}

/// One of a runtime's conditions: `RuntimeReady`, `NetworkReady`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Condition {
    /// Name of the condition, for example `NetworkReady`.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// Whether the condition is true. Without `NetworkReady` a kubelet sets its node to NotReady.
    #[prost(bool, tag = "2")]
    pub holds: bool,
    /// Reason in CamelCase if the condition is false.
    #[prost(string, tag = "3")]
    pub reason: String,
    /// Reason as text if the condition is false.
    #[prost(string, tag = "4")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
struct CriStatusRequest {}

#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<RuntimeStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct RuntimeStatus {
    #[prost(message, repeated, tag = "1")]
    conditions: Vec<Condition>,
}

#[derive(Clone, PartialEq, Message)]
struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    metadata: Option<PodSandboxMetadata>,
    #[prost(string, tag = "2")]
    hostname: String,
    #[prost(string, tag = "3")]
    log_directory: String,
    #[prost(map = "string, string", tag = "7")]
    annotations: HashMap<String, String>,
    #[prost(message, optional, tag = "8")]
    linux: Option<LinuxPodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

#[derive(Clone, PartialEq, Message)]
struct LinuxPodSandboxConfig {
    #[prost(string, tag = "1")]
    cgroup_parent: String,
}

/// A request or a response that consists of a sandbox ID, or of which only the ID is read.
#[derive(Clone, PartialEq, Message)]
struct SandboxId {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct EmptyReply {}

#[derive(Clone, PartialEq, Message)]
struct ListPodSandboxRequest {}

#[derive(Clone, PartialEq, Message)]
struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    items: Vec<SandboxId>,
}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<PodSandboxStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxStatus {
    #[prost(message, optional, tag = "5")]
    network: Option<PodSandboxNetworkStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxNetworkStatus {
    #[prost(string, tag = "1")]
    ip: String,
}

impl Cri {
    /// Connects to a runtime.
    ///
    /// # Errors
    /// If no process listens on the socket.
    ///
    /// # Panics
    /// If the socket's path is not valid UTF-8.
    pub fn connect(socket: &Path) -> Result<Self, tonic::transport::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let uri = format!("unix://{}", socket.to_str().unwrap());
        let channel =
            runtime.block_on(async { Endpoint::from_shared(uri)?.timeout(TIMEOUT).connect().await })?;
        Ok(Self { runtime, channel })
    }

    /// Returns the runtime's conditions.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn conditions(&self) -> Result<Vec<Condition>, Status> {
        let response: StatusResponse = self.call("Status", CriStatusRequest {})?;
        Ok(response.status.unwrap_or_default().conditions)
    }

    /// Returns the condition `NetworkReady`.
    ///
    /// # Panics
    /// If the runtime does not report it.
    pub fn network_ready(&self) -> Condition {
        let conditions = self.conditions().unwrap();
        conditions.into_iter().find(|condition| condition.kind == "NetworkReady").unwrap()
    }

    /// Creates a pod's sandbox with its network, and returns the sandbox ID.
    ///
    /// # Errors
    /// The runtime's error, which a kubelet writes into the pod's event.
    pub fn run_pod_sandbox(&self, name: &str) -> Result<String, Status> {
        let metadata = PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("{name}-0000-4000-8000-000000000000"),
            namespace: "default".to_owned(),
        };
        let config = PodSandboxConfig {
            metadata: Some(metadata),
            hostname: name.to_owned(),
            log_directory: format!("/run/log/{name}"),
            annotations: HashMap::new(),
            linux: Some(LinuxPodSandboxConfig::default()),
        };
        let response: SandboxId =
            self.call("RunPodSandbox", RunPodSandboxRequest { config: Some(config) })?;
        Ok(response.id)
    }

    /// Returns the IDs of all sandboxes, ready or not.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn sandboxes(&self) -> Result<Vec<String>, Status> {
        let response: ListPodSandboxResponse = self.call("ListPodSandbox", ListPodSandboxRequest {})?;
        Ok(response.items.into_iter().map(|sandbox| sandbox.id).collect())
    }

    /// Returns the address of a sandbox, empty if it has none.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn address(&self, id: &str) -> Result<String, Status> {
        let response: PodSandboxStatusResponse =
            self.call("PodSandboxStatus", SandboxId { id: id.to_owned() })?;
        Ok(response.status.and_then(|status| status.network).unwrap_or_default().ip)
    }

    /// Stops and removes a pod's sandbox and its network.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn remove_pod_sandbox(&self, id: &str) -> Result<(), Status> {
        for method in ["StopPodSandbox", "RemovePodSandbox"] {
            let _: EmptyReply = self.call(method, SandboxId { id: id.to_owned() })?;
        }
        Ok(())
    }

    fn call<Q, A>(&self, method: &str, message: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = format!("/runtime.v1.RuntimeService/{method}");
        let path = PathAndQuery::try_from(path).map_err(|error| Status::internal(error.to_string()))?;
        self.runtime.block_on(async {
            let mut client = Grpc::new(self.channel.clone());
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let response = client.unary(Request::new(message), path, ProstCodec::<Q, A>::default()).await?;
            Ok(response.into_inner())
        })
    }
}
