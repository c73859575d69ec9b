//! The way to the API server.

use std::{env, time::Duration};

use kube::{
    Client, Config,
    config::{InClusterError, KubeConfigOptions, KubeconfigError},
};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// There should be an API server, but it cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pod has no service account.
    #[error("{0}; does the pod have automountServiceAccountToken: false?")]
    InCluster(#[source] Box<InClusterError>),
    /// `KUBECONFIG` names no good file.
    #[error("KUBECONFIG: {0}")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    /// Certificates or tokens cannot be used.
    #[error("prepare the connection to the API server: {0}")]
    Client(#[source] Box<kube::Error>),
}

/// The API server by the pod's service account, else by the file that `KUBECONFIG` names. `None` if there is neither.
/// A token or a certificate authority that changes in the service account's files is read again.
///
/// Nothing is asked yet. Must be called in a runtime.
pub async fn connect() -> Result<Option<Client>, Error> {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let config = if is_set("KUBERNETES_SERVICE_HOST") {
        Config::incluster().map_err(|error| Error::InCluster(Box::new(error)))?
    } else if is_set("KUBECONFIG") {
        let options = KubeConfigOptions::default();
        Config::from_kubeconfig(&options).await.map_err(|error| Error::Kubeconfig(Box::new(error)))?
    } else {
        return Ok(None);
    };
    client(config).map(Some)
}

fn client(mut config: Config) -> Result<Client, Error> {
    config.connect_timeout = Some(CONNECT);
    config.default_retry = false; // each question has its own pace, and its failures are counted
    Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))
}
