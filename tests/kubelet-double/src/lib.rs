//! A double of the kubelet: it speaks the API of device plugins over its sockets, restarts, and deletes the sockets of
//! plugins.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use kubelet_api::deviceplugin::{
    Empty, RegisterRequest,
    device_plugin_client::DevicePluginClient,
    registration_server::{Registration, RegistrationServer},
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint, Server},
};
use tower::service_fn;

/// How long a registration may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running kubelet.
#[derive(Debug)]
pub struct Kubelet {
    directory: PathBuf,
    registrations: mpsc::UnboundedReceiver<RegisterRequest>,
    task: JoinHandle<()>,
}

/// Notes the registrations, after a number of refusals.
struct Registrations(mpsc::UnboundedSender<RegisterRequest>, Arc<Mutex<u32>>);

#[tonic::async_trait]
impl Registration for Registrations {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let mut refusals = self.1.lock().unwrap();
        if *refusals > 0 {
            *refusals -= 1;
            return Err(Status::invalid_argument("not now"));
        }
        self.0.send(request.into_inner()).unwrap();
        Ok(Response::new(Empty {}))
    }
}

impl Kubelet {
    /// Starts as the kubelet does: it deletes the sockets in its directory, and creates its own. Must be called in a runtime.
    ///
    /// # Panics
    /// If the directory cannot be written.
    pub fn start(directory: &Path, refusals: u32) -> Self {
        fs::create_dir_all(directory).unwrap();
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_name() != "kubelet_internal_checkpoint" {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let listener = UnixListener::bind(directory.join("kubelet.sock")).unwrap();
        let (sender, registrations) = mpsc::unbounded_channel();
        let service = RegistrationServer::new(Registrations(sender, Arc::new(Mutex::new(refusals))));
        let server = Server::builder().add_service(service);
        let task = tokio::spawn(async move {
            server.serve_with_incoming(UnixListenerStream::new(listener)).await.unwrap();
        });
        Self { directory: directory.to_owned(), registrations, task }
    }

    /// Waits for the next registration.
    ///
    /// # Panics
    /// If there is none.
    pub async fn registration(&mut self) -> RegisterRequest {
        timeout(TIMEOUT, self.registrations.recv()).await.expect("no registration").unwrap()
    }

    /// Whether there was another registration.
    pub fn has_registration(&mut self) -> bool {
        self.registrations.try_recv().is_ok()
    }

    /// Connects to a plugin, as after its registration.
    ///
    /// # Panics
    /// If it does not listen.
    pub async fn plugin(&self, endpoint: &str) -> DevicePluginClient<Channel> {
        let path = self.directory.join(endpoint);
        let connect = service_fn(move |_| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        let channel =
            Endpoint::from_static("http://localhost").connect_with_connector(connect).await.unwrap();
        DevicePluginClient::new(channel)
    }

    /// Ends it, and its socket stays, as after SIGKILL.
    pub fn stop(self) {
        self.task.abort();
    }
}
