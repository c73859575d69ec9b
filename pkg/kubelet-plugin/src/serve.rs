//! Serves a resource as long as the kubelet may want it.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use kubelet_api::deviceplugin::device_plugin_server::DevicePluginServer;
use kubelet_checkpoint::KubeletDirectory;
use tokio::{net::UnixListener, sync::watch, task::JoinHandle};
use tokio_stream::{StreamExt, wrappers::UnixListenerStream};
use tonic::transport::Server;
use tracing::{info, warn};

use crate::{
    Resource, directory_watch::DirectoryWatch, local_authority::LocalAuthority, registration::register,
    service::ResourceService, watchers::Watchers,
};

/// Why a resource cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be created.
    #[error("{}: {source}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// The delays between attempts to register.
const FIRST_DELAY: Duration = Duration::from_millis(20);
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// How long a kubelet that is registered with may not watch the devices, such as after it lost the connection: it does not
/// connect again by itself.
const LONGEST_IDLE_TIME: Duration = Duration::from_secs(5);

/// Serves a resource until `ends` is true, and deletes its socket then. A kubelet that is not there is waited for.
///
/// # Errors
/// [`ServeError`] if the socket cannot be created for a reason that does not pass.
pub async fn serve(
    directory: &KubeletDirectory,
    resource: Arc<dyn Resource>,
    mut ends: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let mut changes = DirectoryWatch::new(directory.0.clone());
    let mut session = Session::new(directory, resource, ends.clone());
    loop {
        let retry = tokio::select! {
            retry = session.advance() => retry?,
            // A kubelet that hangs does not delay the end.
            _ = ends.wait_for(|has_ended| *has_ended) => break,
        };
        let timer = async {
            match retry {
                Some(delay) => tokio::time::sleep(delay).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changes.changed() => {}
            () = timer => {}
            _ = ends.wait_for(|has_ended| *has_ended) => break,
        }
    }
    session.end();
    Ok(())
}

/// The identity of a file, which a new one with the same name does not have.
type FileId = (u64, u64);

fn file_id(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

/// The state of a resource.
struct Session<'a> {
    directory: &'a KubeletDirectory,
    resource: Arc<dyn Resource>,
    ends: watch::Receiver<bool>,
    server: Option<RunningServer>,
    /// The socket of the kubelet that knows the resource.
    registered: Option<FileId>,
    watchers: Watchers,
    /// The socket that the last attempt to register was made with, and when the next one is due.
    attempt: Option<(FileId, Instant)>,
    delay: Duration,
    /// What was logged last, unless it has passed.
    reported: Option<String>,
}

/// A server with its socket.
struct RunningServer {
    socket: FileId,
    task: JoinHandle<()>,
}

impl<'a> Session<'a> {
    fn new(
        directory: &'a KubeletDirectory,
        resource: Arc<dyn Resource>,
        ends: watch::Receiver<bool>,
    ) -> Self {
        Self {
            directory,
            resource,
            ends,
            server: None,
            registered: None,
            watchers: Watchers::new(),
            attempt: None,
            delay: FIRST_DELAY,
            reported: None,
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.0.join(self.resource.socket_name())
    }

    /// Serves and registers, if that is necessary and possible now. Returns after how long to try again.
    async fn advance(&mut self) -> Result<Option<Duration>, ServeError> {
        let Some(kubelet) = file_id(&self.directory.socket()) else {
            self.registered = None;
            self.report(&format!(
                "waiting for the kubelet: {} does not exist",
                self.directory.socket().display()
            ));
            return Ok(None);
        };
        // The kubelet deletes the sockets before it creates its own.
        self.ensure_server()?;
        if self.server.is_none() {
            return Ok(Some(FIRST_DELAY));
        }
        if self.registered == Some(kubelet) && self.watchers.idle() < LONGEST_IDLE_TIME {
            return Ok(None);
        }
        if let Some((socket, next)) = self.attempt
            && socket == kubelet
            && let Some(wait) = next.checked_duration_since(Instant::now())
        {
            return Ok(Some(wait));
        }
        if self.attempt.is_some_and(|(socket, _)| socket != kubelet) {
            self.delay = FIRST_DELAY;
        }
        match register(&self.directory.socket(), &*self.resource).await {
            Ok(()) => {
                if self.registered == Some(kubelet) {
                    self.report("the kubelet did not watch the devices: registered again");
                } else {
                    info!(resource = self.resource.name(), "registered with the kubelet");
                    self.reported = None;
                }
                self.watchers.expect();
                (self.registered, self.attempt, self.delay) = (Some(kubelet), None, FIRST_DELAY);
                Ok(None)
            }
            Err(error) => {
                self.report(&format!("not registered: {error}"));
                let delay = self.delay;
                self.attempt = Some((kubelet, Instant::now() + delay));
                self.delay = (delay * 2).min(LONGEST_DELAY);
                Ok(Some(delay))
            }
        }
    }

    /// Logs what has changed, and not that it still is so.
    fn report(&mut self, what: &str) {
        if self.reported.as_deref() != Some(what) {
            warn!(resource = self.resource.name(), "{what}");
            self.reported = Some(what.to_owned());
        }
    }

    /// Starts the server, if its socket is gone.
    fn ensure_server(&mut self) -> Result<(), ServeError> {
        let path = self.path();
        let present = file_id(&path);
        if let Some(server) = &self.server
            && present == Some(server.socket)
            && !server.task.is_finished()
        {
            return Ok(());
        }
        self.stop();
        (self.registered, self.attempt) = (None, None);
        self.server = match self.start(&path) {
            // The kubelet has just deleted the socket or its directory.
            Err(source) if source.kind() == io::ErrorKind::NotFound => None,
            server => Some(server.map_err(|source| ServeError::Socket { path, source })?),
        };
        Ok(())
    }

    fn start(&self, path: &Path) -> io::Result<RunningServer> {
        // Of an earlier process: it can no longer be connected to.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        let socket = file_id(path).ok_or(io::ErrorKind::NotFound)?;
        let service =
            ResourceService::new(Arc::clone(&self.resource), self.ends.clone(), self.watchers.clone());
        let name = self.resource.name();
        let mut ends = self.ends.clone();
        let task = tokio::spawn(async move {
            let server = Server::builder().add_service(DevicePluginServer::new(service));
            let end = async move { drop(ends.wait_for(|has_ended| *has_ended).await) };
            let connections = UnixListenerStream::new(listener).map(|stream| stream.map(LocalAuthority::new));
            if let Err(error) = server.serve_with_incoming_shutdown(connections, end).await {
                warn!(resource = name, %error, "the server has ended");
            }
        });
        Ok(RunningServer { socket, task })
    }

    fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.task.abort();
        }
    }

    /// Ends the server, and deletes its socket unless another process has created a new one.
    fn end(mut self) {
        let path = self.path();
        if self.server.as_ref().is_some_and(|server| file_id(&path) == Some(server.socket)) {
            let _ = fs::remove_file(&path);
        }
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use kubelet_api::deviceplugin::ContainerAllocateResponse;

    use super::*;
    use crate::{DeviceList, ResourceError};

    struct NoDevices(watch::Sender<DeviceList>);

    impl Resource for NoDevices {
        fn name(&self) -> String {
            "a.io/vf".into()
        }

        fn socket_name(&self) -> String {
            "a.sock".into()
        }

        fn devices(&self) -> watch::Receiver<DeviceList> {
            self.0.subscribe()
        }

        fn preferred(
            &self,
            _: &[String],
            _: &[String],
            _: usize,
        ) -> Result<Option<Vec<String>>, ResourceError> {
            Ok(None)
        }

        fn allocate(&self, _: &[String]) -> Result<ContainerAllocateResponse, ResourceError> {
            Ok(ContainerAllocateResponse::default())
        }

        fn check(&self, _: &[String]) -> Result<(), ResourceError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn attempts_become_rarer_until_there_is_another_kubelet() {
        let dir = tempfile::tempdir().unwrap();
        let directory = KubeletDirectory(dir.path().to_owned());
        // A kubelet that does not listen.
        fs::write(directory.socket(), "").unwrap();
        let (_ends, has_ended) = watch::channel(false);
        let mut session =
            Session::new(&directory, Arc::new(NoDevices(watch::Sender::new(Vec::new()))), has_ended);
        let mut delays = Vec::new();
        for _ in 0..12 {
            let delay = session.advance().await.unwrap().unwrap();
            let next = session.attempt.unwrap().1;
            assert!(session.advance().await.unwrap().unwrap() <= delay);
            assert_eq!(session.attempt.unwrap().1, next, "not before the time");
            session.attempt = session.attempt.map(|(socket, _)| (socket, Instant::now()));
            delays.push(delay);
        }
        assert_eq!(delays[..3], [1, 2, 4].map(|factor| FIRST_DELAY * factor));
        assert_eq!(delays[11], LONGEST_DELAY);
        fs::rename(directory.socket(), dir.path().join("former.sock")).unwrap();
        session.registered = file_id(&dir.path().join("former.sock"));
        assert_eq!(session.advance().await.unwrap(), None);
        assert_eq!(session.registered, None, "a kubelet that is gone does not know the resource");
        fs::write(directory.socket(), "").unwrap();
        assert_eq!(session.advance().await.unwrap(), Some(FIRST_DELAY));
    }
}
