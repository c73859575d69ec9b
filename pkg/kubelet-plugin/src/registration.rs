//! Registers a resource with the kubelet.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use kubelet_api::{
    DEVICE_PLUGIN_VERSION,
    deviceplugin::{RegisterRequest, registration_client::RegistrationClient},
};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::{Resource, service::OPTIONS};

/// Why a resource is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// The kubelet does not listen.
    #[error("{}: {source}: the kubelet is not running, or its root directory is another one", path.display())]
    Connect {
        /// The socket of the kubelet.
        path: PathBuf,
        /// The error.
        source: tonic::transport::Error,
    },
    /// The kubelet has refused the resource.
    #[error("the kubelet refuses {resource}: {}", status.message())]
    Refused {
        /// The resource.
        resource: String,
        /// The answer.
        status: Box<tonic::Status>,
    },
}

/// How long the kubelet may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Registers a resource whose socket is in the directory of the kubelet's socket.
pub(crate) async fn register(kubelet: &Path, resource: &dyn Resource) -> Result<(), RegistrationError> {
    let connect = |source| RegistrationError::Connect { path: kubelet.to_owned(), source };
    let channel = channel(kubelet.to_owned()).await.map_err(connect)?;
    let request = RegisterRequest {
        version: DEVICE_PLUGIN_VERSION.to_owned(),
        endpoint: resource.socket_name(),
        resource_name: resource.name(),
        options: Some(OPTIONS),
    };
    match RegistrationClient::new(channel).register(request).await {
        Ok(_) => Ok(()),
        Err(status) => {
            Err(RegistrationError::Refused { resource: resource.name(), status: Box::new(status) })
        }
    }
}

/// Connects to a Unix socket. The address is required, and not used.
async fn channel(path: PathBuf) -> Result<Channel, tonic::transport::Error> {
    let connect = service_fn(move |_| {
        let path = path.clone();
        async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
    });
    let endpoint = Endpoint::from_static("http://localhost").timeout(TIMEOUT).connect_timeout(TIMEOUT);
    endpoint.connect_with_connector(connect).await
}
